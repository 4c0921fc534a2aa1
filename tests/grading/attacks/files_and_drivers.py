# ruff: noqa: E501 - cells are kept as somebody would write them
"""Answers that write files which lead elsewhere or lie, and answers that fool the course code that drives them."""

from .attack import Attack

APPEND, CONVERT, CODEC = "chunks/append-hdf5", "chunks/convert", "chunks/choose-codec"
TOUCHED, ROUND, STEP = "chunks/touched", "autograd/straight-through", "autograd/sgd-step"

_COPIES = """
import json, os, shutil
def copied(path, source, name, chunks):
    with h5py.File(source, "r") as file:
        field = file[name]
        attributes = {key: value.tolist() if hasattr(value, "tolist") else value for key, value in field.attrs.items()}
        array = zarr.create_array(path, shape=field.shape, dtype=field.dtype, chunks=chunks, fill_value=field.fillvalue, attributes=attributes)
        for corner in itertools.product(*(range(0, n, side) for n, side in zip(field.shape, chunks))):
            block = tuple(slice(start, start + side) for start, side in zip(corner, chunks))
            array[block] = field[block]
"""


def _forging(id, tries, exercise, source, expect="wrong|crashed|over limit", **more):
    return Attack(id=id, kind="forging", tries=tries, cells={exercise: source}, expect=expect, **more)


