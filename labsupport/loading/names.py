"""Many file names: as a list of texts, and in two buffers."""

import numpy as np

__all__ = ["NameBuffer", "NameList", "file_names"]


def file_names(count):
    """Return `count` made-up file names: a list of different texts, about 30 letters each."""
    return [f"station-{i % 1000:03}/2026/{i:012}.png" for i in range(count)]


class NameList:
    """Names in a list: an object for each. An item is the length of a name, so that little crosses to main."""

    def __init__(self, count):
        self.names = file_names(count)

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        return len(self.names[index])


class NameBuffer:
    """The same names end to end in one `bytes`, and where each ends in one array. Items as in `NameList`."""

    def __init__(self, count):
        encoded = [name.encode() for name in file_names(count)]
        self.text, self.ends = b"".join(encoded), np.cumsum([0, *map(len, encoded)])

    def __len__(self):
        return len(self.ends) - 1

    def __getitem__(self, index):
        return len(self.text[self.ends[index] : self.ends[index + 1]].decode())
