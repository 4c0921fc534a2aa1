"""Attributes between HDF5 and Zarr: HDF5 keeps typed arrays, Zarr keeps JSON. What cannot cross is told, never dropped.

Each function returns (attributes, notes): a dict in the other format's terms, and a {name: sentence} of what changed.
"""

import json

__all__ = ["SCALE_NAMES", "of_hdf5", "of_zarr", "to_hdf5"]

# How HDF5 writes down that an array is an axis of another: references into that one file.
SCALE_NAMES = frozenset({"DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME", "DIMENSION_LABELS"})


def of_hdf5(item):
    """Return the attributes of an HDF5 object as JSON values."""
    found, notes = {}, {}
    for name in item.attrs:
        if name in SCALE_NAMES:  # the names of axes cross by themselves
            if "LIST" in name:
                notes[name] = "is a link inside the HDF5 file and was left out"
            continue
        try:
            found[name] = _plain(item.attrs[name])
        except (TypeError, ValueError, OSError) as error:
            notes[name] = f"has no JSON form and was left out ({error})"
    return found, notes


def _plain(value):
    """Return an attribute's value in JSON's types. Raises TypeError where there is none."""
    import h5py
    import numpy as np

    if isinstance(value, h5py.Empty):
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, np.ndarray):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        if value.dtype.kind not in "biufSUO":
            raise TypeError(f"of type {value.dtype}")
        return _plain(value.item())
    if isinstance(value, (str, bool, int, float)):
        return value
    raise TypeError(f"of type {type(value).__name__}")


def of_zarr(item):
    """Return the attributes of a Zarr array or group: they are JSON already."""
    return dict(item.attrs), {}


def to_hdf5(attributes):
    """Return JSON attributes as values h5py can store; nested ones become JSON text."""
    import h5py
    import numpy as np

    found, notes = {}, {}
    for name, value in attributes.items():
        if value is None:
            found[name] = h5py.Empty("f4")
        elif isinstance(value, (str, bool, int, float)):
            found[name] = value
        elif _is_flat(value):
            text = isinstance(value[0], str)
            found[name] = np.array(value, dtype=h5py.string_dtype()) if text else np.array(value)
        else:
            found[name] = json.dumps(value)
            notes[name] = "is nested, which HDF5 attributes are not: kept as JSON text"
    return found, notes


def _is_flat(value):
    """Whether a list holds texts only, or numbers of one kind only: what one HDF5 attribute can hold unchanged."""
    if not isinstance(value, (list, tuple)) or not value:
        return False
    return len({type(each) for each in value}) == 1 and isinstance(value[0], (str, bool, int, float))
