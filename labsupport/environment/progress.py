"""Progress in the terminal: one line that renews itself, or plain lines where the output is a file."""

import shutil

__all__ = ["Progress"]


class Progress:
    """Writes to a stream; on a terminal `update` rewrites its line, elsewhere it prints each stage once.

    Args:
        stream: where to write; standard error for the launcher, so that a command's own output stays clean.
    """

    def __init__(self, stream):
        self.stream = stream
        self.live = stream.isatty()
        self._shown = ""

    def line(self, text):
        """Print a line that stays."""
        self._clear()
        self._write(text + "\n")

    def update(self, text, *, stage=None):
        """Show a passing state. `stage` is its part that counts as new where lines cannot be rewritten."""
        if self.live:
            self._clear()
            text = text[: shutil.get_terminal_size().columns - 1]
            self._write(text)
            self._shown = text
        elif (stage or text) != self._shown:
            self._write(f"{stage or text}\n")
            self._shown = stage or text

    def _clear(self):
        if self.live and self._shown:
            self._write("\r" + " " * len(self._shown) + "\r")
        self._shown = "" if self.live else self._shown

    def _write(self, text):
        try:
            self.stream.write(text)
        except UnicodeEncodeError:
            self.stream.write(text.encode("ascii", "replace").decode("ascii"))
        self.stream.flush()
