"""What one rank printed, as a terminal would show it: bounded, and read while it is being written.

A progress bar writes over its own line, so the text of a file is not what a person would have seen. `Printed` plays
the file as a terminal does: carriage return, backspace, erasing, the cursor a few lines up (several bars), colours.
"""

import codecs
import hashlib
import itertools
import operator
import re
from collections import deque
from dataclasses import dataclass

__all__ = ["Printed", "Text", "plain", "runs_of"]

_OPEN_LINES = 40  # as many lines can still be written over: bars stand below each other
_WIDEST = 1 << 13  # characters in one line; longer ones are broken
_STEP_BYTES = 1 << 16  # read and played in one go
_BACKLOG_BYTES = 1 << 18  # more than this at once: only its end is played
_STYLE_OF = operator.itemgetter(1)
_CONTROL = re.compile(
    r"\x1b\[([0-9;:?<=>]*)[ -/]*([@-~])"  # CSI: colours, cursor
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, links
    r"|\x1b[PX^_].*?\x1b\\"  # strings for a device
    r"|\x1b[ -/]*[0-~]"
    r"|[\x00-\x1f\x7f]",
    re.DOTALL,
)
_SPECIAL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")  # anything but text and new lines
_UNFINISHED = re.compile(r"\x1b(\[[0-9;:?<=>]*[ -/]*|\][^\x07\x1b]{0,2000}\x1b?|[PX^_][^\x1b]{0,2000}\x1b?|[ -/]*)?$")


