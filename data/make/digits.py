"""Write digits.npy and digit_labels.npy from scikit-learn's compressed table.

python data/make/digits.py OUT [--wheels FOLDER]
"""

import gzip
import io

import numpy as np
from wheels import arguments, read_member, store, wheel_of


def images_and_labels(table):
    """Return (images, labels) from the gzipped CSV: (n, 8, 8) and (n,), both uint8; 64 ink counts, then the class."""
    rows = np.loadtxt(io.BytesIO(gzip.decompress(table)), delimiter=",", ndmin=2)  # (n, 65)
    as_bytes = rows.astype(np.uint8)
    if not np.array_equal(as_bytes, rows):
        raise SystemExit("a value does not fit uint8")
    return np.ascontiguousarray(as_bytes[:, :64]).reshape(-1, 8, 8), np.ascontiguousarray(as_bytes[:, 64])


def as_npy(array):
    """Return the bytes of `array` in NumPy's own format, version 1.0."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def main():
    args = arguments(__doc__)
    wheel = wheel_of("scikit-learn", "1.9.0", args.wheels)
    images, labels = images_and_labels(read_member(wheel, "sklearn/datasets/data/digits.csv.gz"))
    store(args.out, "digits.npy", as_npy(images))
    store(args.out, "digit_labels.npy", as_npy(labels))


if __name__ == "__main__":
    main()
