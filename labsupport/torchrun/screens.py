"""Where a picture of a job goes: one output of a notebook that is updated in place, or lines in a terminal."""

from labsupport.torchrun.page import as_html
from labsupport.torchrun.printed import plain
from labsupport.torchrun.view import as_text, in_words

__all__ = ["NotebookScreen", "TerminalScreen", "screen_of"]


def screen_of(shell):
    """Return the screen for an IPython shell: one with a kernel can update what it has shown."""
    return NotebookScreen() if getattr(shell, "kernel", None) is not None else TerminalScreen()


class NotebookScreen:
    """One display that is replaced as a whole, so that the saved notebook holds the last picture and nothing else."""

    def __init__(self):
        self._handle = self._shown = None

    def show(self, picture, final=False):
        """Show a picture in place of the one before."""
        from IPython.display import display

        bundle = {"text/html": as_html(picture), "text/plain": as_text(picture)}
        if bundle == self._shown:
            return
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)
        self._shown = bundle

    def add(self, thing, name=""):
        """Show something more below: a figure, a chart."""
        from IPython.display import display

        if name:
            print(name)
        display(thing)


class TerminalScreen:
    """A terminal cannot take back what it has shown: headlines as they change, then everything at the end."""

    def __init__(self, write=print):
        self._write, self._told = write, {}
        self._said = ""

    def show(self, picture, final=False):
        """Print what is new in a picture; the last one whole."""
        if final:
            self._write(as_text(picture, whole=True))
            return
        for _, blocks in picture.sections:
            for block in blocks:
                self._news(block)
        words = "" if picture.standings or picture.sections else picture.head
        words = "; ".join(filter(None, [words, *picture.notes, *(report.text() for report in picture.reports)]))
        if words and words != self._said:
            self._write(words)
            self._said = words

    def add(self, thing, name=""):
        """Print something more, as far as it has words."""
        words = thing.text() if hasattr(thing, "text") else repr(thing)
        self._write(f"{name}: {words}" if name else words)

    def _news(self, block):
        """Print the last line of a block when it has changed: a sign of life, not the output."""
        lines = [plain(line) for line in (*block.first, *block.last)]
        newest = next((line for line in reversed(lines) if line), "")
        key = (block.ranks[0], block.errors)
        if newest and self._told.get(key) != newest:
            self._told[key] = newest
            self._write(f"[{in_words(block.ranks)}] {newest}")