class Printed:
    """One output file of a rank, read from where the last reading ended.

    Args:
        path: the file; it need not exist yet.
        head, tail: characters kept of the beginning and of the end; what lies between is counted.
    """

    def __init__(self, path, *, head=20_000, tail=20_000):
        self._path, self._room = path, head
        self._offset = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._digest = hashlib.blake2b(digest_size=16)
        self._pending = ""
        self._head, self._tail, self._tail_room, self._tail_size = [], deque(), tail, 0
        self._open, self._row, self._column, self._style = [[]], 0, 0, ""
        self.dropped_lines = self.dropped_chars = 0
        self._told = None
        self.size = 0

    # -- reading ---------------------------------------------------------------------------------------------------

    def read(self):
        """Take in what was written since the last call; return whether there was anything."""
        try:
            with self._path.open("rb") as file:
                file.seek(0, 2)
                end = file.tell()
                if end <= self._offset:
                    return False
                file.seek(self._offset)
                self._take(file, end)
        except FileNotFoundError:
            return False
        self.size = self._offset
        return True

    def _take(self, file, end):
        while self._offset < end:
            chunk = file.read(min(_STEP_BYTES, end - self._offset))
            if not chunk:
                break
            first = self._offset == 0
            self._offset += len(chunk)
            self._digest.update(chunk)
            if end - self._offset > (_STEP_BYTES if self.dropped_lines else _BACKLOG_BYTES) and not first:
                self._skip(chunk)
            else:
                self.play(self._decoder.decode(chunk))

    def _skip(self, chunk):
        """Count a piece from the middle of a flood without playing it."""
        self._decoder.reset()
        self._pending, self._told = "", None
        broken = bool(self._open[-1])  # a line that goes on in this piece, and is not counted twice
        self._freeze(len(self._open) - (not broken))
        self._drop_tail()
        self.dropped_lines += chunk.count(b"\n") - broken
        self.dropped_chars += len(chunk)

    # -- playing ---------------------------------------------------------------------------------------------------

    def play(self, text):
        """Play text as a terminal would."""
        text, self._pending = (self._pending + text).replace("\r\n", "\n"), ""
        self._told = None
        flood = text.count("\n") > 2 * _OPEN_LINES and not self._style and self._row == len(self._open) - 1
        if flood and not _SPECIAL.search(text):
            text = self._kept_of(text)
        if unfinished := _UNFINISHED.search(text):
            text, self._pending = text[: unfinished.start()], text[unfinished.start() :]
        end = 0
        for found in _CONTROL.finditer(text):
            if found.start() > end:
                self._write(text[end : found.start()])
            end = found.end()
            self._control(found)
        if end < len(text):
            self._write(text[end:])
        if len(self._open) > _OPEN_LINES:
            self._freeze(len(self._open) - _OPEN_LINES)

    def _kept_of(self, text):
        """Keep the lines of a flood that nothing can write over any more, all at once; return the lines that follow."""
        first, *lines = text.split("\n")
        self._write(first)
        self._freeze(len(self._open))
        lines, still = lines[:-_OPEN_LINES], lines[-_OPEN_LINES:]
        if self._tail or self.dropped_lines:
            self._keep_end_of(lines)
        else:
            for line in lines:
                self._keep(((line, ""),) if line else ())
        return "\n".join(still)

    def _keep_end_of(self, lines):
        """Keep many plain lines at once: those that the last of them push out again are only counted."""
        size, first = 0, len(lines)
        while first and size <= self._tail_room:
            first -= 1
            size += len(lines[first]) + 1
        if size > self._tail_room:
            self._drop_tail()
            self.dropped_lines += first
            self.dropped_chars += sum(map(len, lines[:first])) + first
        self._tail.extend(((line, ""),) if line else () for line in lines[first:])
        self._tail_size += size
        self._trim()

    def _drop_tail(self):
        self.dropped_lines += len(self._tail)
        self.dropped_chars += self._tail_size
        self._tail.clear()
        self._tail_size = 0

    def _control(self, found):
        sign = found[0]
        if sign == "\n":
            self._line_down()
        elif sign == "\r":
            self._column = 0
        elif sign == "\b":
            self._column = max(0, self._column - 1)
        elif sign == "\t":
            self._write(" " * (8 - self._column % 8))
        elif found[2]:
            self._sequence(found[1], found[2])

    def _sequence(self, numbers, letter):
        if letter == "m":
            self._style = _restyled(self._style, numbers)
            return
        first = numbers.split(";")[0]
        count = min(int(first), _WIDEST - 1) if first.isdecimal() else 0
        if letter == "A":
            self._row = max(0, self._row - max(1, count))
        elif letter == "B":
            self._row = min(len(self._open) - 1, self._row + max(1, count))
        elif letter == "C":
            self._column = min(_WIDEST - 1, self._column + max(1, count))
        elif letter == "D":
            self._column = max(0, self._column - max(1, count))
        elif letter == "G":
            self._column = max(1, count) - 1
        elif letter == "K":
            self._erase(count)

    def _erase(self, what):
        line = self._open[self._row]
        if what == 0:
            del line[self._column :]
        elif what == 1:
            line[: self._column + 1] = [(" ", "")] * min(len(line), self._column + 1)
        else:
            line.clear()

    def _line_down(self):
        self._row += 1
        self._column = 0
        if self._row == len(self._open):
            self._open.append([])
            if len(self._open) > 4 * _OPEN_LINES:  # many at once, so that the list is not cut for each line
                self._freeze(len(self._open) - _OPEN_LINES)

    def _write(self, text):
        while text:
            room = _WIDEST - self._column
            if room <= 0:
                self._line_down()
                continue
            part, text = text[:room], text[room:]
            line = self._open[self._row]
            if len(line) < self._column:
                line.extend([(" ", "")] * (self._column - len(line)))
            line[self._column : self._column + len(part)] = [(sign, self._style) for sign in part]
            self._column += len(part)

    # -- keeping ---------------------------------------------------------------------------------------------------

    def _freeze(self, count):
        """Move the oldest open lines to where nothing changes any more."""
        for line in self._open[:count]:
            self._keep(runs_of(line))
        del self._open[:count]
        self._row = max(0, self._row - count)
        if not self._open:
            self._open, self._row, self._column = [[]], 0, 0

    def _keep(self, line):
        size = _length(line) + 1
        if self._room >= size and not self._tail and not self.dropped_lines:
            self._room -= size
            self._head.append(line)
            return
        self._tail.append(line)
        self._tail_size += size
        self._trim()

    def _trim(self):
        while self._tail_size > self._tail_room and len(self._tail) > 1:
            oldest = self._tail.popleft()
            self._tail_size -= _length(oldest) + 1
            self._drop(oldest)

    def _drop(self, line):
        self.dropped_lines += 1
        self.dropped_chars += _length(line) + 1

    # -- telling ---------------------------------------------------------------------------------------------------

    def text(self):
        """Return what a terminal shows now, as a `Text`."""
        if self._told is None:
            self._told = self._tell()
        return self._told

    def _tell(self):
        still = [runs_of(line) for line in self._open]
        if still and not still[-1]:
            still.pop()
        first, last = self._head, [*self._tail, *still]
        if self.dropped_lines:
            look = (self._offset, self._digest.digest())
        else:
            first, last = [*first, *last], []
            look = tuple(map(plain, first))
        return Text(first, last, self.dropped_lines, self.dropped_chars, look)


