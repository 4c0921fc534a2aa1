# ruff: noqa: E501 - cells are kept as somebody would write them
"""Honest notebooks with something unlucky in them. A right answer among it has to pass; what is wrong is said kindly."""

from .attack import BATCHES, SHAPE, Attack

CENTER = "broadcasting/center-rows"
MSE = "broadcasting/silent-mse"
COUNT = "start-here/predict-batches"
RIGHT = "def batch_shape(samples, batch_rows):\n    return (batch_rows, *samples.shape[1:])\n"
OTHER = "def batches(samples, batch_rows):\n    return [samples[i : i + batch_rows] for i in range(0, len(samples), batch_rows)]\n"


def _accident(id, tries, source, expect="passed", exercise=SHAPE, **more):
    return Attack(id=id, kind="accident", tries=tries, cells={exercise: source}, expect=expect, **more)


_LONG = RIGHT + "".join(f"table_{i} = {i} * 2  # kept while trying things out\n" for i in range(450))

ATTACKS = (
    # -- ends and exceptions: the exercise's own, nobody else's
    _accident(
        "exit-while-loading", "calls sys.exit below the answer", RIGHT + "import sys\nsys.exit(0)\n", "passed|crashed"
    ),
    _accident("exit-before-the-answer", "calls exit() above the answer", "exit()\n" + RIGHT, "crashed"),
    _accident(
        "quit-in-the-answer",
        "calls quit() inside",
        "def batch_shape(samples, batch_rows):\n    quit()\n",
        "crashed",
        says="quit",
    ),
    _accident("hard-exit-while-loading", "ends Python hard in its cell", "import os\nos._exit(0)\n" + RIGHT, "crashed"),
    _accident(
        "hard-exit-in-an-assignment",
        "ends Python hard in an assignment",
        RIGHT + "import os\ndone = os._exit(0)\n",
        "passed|crashed",
    ),
    _accident("abort", "aborts", "import os\ndef batch_shape(samples, batch_rows):\n    os.abort()\n", "crashed"),
    _accident(
        "interrupts-itself",
        "raises KeyboardInterrupt",
        "def batch_shape(samples, batch_rows):\n    raise KeyboardInterrupt\n",
        "crashed",
    ),
    _accident(
        "exception-that-cannot-be-shown",
        "raises an exception whose text raises",
        """
class Odd(Exception):
    def __str__(self): raise RuntimeError("no text")
    __repr__ = __str__
def batch_shape(samples, batch_rows):
    raise Odd()
""",
        "crashed",
        says="odd",
    ),
    _accident(
        "exception-whose-text-exits",
        "raises an exception whose text ends Python",
        """
import sys
class Odd(Exception):
    def __str__(self): sys.exit(0)
def batch_shape(samples, batch_rows):
    raise Odd()
""",
        "crashed",
    ),
    _accident(
        "recursion",
        "forgets where its recursion ends",
        "def batch_shape(samples, batch_rows):\n    return batch_shape(samples, batch_rows)\n",
        "crashed",
        says="recursionerror",
    ),
    _accident(
        "syntax-error",
        "leaves a bracket open",
        "def batch_shape(samples, batch_rows):\n    return (batch_rows, *samples.shape[1:]\n",
        "crashed",
        says="syntaxerror",
    ),
    _accident(
        "mixed-indentation",
        "mixes tabs and spaces so that Python refuses",
        "def batch_shape(samples, batch_rows):\n    a = 1\n\tb = 2\n\treturn (batch_rows,)\n",
        "crashed",
    ),
    _accident(
        "exception-group",
        "raises an exception group",
        "def batch_shape(samples, batch_rows):\n    raise ExceptionGroup('both', [ValueError('a'), TypeError('b')])\n",
        "crashed",
    ),
    # -- noise
    _accident(
        "warns",
        "raises a warning on the way",
        "import warnings\n" + RIGHT.replace("return", "warnings.warn('old')\n    return"),
    ),
    _accident(
        "warns-of-division",
        "divides by zero on the way",
        RIGHT.replace("return", "np.ones(3) / np.zeros(3)\n    return"),
    ),
    _accident(
        "prints-progress",
        "prints progress to both streams",
        "import sys\n"
        + RIGHT.replace("return", "print('working', end='\\r')\n    print('50 %', file=sys.stderr)\n    return"),
    ),
    _accident(
        "logs",
        "sets logging up and logs",
        "import logging\nlogging.basicConfig(level=logging.DEBUG)\n"
        + RIGHT.replace("return", "logging.getLogger().debug('in %s', samples)\n    return"),
    ),
    _accident(
        "streams-replaced",
        "replaces the standard streams and closes one",
        "import io, sys\nsys.stdout = io.StringIO()\nsys.stderr.close()\n" + RIGHT,
    ),
    _accident(
        "asks-a-question",
        "waits for input",
        RIGHT.replace("return", "name = input('Which axis? ')\n    return"),
        "crashed",
    ),
    _accident(
        "tries-its-answer-below",
        "calls its answer on data of the lesson, below it",
        RIGHT + "batch_shape(digits, 64)\nprint(batch_shape(digits, 64))\n",
    ),
    _accident(
        "checks-its-answer-below",
        "asserts something about its answer that is not so",
        RIGHT + "assert batch_shape(np.zeros((4, 2)), 2) == (2,)\n",
    ),
    _accident(
        "calls-the-check-itself", "calls the lesson's check in the answer's cell", RIGHT + "lab.check('return-shape')\n"
    ),
    _accident("plots", "draws its data", RIGHT + "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()\n"),
    # -- notebook syntax
    _accident("line-magic", "has a line magic on top", "%matplotlib inline\n" + RIGHT),
    _accident("magic-below", "times its answer below", RIGHT + "%timeit batch_shape(np.zeros((10, 8)), 4)\n"),
    _accident("cell-magic", "times the whole cell", "%%time\n" + RIGHT),
    _accident("shell-line", "installs a package first", "!pip install numpy\n" + RIGHT),
    _accident("help-line", "asks for help below", RIGHT + "np.mean?\n?np.sum\n"),
    _accident("await-at-top-level", "awaits in its cell", "import asyncio\nawait asyncio.sleep(0)\n" + RIGHT),
    _accident(
        "async-helpers",
        "uses asyncio inside",
        "import asyncio\nasync def shape_of(x):\n    await asyncio.sleep(0)\n    return x.shape\ndef batch_shape(samples, batch_rows):\n    return (batch_rows, *asyncio.run(shape_of(samples))[1:])\n",
    ),
    # -- text
    _accident(
        "non-ascii-names",
        "names things in its own language",
        "def größe(π):\n    return π.shape[1:]\ndef batch_shape(samples, batch_rows):\n    数 = batch_rows\n    return (数, *größe(samples))  # Größe der Ränder: ≈ 数\n",
    ),
    _accident(
        "composed-and-decomposed",
        "spells one name in two Unicode forms",
        "cafe\u0301 = 1\ndef batch_shape(samples, batch_rows):\n    return (batch_rows * caf\u00e9, *samples.shape[1:])\n",
    ),
    _accident("very-long-cell", "has 450 lines", _LONG),
    _accident("cell-beyond-measure", "has 9,000 lines", _LONG * 20, "unreadable|not yet"),
    _accident("windows-line-ends", "was saved on Windows", RIGHT.replace("\n", "\r\n")),
    _accident("tabs", "indents with tabs", RIGHT.replace("    ", "\t")),
    _accident("form-feeds", "holds form feeds", "\f\n" + RIGHT + "\f\n"),
    _accident("future-import", "begins with a future import", "from __future__ import annotations\n" + RIGHT),
    _accident("line-continuations", "breaks lines by backslash", RIGHT.replace("return (", "return \\\n        (")),
    # -- ways to define an answer
    _accident(
        "defined-twice",
        "defines its answer twice in a cell; the second counts",
        "def batch_shape(samples, batch_rows):\n    return None\n" + RIGHT,
    ),
    _accident(
        "lambda",
        "writes its answer as a lambda",
        "batch_shape = lambda samples, batch_rows: (batch_rows, *samples.shape[1:])\n",
    ),
    _accident(
        "another-name",
        "gives a function a second name",
        RIGHT.replace("def batch_shape", "def mine") + "batch_shape = mine\n",
    ),
    _accident(
        "decorated",
        "decorates its answer",
        "import functools\ndef loud(function):\n    @functools.wraps(function)\n    def inner(*args):\n        return function(*args)\n    return inner\n@loud\n"
        + RIGHT,
    ),
    _accident(
        "callable-object",
        "makes an object that can be called",
        "class Shape:\n    def __call__(self, samples, batch_rows):\n        return (batch_rows, *samples.shape[1:])\nbatch_shape = Shape()\n",
    ),
    _accident(
        "data-class",
        "uses a data class with annotations",
        "from dataclasses import dataclass\n@dataclass\nclass Batch:\n    rows: int\n    rest: tuple\ndef batch_shape(samples: np.ndarray, batch_rows: int) -> tuple[int, ...]:\n    b = Batch(batch_rows, samples.shape[1:])\n    return (b.rows, *b.rest)\n",
    ),
    _accident(
        "main-guard",
        "guards its trials by __name__",
        RIGHT + "if __name__ == '__main__':\n    print(batch_shape(undefined, 3))\n",
    ),
    _accident(
        "prediction-as-list",
        "predicts by a computation with NumPy scalars",
        "n_batches = np.int64(1797 // 64 + 1)\n",
        exercise=COUNT,
    ),
    _accident(
        "prediction-in-two-steps",
        "computes its prediction in steps",
        "full = 1797 // 64\nrest = 1797 % 64\nn_batches = full + (rest > 0)\n",
        exercise=COUNT,
    ),
    # -- state that leaks, by accident, from one exercise into the next
    _accident(
        "overwrites-a-library-name",
        "gives `np` another meaning at the end of its cell",
        RIGHT + "np = 5\nlist = [1]\nlen = 3\n",
        others="passed|crashed",
    ),
    _accident(
        "global-settings",
        "changes settings of NumPy, warnings and Python",
        "import sys, warnings\nnp.seterr(all='raise')\nwarnings.simplefilter('error')\nnp.set_printoptions(precision=1)\nsys.setrecursionlimit(200)\nimport gc\ngc.disable()\n"
        + RIGHT,
    ),
    _accident(
        "breaks-numpy",
        "assigns to a function of NumPy instead of calling it",
        "np.zeros = (3, 4)\nnp.mean = 5\n" + RIGHT,
    ),
    _accident(
        "breaks-a-builtin",
        "assigns to built-in names through the module",
        "import builtins\nbuiltins.range = 5\nbuiltins.len = None\n" + RIGHT,
        "passed|crashed|wrong",
    ),
    _accident(
        "changes-folder",
        "moves to another folder and removes the old one",
        "import os\nold = os.getcwd()\nos.makedirs('a', exist_ok=True)\nos.chdir('a')\n" + RIGHT,
    ),
    _accident("deletes-names", "deletes what it no longer needs", RIGHT + "del np\n"),
    _accident(
        "leaves-a-thread",
        "leaves a timer and a thread behind",
        "import threading\nthreading.Timer(60, print).start()\n" + RIGHT,
    ),
    _accident(
        "leaves-files",
        "leaves files in its folder",
        RIGHT + "open('out.txt', 'w').write('x')\nnp.save('a.npy', np.ones(3))\n",
    ),
    _accident(
        "sets-a-timer",
        "uses an alarm of its own",
        "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_DFL)\nsignal.alarm(100)\n" + RIGHT,
    ),
    _accident(
        "traces",
        "switches a tracer on and forgets it",
        "import sys, tracemalloc\ntracemalloc.start()\nsys.setprofile(lambda *args: None)\nsys.settrace(lambda *args: None)\n"
        + RIGHT,
    ),
    # -- later cells and helpers
    Attack(
        id="overwritten-in-a-later-cell",
        kind="accident",
        tries="gives the answer's name another meaning in a later cell",
        cells={SHAPE: RIGHT},
        after=("batch_shape = (4, 8, 8)\n",),
        expect="passed",
    ),
    Attack(
        id="name-used-again",
        kind="accident",
        tries="uses one exercise's name for data in the next one's cell",
        cells={SHAPE: RIGHT, BATCHES: "batch_shape = (4, 2)\n" + OTHER},
        expect="passed",
    ),
    Attack(
        id="helper-in-its-own-cell",
        kind="accident",
        tries="keeps a helper and a constant in a cell of their own",
        cells={SHAPE: "def batch_shape(samples, batch_rows):\n    return (batch_rows, *rest(samples, FIRST))\n"},
        loose=("FIRST = 1\n", "def rest(x, first):\n    return x.shape[first:]\n"),
        expect="passed",
    ),
    Attack(
        id="helper-from-another-answer",
        kind="accident",
        tries="uses one exercise's answer in the next",
        cells={
            SHAPE: RIGHT,
            BATCHES: "def batches(samples, batch_rows):\n    (step, *_) = batch_shape(samples, batch_rows)\n    return [samples[i : i + step] for i in range(0, len(samples), step)]\n",
        },
        expect="passed",
    ),
    Attack(
        id="helper-from-a-deleted-cell",
        kind="accident",
        tries="uses a helper whose cell was deleted",
        cells={SHAPE: "def batch_shape(samples, batch_rows):\n    return (batch_rows, *rest(samples))\n"},
        expect="crashed",
        says="rest",
    ),
    Attack(
        id="helper-cell-that-ends-python",
        kind="accident",
        tries="has an earlier cell that ends Python in an assignment",
        cells={SHAPE: RIGHT},
        loose=("import os\nnever = os._exit(0)\n",),
        expect="passed",
    ),
    Attack(
        id="helper-cell-that-hangs",
        kind="accident",
        tries="has an earlier cell that waits for ever in an assignment",
        cells={SHAPE: RIGHT},
        loose=("import time\nnever = time.sleep(1e6)\n",),
        expect="passed",
    ),
    Attack(
        id="helper-cell-that-hides-numpy",
        kind="accident",
        tries="gives `np` another meaning in an earlier cell",
        cells={CENTER: "def center_rows(x):\n    return x - np.mean(x, axis=1, keepdims=True)\n"},
        loose=("np = 5\n",),
        expect="passed|crashed",
    ),
    Attack(
        id="answer-in-an-extra-cell",
        kind="accident",
        tries="leaves the stub and answers in a cell of its own",
        cells={SHAPE: "@STUB@"},
        after=(RIGHT,),
        expect="passed",
    ),
    # -- wrong in the ordinary way, told apart
    _accident(
        "changes-its-input",
        "works in place where it may not",
        "def center_rows(x):\n    x -= x.mean(axis=1, keepdims=True)\n    return x\n",
        "wrong|crashed",
        CENTER,
        says="x",
    ),
    _accident(
        "changes-its-input-and-uses-it-again",
        "adds to its input every time",
        "def mean_squared_error(predictions, targets):\n    if predictions.size != targets.size:\n        raise ValueError\n    predictions -= 1.0\n    return float(np.mean((predictions.ravel() + 1 - targets.ravel()) ** 2))\n",
        "wrong",
        MSE,
        says="changed",
    ),
    _accident(
        "forgets-to-return",
        "ends without a return",
        "def batch_shape(samples, batch_rows):\n    (batch_rows, *samples.shape[1:])\n",
        "wrong",
        says="return",
    ),
    _accident(
        "one-nan",
        "has one NaN in its result",
        "def center_rows(x):\n    result = x - x.mean(axis=1, keepdims=True)\n    result.reshape(-1)[0] = np.nan if x.dtype.kind == 'f' else 0\n    return result\n",
        "wrong",
        CENTER,
        says="nan",
    ),
    _accident(
        "generator",
        "returns a generator",
        "def batches(samples, batch_rows):\n    for i in range(0, len(samples), batch_rows):\n        yield samples[i : i + batch_rows]\n",
        "wrong",
        BATCHES,
        says="generator",
    ),
    _accident("coroutine", "makes the answer a coroutine", "async " + RIGHT, "wrong", says="coroutine"),
    _accident(
        "too-many-parameters",
        "asks for one parameter more",
        RIGHT.replace("batch_rows)", "batch_rows, more)", 1),
        "crashed",
        says="more",
    ),
    _accident("still-the-stub", "leaves the stub as it is", "@STUB@", "not yet"),
    _accident("ellipsis", "leaves a prediction open", "n_batches = ...\n", "not yet", COUNT),
    _accident("no-definition", "leaves only a note", "# I will do this tomorrow\n", "not yet"),
)
