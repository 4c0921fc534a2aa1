"""Matplotlib figures that ranks return: drawn there, shown here as images, without matplotlib in the kernel."""

import base64
from html import escape
from pathlib import Path

__all__ = ["Picture", "png_of"]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def png_of(figure):
    """Return a matplotlib figure as PNG bytes."""
    import io

    target = io.BytesIO()
    figure.savefig(target, format="png", bbox_inches="tight")
    return target.getvalue()


class Picture:
    """An image (PNG) that a rank drew. Shows itself as the last value of a cell; `save(path)` keeps it as a file.

    Raises:
        ValueError: the bytes are no PNG.
    """

    def __init__(self, png):
        if type(png) is not bytes or not png.startswith(_SIGNATURE) or png[12:16] != b"IHDR" or len(png) < 33:
            raise ValueError("a picture that is no PNG")
        self.png = png
        self.width, self.height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))

    def save(self, path):
        """Write the image to `path` and return the path."""
        path = Path(path)
        path.write_bytes(self.png)
        return path

    def html(self, alt):
        """Return an HTML image element; `alt` says what it is."""
        data = base64.b64encode(self.png).decode()
        return f'<img alt="{escape(alt)}" style="max-width:100%;height:auto" src="data:image/png;base64,{data}">'

    def _repr_png_(self):
        return self.png

    def __repr__(self):
        return f"Picture({self.width} x {self.height} pixels, PNG)"