@dataclass(frozen=True)
class Text:
    """Printed lines, each a tuple of (text, style) runs; a style is words such as "bold fg1".

    Args:
        first, last: the lines; between them some were dropped, when any were.
        lines, chars: how many lines and characters were dropped.
        look: equal for texts that look the same; the plain lines when none were dropped.
    """

    first: list
    last: list
    lines: int
    chars: int
    look: tuple

    def without(self, ending):
        """Return this text without the lines of `ending` when it ends with them, else None."""
        own, cut = [*self.first, *self.last], ending.splitlines()
        if not cut or len(own) < len(cut) or [plain(line) for line in own[-len(cut) :]] != [c.rstrip() for c in cut]:
            return None
        left = own[: -len(cut)]
        if not self.lines:
            return Text(left, [], 0, 0, self.look[: len(left)])
        first = left[: len(self.first)]
        return Text(first, left[len(first) :], self.lines, self.chars, (self.look, "without its traceback"))


def plain(line):
    """Return a line's text without its styles, without spaces at its end (bars are padded with them)."""
    return "".join(text for text, _ in line).rstrip()


def runs_of(cells):
    """Return a line's (sign, style) cells as (text, style) runs."""
    runs = []
    for style, same in itertools.groupby(cells, key=_STYLE_OF):
        runs.append(("".join([sign for sign, _ in same]), style))
    return tuple(runs)


def _length(line):
    return sum(len(text) for text, _ in line)


_ON = {1: "bold", 2: "faint", 3: "italic", 4: "underline", 7: "inverse", 9: "strike"}
_OFF = {22: ("bold", "faint"), 23: ("italic",), 24: ("underline",), 27: ("inverse",), 29: ("strike",)}


def _restyled(style, numbers):
    """Return a style after the numbers of a colour sequence: "" or words in a fixed order."""
    words = set(style.split())
    codes = iter([int(n) if n.isdecimal() else 0 for n in re.split("[;:]", numbers)])
    for code in codes:
        if code == 0:
            words.clear()
        elif code in _ON:
            words.add(_ON[code])
        elif code in _OFF:
            words.difference_update(_OFF[code])
        elif code in (38, 48):
            _swap(words, "fg" if code == 38 else "bg", _extended(codes))
        elif 30 <= code <= 37 or 90 <= code <= 97:
            _swap(words, "fg", code % 10)
        elif 40 <= code <= 47 or 100 <= code <= 107:
            _swap(words, "bg", code % 10)
        elif code in (39, 49):
            _swap(words, "fg" if code == 39 else "bg", None)
    return " ".join(sorted(words))


def _swap(words, ground, colour):
    words.difference_update({word for word in words if word.startswith(ground)})
    if colour is not None:
        words.add(f"{ground}{colour}")


def _extended(codes):
    """Return the nearest of the eight colours for a 256-colour or 24-bit one: only those are known to be readable."""
    kind = next(codes, 0)
    if kind == 2:
        return _nearest([next(codes, 0) for _ in range(3)])
    number = next(codes, 0) if kind == 5 else 7
    if number < 16:
        return number % 8
    if number >= 232:
        return 7 if number > 243 else 0
    number -= 16
    return _nearest([level * 51 for level in (number // 36, number // 6 % 6, number % 6)])


def _nearest(levels):
    high, low = max(levels), min(levels)
    if high - low < 40:
        return 7 if high > 127 else 0
    middle = (high + low) / 2
    return sum(bit for level, bit in zip(levels, (1, 2, 4), strict=True) if level > middle)