def _copying(id, tries, body, expect="wrong|crashed|over limit", kind="forging", **more):
    """An answer to `convert` that copies rightly and then does something to what it wrote."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    source = f"{_COPIES}\ndef convert(path, source, name, chunks):\n    copied(path, source, name, chunks)\n{lines}"
    return Attack(id=id, kind=kind, tries=tries, cells={CONVERT: source}, expect=expect, **more)


_RUNS_CODE = """
class Runs:
    def __reduce__(self):
        return exec, ('''
import gc, sys
module = sys.modules["labsupport.probing.inspectors.chunks"]
for name in ("_bits_differ",):
    setattr(module, name, lambda *args: 0)
frame = sys._getframe()
while frame:
    if "values" in frame.f_locals and "chunks" in frame.f_locals and frame.f_code.co_name == "describe_copy":
        module._native = lambda value, right=frame.f_locals["values"]: right
    frame = frame.f_back
''',)
import pickle
shutil.rmtree(path)
path.mkdir()
head = {"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "|O", "compressor": None, "fill_value": "", "order": "C"}
(path / ".zarray").write_text(json.dumps(head | {"filters": [{"id": "vlen-utf8"}, {"id": "pickle"}]}))
(path / "0").write_bytes(pickle.dumps(Runs()))
"""

ATTACKS = (
    # -- files that lead elsewhere, or are none
    _copying("links-for-chunks", "moves the chunks out of the store and leaves links to them",
             "for i, found in enumerate(sorted(path.rglob('c/*/*'))):\n    os.rename(found, path.parent / f'{i}')\n    found.symlink_to(path.parent / f'{i}')"),
    _copying("store-is-a-link", "puts the store elsewhere and a link in its place",
             "shutil.move(path, '/tmp/elsewhere')\npath.symlink_to('/tmp/elsewhere')\nglobal copied\ncopied = lambda *args: None"),
    _copying("store-behind-the-folder", "replaces the folder for its files by a link to another one",
             "away = path.parent.with_name('away' + path.parent.name)\nos.rename(path.parent, away)\nos.symlink(away, path.parent)"),
    _copying("deletes-the-source", "deletes the file it was given", "os.unlink(source)", says="given files"),
    _copying("source-behind-a-link", "moves the file it was given and leaves a link", "os.rename(source, str(source) + 'x')\nos.symlink(str(source) + 'x', source)", says="given files"),
    _copying("writes-later", "writes from a thread once it has returned",
             "import threading, time\nshutil.move(path, path.parent / 'x')\nthreading.Thread(target=lambda: (time.sleep(0.2), os.rename(path.parent / 'x', path)), daemon=True).start()"),
    _copying("writes-at-exit", "writes when its process ends", "import atexit\nos.rename(path, path.parent / 'x')\natexit.register(lambda: os.rename(path.parent / 'x', path))"),
    _copying("runs-code-where-files-are-read", "has a codec that runs what it decodes: in the process that looks at the store", _RUNS_CODE),
    _copying("petabytes", "says in the metadata that the array has petabytes",
             "head = json.loads((path / 'zarr.json').read_text())\n(path / 'zarr.json').write_text(json.dumps(head | {'shape': [10**9, 10**6]}))"),
    _copying("deep-metadata", "nests its metadata so deeply that no parser follows",
             "text = (path / 'zarr.json').read_text().rstrip()\n(path / 'zarr.json').write_text(text[:-1] + ', \"x\": ' + '[' * 50_000 + ']' * 50_000 + '}')"),
    _copying("unknown-codec", "names a codec by an address", "head = json.loads((path / 'zarr.json').read_text())\n(path / 'zarr.json').write_text(json.dumps(head | {'codecs': [{'name': 'file:///etc/passwd'}]}))"),
    _copying("names-that-are-no-text", "names a file with bytes that are no text", "os.mkdir(os.fsencode(path) + b'/\\xff\\xfe')", says="not UTF-8"),
    _copying("folders-in-folders", "nests folders deeper than a path may be long", "os.chdir(path)\nfor _ in range(500):\n    os.mkdir('d')\n    os.chdir('d')\nos.chdir('/')", says="deep"),
    _copying("cheap-when-measured", "copies all at once when it is judged and nothing when it is measured",
             "calls.append(path)\nif len(calls) % 2 == 0:\n    shutil.rmtree(path)\n", loose=("calls = []",)),
    _copying("patches-what-collects", "patches the modules that collect its files, and writes the right facts there",
             "import labsupport.probing.files as files, labsupport.probing.call as call\nfiles.written_alike = lambda *args: True\nfor module in (files, call):\n    module.measure = lambda *args: ({'allocation': 'within 1,200,000', 'elements whose bits differ': 0}, {})\nshutil.rmtree(path / 'c')"),
    _forging("link-to-another-file", "makes the dataset a link to a file of the host", APPEND,
             "def append_hours(path, values, units):\n    with h5py.File(path, 'a') as file:\n        if 'temperature' in file:\n            del file['temperature']\n        file['temperature'] = h5py.ExternalLink('@HOST@/canary.txt', '/x')"),
    _forging("values-in-another-file", "keeps the values outside the file", APPEND,
             "def append_hours(path, values, units):\n    with h5py.File(path, 'w') as file:\n        made = file.create_dataset('temperature', values.shape, values.dtype, external=[('@SECRET@', 0, h5py.h5f.UNLIMITED)], maxshape=(None, values.shape[1]))\n        made.attrs['units'] = units"),
    _forging("virtual-dataset", "is a virtual view of a file of the host", APPEND,
             "def append_hours(path, values, units):\n    layout = h5py.VirtualLayout(values.shape, values.dtype)\n    layout[:] = h5py.VirtualSource('@SECRET@', 'x', values.shape)\n    with h5py.File(path, 'w') as file:\n        file.create_virtual_dataset('temperature', layout).attrs['units'] = units"),
    _forging("left-open", "never closes the file and locks it", APPEND,
             "import fcntl\nkept = []\ndef append_hours(path, values, units):\n    kept.append(h5py.File(path, 'a'))\n    kept[-1].require_dataset('temperature', values.shape, values.dtype)\n    kept.append(open(path, 'rb'))"),
    _forging("a-billion-hours", "makes room for far more than there is", APPEND,
             "def append_hours(path, values, units):\n    with h5py.File(path, 'w') as file:\n        file.create_dataset('temperature', (10**9, values.shape[1]), values.dtype, maxshape=(None, values.shape[1]), chunks=(1000, values.shape[1]), compression='gzip').attrs['units'] = units", says="far more"),
    # -- answers that are driven
    _forging("tensor-that-answers-itself", "returns a tensor whose class answers for every operation of torch", "autograd/safe-sqrt",
             "class Right(torch.Tensor):\n    @classmethod\n    def __torch_function__(cls, function, types, args=(), kwargs=None):\n        return torch.zeros(3)\n"
             "def safe_sqrt(x):\n    return torch.zeros(3).as_subclass(Right)"),
    _forging("chunks-that-equal-everything", "returns chunks that equal all others", TOUCHED,
             "class Any(int):\n    def __eq__(self, other): return True\n    def __lt__(self, other): return False\n    __hash__ = int.__hash__\n    def __int__(self): return self\n"
             "class Chunk(tuple):\n    def __eq__(self, other): return True\n    __hash__ = tuple.__hash__\n"
             "def touched_chunks(shape, chunks, selection):\n    return [Chunk(Any(0) for _ in shape)]"),
    _forging("replaces-its-driver", "replaces the function that drives it by one that tells of another", STEP,
             "import labsupport.probing.drivers.autograd as driver, labsupport.probing.through as through\n"
             "driver.training = lambda answer, *inputs, **more: through.Driven(value=None, facts={})\n"
             "through.find = lambda *args: driver.training\n"
             "def train(weights, x, y, lr, steps):\n    return []"),
    _forging("keeps-its-first-result", "gives the result of its first call ever after", "autograd/unbroadcast",
             "kept = []\ndef unbroadcast(grad, shape):\n    kept.append(grad.sum() if shape == () else np.zeros(shape, grad.dtype))\n    return kept[0]"),
    _forging("scalar-with-a-copy-of-its-own", "returns a number of a class that pretends to be NumPy's", "autograd/unbroadcast",
             "class Any:\n    def __eq__(self, other): return True\nclass Number(np.float64):\n    def copy(self): return Any()\nNumber.__module__ = 'numpy'\n"
             "def unbroadcast(grad, shape):\n    return Number(0)"),
    _forging("patched-torch", "makes every comparison and check of torch say yes", ROUND,
             "for name in ('equal', 'allclose', 'isclose', 'is_tensor'):\n    setattr(torch, name, lambda *args, **more: True)\n"
             "torch.Tensor.abs = torch.Tensor.round = torch.Tensor.clamp = lambda self, *args: self\n"
             "class RoundWithin(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, limit): return x.clone()\n"
             "    @staticmethod\n    def backward(ctx, cotangent): return cotangent, None"),
)  # fmt: skip
