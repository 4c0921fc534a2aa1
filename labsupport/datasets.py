"""The small real data the lessons use: `load(name)` returns a fresh array, checked against its recorded SHA-256.

Origin, licence and what each file cannot support stand in `data/README.md`. `crops()` cuts a stack of overlapping
pictures out of one photograph, at run time. "turbidity" does not come with the course but with pvlib, which is
optional; nothing is ever downloaded.
"""

import difflib
import hashlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from labsupport import places
from labsupport.errors import LabError

__all__ = ["DATASETS", "TURBIDITY", "WEATHER", "Dataset", "crops", "load", "locate"]


@dataclass(frozen=True)
class Dataset:
    """One data file.

    Args:
        name: what `load` is asked for.
        file: name of the file in `data/`.
        sha256: of the file's bytes, in hexadecimal.
        shape: of the array `load` returns.
        dtype: of the array `load` returns.
        unit: what one value means.
        read: `read(path)` returns the array.
    """

    name: str
    file: str
    sha256: str
    shape: tuple[int, ...]
    dtype: str
    unit: str
    read: Callable


def _read_npy(path):
    import numpy as np

    return np.load(path, allow_pickle=False).copy()  # np.load returns a view of a flat array; lessons ask for `.base`


def _read_picture(path):
    import numpy as np
    from PIL import Image

    with Image.open(path) as picture:
        return np.array(picture)  # (row, column) or (row, column, channel), uint8


def _read_altitude(path):
    """Return metres as int16. The file stores steps of 28 m from -450 m; 255 says "no data"."""
    import h5py
    import numpy as np

    with h5py.File(path, "r") as stored:
        codes = stored["Altitude"][:]  # (2160, 4320), uint8
    metres = codes.astype(np.int16)
    metres *= 28
    metres -= 450
    metres[codes == 255] = 0  # as pvlib does; no step of the scale lands on 0, so 0 means no data and nothing else
    return metres


# Column of "weather" -> its unit, in order. Radiation is the energy that arrived in the hour that ends with the row.
WEATHER = {
    "global": "Wh/m2",  # on a level square metre: direct and diffuse
    "direct": "Wh/m2",  # on a square metre that faces the sun
    "diffuse": "Wh/m2",  # on a level square metre, from the sky
    "air": "degrees Celsius",
    "dew point": "degrees Celsius",
    "humidity": "percent",
    "pressure": "millibar",
    "wind": "metres per second",
}


def _read_weather(path):
    """Return the measurements; the file's first four columns say when."""
    import numpy as np

    table = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.float32, encoding="utf-8")  # (8760, 12)
    return table[:, 4:].copy()  # owns its memory


def _read_turbidity(path):
    """Return the codes as they are stored, (row, column, month); turbidity is a twentieth of a code."""
    import h5py

    with h5py.File(path, "r") as stored:
        return stored["LinkeTurbidity"][:]


DATASETS = (
    Dataset(
        "altitude", "altitude.h5", "d3cad4677889aca72b92cbc4882e3f95024bf288888ec549362bd44563d0defd",
        (2160, 4320), "int16", "metres above sea level; 0 = no data (mostly sea)", _read_altitude,
    ),
    Dataset(
        "digits", "digits.npy", "88e52eb3e11cb9cc0130dc8fc4b6256aa919b3275fec17e6c2f880e1ae8d34ae",
        (1797, 8, 8), "uint8", "inked pixels of 16", _read_npy,
    ),
    Dataset(
        "digit_labels", "digit_labels.npy", "03ec0343bca84958ae3df825f252a3680415fa07fccb1ed1125ed521c13169e5",
        (1797,), "uint8", "the digit written, 0 to 9", _read_npy,
    ),
    Dataset(
        "cell", "cell.png", "8d23a7fb81f7cc877cd09f330357fc7f595651306e84e17252f6e0a1b3f61515",
        (660, 550), "uint8", "phase, 0 to 255", _read_picture,
    ),
    Dataset(
        "retina", "retina.jpg", "38a07f36f27f095e818aea7b96d34202c05176d30253c66733f2e00379e9e0e6",
        (1411, 1411, 3), "uint8", "brightness, 0 to 255: red, green, blue", _read_picture,
    ),
    Dataset(
        "china", "china.jpg", "8378025ad2519d649d02e32bd98990db4ab572357d9f09841c2fbfbb4fefad29",
        (427, 640, 3), "uint8", "brightness, 0 to 255: red, green, blue", _read_picture,
    ),
    Dataset(
        "flower", "flower.jpg", "a77f6ec41e353afdf8bdff2ea981b2955535d8d83294f8cfa49cf4e423dd5638",
        (427, 640, 3), "uint8", "brightness, 0 to 255: red, green, blue", _read_picture,
    ),
    Dataset(
        "weather", "weather.csv", "da8d92cd3f702b8a84058bb3104f872de3e32b969b54b720ed4aab60a60014ed",
        (8760, 8), "float32", "one row an hour; `WEATHER` has the unit of each column", _read_weather,
    ),
)  # fmt: skip

