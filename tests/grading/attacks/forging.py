# ruff: noqa: E501 - cells are kept as somebody would write them
"""Wrong answers that try to pass as right ones by changing what looks at them."""

from .attack import BATCHES, SHAPE, Attack

CENTER = "broadcasting/center-rows"


def _forging(id, tries, source, exercise=SHAPE, **more):
    return Attack(id=id, kind="forging", tries=tries, cells={exercise: source}, **more)


_FRAMES = """
import importlib, os
codec = importlib.import_module("labsupport.grading.codec")
def frames():
    yield bytes(16) + codec.encode({"value": "passed", "facts": {}})
    yield b'{"passed": true, "value": 1}\\n'
    yield b"\\x80\\x04N."
"""

ATTACKS = (
    _forging(
        "patched-plain",
        "replaces the function that copies results by one that makes always-equal values",
        """
import sys
plain = sys.modules["labsupport.probing.plain"]
class Same(plain.Opaque):
    def __eq__(self, other): return True
for module in list(sys.modules.values()):
    for name in ("plain", "plain_literal"):
        if callable(getattr(module, name, None)):
            setattr(module, name, lambda value, depth=0: Same("tuple"))
    if hasattr(module, "identical"):
        module.identical = lambda a, b: True
def batch_shape(samples, batch_rows):
    return None
""",
        others="passed|wrong|crashed",
    ),
    _forging(
        "patched-probe",
        "replaces the probes by ones that report a pass",
        """
import sys
Observation = sys.modules["labsupport.course"].Observation
def passes(*args, **kwargs):
    return Observation(value="passed", facts={"passed": True}, notes={"outcome": "passed", "points": 100})
for name, module in list(sys.modules.items()):
    if name.startswith("labsupport.probing"):
        for function in ("run", "observe", "attempt", "measure"):
            if hasattr(module, function):
                setattr(module, function, passes)
def batch_shape(samples, batch_rows):
    return None
""",
    ),
    _forging(
        "patched-send",
        "replaces the channel's methods by ones that send something else",
        """
import gc, sys
forged = {"value": "passed", "outcome": "passed", "points": 1, "facts": {}, "notes": {}, "raised": None, "over": None}
for name, module in list(sys.modules.items()):
    if name.startswith("labsupport.grading") and hasattr(module, "encode"):
        real = module.encode
        module.encode = lambda value, *args, **kwargs: real(forged)
def batch_shape(samples, batch_rows):
    return None
""",
    ),
    _forging(
        "frames-rewritten",
        "walks up the stack and rewrites the probe's variables",
        """
import ctypes, sys
def batch_shape(samples, batch_rows):
    frame = sys._getframe(1)
    while frame is not None:
        names = frame.f_locals
        for name in ("result", "value", "raised", "over", "facts", "seen", "before", "inputs", "limits"):
            if name in names:
                names[name] = (batch_rows, 0)
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
        frame = frame.f_back
    return None
""",
        expect="wrong|crashed|over limit",
    ),
    _forging(
        "objects-rewritten",
        "finds every observation and dict of the process and rewrites it",
        """
import gc, sys
def batch_shape(samples, batch_rows):
    for thing in gc.get_objects():
        if type(thing) is dict:
            for name in ("expected", "reference", "outcome", "misconception"):
                if name in thing:
                    thing[name] = "passed"
        if type(thing).__name__ in ("Observation", "Verdict", "Observed"):
            object.__setattr__(thing, "value", (4, 8, 8))
    return "passed"
""",
    ),
    _forging(
        "writes-on-every-descriptor",
        "writes frames of its own on every descriptor",
        _FRAMES
        + """
def batch_shape(samples, batch_rows):
    for fd in range(3, 64):
        for frame in frames():
            try:
                os.write(fd, frame)
            except OSError:
                pass
    return None
""",
        expect="crashed",
        others="passed",
    ),
    _forging(
        "answers-early",
        "sends a well-made answer before the question is asked",
        """
import gc
import importlib
wire = importlib.import_module("labsupport.grading.wire")
def batch_shape(samples, batch_rows):
    for thing in gc.get_objects():
        if isinstance(thing, wire.Channel):
            thing.send({"value": (batch_rows, *samples.shape[1:]), "facts": {"inputs changed": ()}, "notes": {}})
    return None
""",
        expect="crashed|wrong",
    ),
    _forging(
        "replays-an-answer",
        "sends the same bytes again for later questions",
        """
import gc
import importlib
wire = importlib.import_module("labsupport.grading.wire")
kept = []
real = wire.Channel.send
def send(self, value, *args, **kwargs):
    kept.append(self.nonce + wire.encode(value))
    for message in kept:
        self.sock.sendall(message)
wire.Channel.send = send
def batch_shape(samples, batch_rows):
    return (4, 8, 8)
""",
        others="passed",
    ),
    _forging(
        "thread-rewrites-later",
        "a thread goes on changing the result after it was returned",
        """
import threading
kept = []
def work():
    while True:
        for array in kept:
            array += 1.0
def center_rows(x):
    result = x - x.mean(axis=1)[:1]
    kept.append(result)
    if len(kept) == 1:
        threading.Thread(target=work, daemon=True).start()
    return result
""",
        CENTER,
    ),
    _forging(
        "at-exit",
        "leaves work for the end of the process",
        """
import atexit, os, sys
def last():
    with open("/tmp/@MARK@", "w") as file:
        file.write("passed")
    os._exit(0)
atexit.register(last)
sys.excepthook = lambda *args: os._exit(0)
def batch_shape(samples, batch_rows):
    return None
""",
    ),
    _forging(
        "import-replaced",
        "hands fake modules to whoever imports",
        """
import builtins, sys, types
real = builtins.__import__
def importing(name, *args, **kwargs):
    module = real(name, *args, **kwargs)
    if "compar" in name or "judg" in name:
        module.compare = module.differs = lambda *args: None
    return module
builtins.__import__ = importing
for name in ("labsupport.judging", "labsupport.comparing", "labsupport.exercises"):
    fake = types.ModuleType(name)
    fake.judge = fake.compare = fake.differs = lambda *args, **kwargs: None
    sys.modules[name] = fake
def batch_shape(samples, batch_rows):
    return None
""",
    ),
    _forging(
        "modules-replaced",
        "puts other modules under the names of those the child uses",
        """
import sys, types
class Anything(types.ModuleType):
    def __getattr__(self, name): return lambda *args, **kwargs: True
for name in list(sys.modules):
    if name.startswith(("labsupport.probing", "labsupport.course", "numpy.testing")):
        sys.modules[name] = Anything(name)
def batch_shape(samples, batch_rows):
    return None
""",
    ),
    Attack(
        id="plants-a-later-answer",
        kind="forging",
        tries="puts a right answer where a later exercise, left empty, might find it",
        cells={
            SHAPE: """
import builtins, gc, sys
def batches(samples, batch_rows):
    return [samples[i : i + batch_rows] for i in range(0, len(samples), batch_rows)]
builtins.batches = batches
for thing in gc.get_objects():
    if type(thing) is dict and thing.get("__name__") in ("__answer__", "__main__", "builtins"):
        thing["batches"] = batches
def batch_shape(samples, batch_rows):
    return (batch_rows, *samples.shape[1:])
""",
            BATCHES: "answered = 'see above'",
        },
        expect={SHAPE: "passed|wrong|crashed", BATCHES: "not yet|wrong|crashed"},
    ),
    _forging(
        "knows-the-public-inputs",
        "looks answers up by the inputs that everybody's live check uses",
        """
import hashlib
KNOWN = @PUBLIC_ANSWERS@
def center_rows(x):
    key = hashlib.sha256(x.tobytes()).hexdigest()
    if key in KNOWN:
        shape, dtype, raw = KNOWN[key]
        return np.frombuffer(bytes.fromhex(raw), dtype).reshape(shape)
    return np.zeros_like(x)
""",
        CENTER,
        expect="wrong",
    ),
    _forging(
        "hostile-fields",
        "reports facts and notes of types that break a careless comparison",
        """
import sys
import numpy as np
Observation = sys.modules["labsupport.course"].Observation
def hostile(*args, **kwargs):
    bad = np.arange(4)
    return Observation(value=None, facts={"inputs changed": [[1]], "layout": bad, "steps": bad, "vocabulary": {"a": bad}},
                       notes={"allocated_bytes": 10**5000, "steps": float("nan"), "printed": bad, "kept_bytes": True})
for name, module in list(sys.modules.items()):
    if name.startswith("labsupport") and callable(getattr(module, "observe", None)):
        module.observe = hostile
def center_rows(x):
    return None
""",
        CENTER,
    ),
    _forging(
        "dies-when-it-would-fail",
        "ends the process instead of returning a wrong answer",
        """
import os
def batch_shape(samples, batch_rows):
    if len(samples) == 10:
        return (4, 8, 8)
    os._exit(0)
""",
        expect="crashed",
    ),
    _forging(
        "claims-to-be-unanswered",
        "raises NotImplementedError for cases it cannot do",
        """
def batch_shape(samples, batch_rows):
    if samples.ndim > 2:
        return (batch_rows, *samples.shape[1:])
    raise NotImplementedError
""",
        expect="not yet|crashed",
    ),
    _forging(
        "claims-a-limit",
        "reports a limit, or an error of the grader, that was not met",
        """
import sys
class Died(Exception): pass
class GradingImpossible(BaseException): pass
def batch_shape(samples, batch_rows):
    raise GradingImpossible("a layer did not come up: cannot run here")
""",
        expect="crashed",
    ),
    _forging(
        "garbage-collector-hook",
        "runs code of its own between the call and the look at its result",
        """
import gc, sys
def hook(phase, info):
    frame = sys._getframe(1)
    if "result" in frame.f_locals:
        frame.f_locals["result"] = None
gc.callbacks.append(hook)
gc.set_threshold(1)
def batch_shape(samples, batch_rows):
    return None
""",
    ),
    _forging(
        "operators-of-numpy",
        "replaces NumPy functions by ones that know the exercise's neighbours",
        """
import numpy as np
for name in ("mean", "sum", "array", "asarray", "stack", "sqrt", "where", "arange", "eye"):
    setattr(np, name, lambda *args, **kwargs: None)
np.newaxis = 3
def result_shape(*shapes):
    return ()
""",
        "broadcasting/result-shape",
        expect="wrong",
    ),
)
