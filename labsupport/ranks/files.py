"""Files that are there whole or not at all, for readers who may come at any moment."""

import os
import time

__all__ = ["write_whole"]


def write_whole(file, text):
    """Put a text file there in one step."""
    new = file.with_name(file.name + ".new")
    new.write_text(text, encoding="utf-8")
    for attempt in range(50):
        try:
            return new.replace(file)
        except PermissionError:  # on Windows, while somebody reads it
            if os.name != "nt" or attempt == 49:
                raise
            time.sleep(0.01)