# Optional: a file of the installed package pvlib, 112 MB once decoded. The months are its last axis.
TURBIDITY = Dataset(
    "turbidity", "LinkeTurbidities.h5", "34c7e4c0bf865416ecbbfc32b0c3e9b56039a6aadff6997cc3c9ccae8c63e931",
    (2160, 4320, 12), "uint8", "Linke turbidity of the air, times 20", _read_turbidity,
)  # fmt: skip

_BY_NAME = {dataset.name: dataset for dataset in (*DATASETS, TURBIDITY)}
_checked = set()


def load(name):
    """Return the data set `name` as a fresh, writable, C-contiguous array that owns its memory.

    Args:
        name: "altitude" (2160, 4320) int16, metres, row 0 at 90 N, column 0 at 180 W, 0 = no data; "digits"
            (1797, 8, 8) uint8, 0 to 16; "digit_labels" (1797,) uint8; "cell" (660, 550) uint8; "retina"
            (1411, 1411, 3), "china" and "flower" (427, 640, 3) uint8, red, green, blue; "weather" (8760, 8) float32,
            one row an hour, columns and units in `WEATHER`; "turbidity" (2160, 4320, 12) uint8, with pvlib only.

    Raises:
        LabError: the name is unknown, the file is missing or differs from its recorded SHA-256, or pvlib is needed.
    """
    dataset = _find(name)
    return dataset.read(_verified(dataset))


def locate(name):
    """Return the path of the file behind the data set `name`, checked once per process. Raises as `load` does."""
    return _verified(_find(name))


def _find(name):
    if isinstance(name, str) and name in _BY_NAME:
        return _BY_NAME[name]
    near = difflib.get_close_matches(str(name), _BY_NAME, n=3, cutoff=0.5) or list(_BY_NAME)
    raise LabError(
        f"no data set is called {name!r}",
        why=f"the course has {', '.join(dataset.name for dataset in DATASETS)}; turbidity comes with pvlib",
        next_step="write one of: " + ", ".join(repr(n) for n in near),
    )


def _verified(dataset):
    path = _pvlibs(dataset) if dataset is TURBIDITY else places.DATA / dataset.file
    if path in _checked:
        return path
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        raise _damaged(dataset, "is missing", "every data file comes with the course") from None
    except OSError as error:
        raise _damaged(dataset, "cannot be read", str(error)) from error
    if found != dataset.sha256:
        why = f"its SHA-256 starts with {found[:12]}, data/README.md records {dataset.sha256[:12]}"
        raise _damaged(dataset, "is not the file the course ships", why)
    _checked.add(path)
    return path


def _pvlibs(dataset):
    """Return the path of a file that pvlib installs; pvlib itself is not imported."""
    found = importlib.util.find_spec("pvlib")
    if found is None or not found.submodule_search_locations:
        raise LabError(
            f"{dataset.name} needs the package pvlib, which is not installed",
            why="the file is larger than all the course's data together, so it is an optional extra",
            next_step="python -m pip install pvlib, then restart the kernel; every lesson works without it",
        )
    return Path(found.submodule_search_locations[0]) / "data" / dataset.file


def _damaged(dataset, what, why):
    """Return the error to raise. Nothing is repaired here: the file may be the reader's own."""
    if dataset is TURBIDITY:
        step = "python -m pip install --force-reinstall --no-deps pvlib==0.16.1"
        return LabError(f"pvlib's {dataset.file} {what}", why=why, next_step=step)
    restore = f"git checkout -- data/{dataset.file}"
    return LabError(f"data/{dataset.file} {what}", why=why, next_step=f"restore it, in the course's folder: {restore}")


def crops(count=1024, side=128):
    """Return the first `count` square pieces of the retina's green channel: (count, side, side), uint8, 0 to 255.

    The pieces start on a grid of 64 pixels, row by row; after the last comes the photograph turned by a quarter,
    three times over. They overlap and are one eye: good for storage and throughput, no independent samples. Pieces
    that lie in the black border hold nothing but 0. The same call gives the same bytes on one JPEG decoder.

    Args:
        count: how many, from 1; for `side` 128 up to 1764.
        side: pixels, from 1 to 1411.

    Raises:
        LabError: the photograph does not have that many pieces of that size, or is damaged.
    """
    import numpy as np

    green = load("retina")[:, :, 1]  # (row, column)
    starts = range(0, len(green) - side + 1, 64) if side > 0 else ()
    most = 4 * len(starts) ** 2
    if not 1 <= count <= most:
        raise LabError(
            f"{count:,} pieces of {side} x {side} pixels were asked for",
            why=f"the photograph has {most:,} of that size" if most else "its sides are 1 to 1411 pixels",
            next_step="ask for fewer, or for smaller ones",
        )
    places_of = ((turn, row, column) for turn in range(4) for row in starts for column in starts)
    stack = np.empty((count, side, side), np.uint8)
    for piece, (turn, row, column) in zip(stack, places_of):
        piece[:] = np.rot90(green, turn)[row : row + side, column : column + side]
    return stack
