"""What is to be seen of a job: a headline, the state of every rank, what each printed; as a picture of plain data.

`View` reads the job's folder, `Picture` is what it saw at one moment, `as_text` tells it in words; `page` in HTML.
Equal outputs are shown once. Nothing here depends on how the ranks were started.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from labsupport.figures.words import count
from labsupport.torchrun.printed import Printed, plain
from labsupport.torchrun.raised import error_of

__all__ = ["Block", "Picture", "Standing", "View", "as_text", "ending_in_words", "error_of", "in_words"]

LIVE_CHARS = 12_000  # of output shown while the job runs: a picture is sent up to ten times a second
FINAL_CHARS = 120_000  # of output in the saved notebook
_FEWEST_CHARS = 2_000  # of one block, however many there are
_ATTEMPT = re.compile(r"attempt-(\d+)$")
_RANK = re.compile(r"rank-(\d+)$")


def in_words(ranks):
    """Return "rank 2", "ranks 0-3" or "ranks 0, 2, 5-7"."""
    ranks = sorted(ranks)
    spans = []
    for rank in ranks:
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    words = [f"{a}" if a == b else f"{a}, {b}" if b == a + 1 else f"{a}-{b}" for a, b in spans]
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(words)}"


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Ranks that are in the same state: `kind` is starting, running, waiting, failed, done or ended (by torchrun)."""

    ranks: tuple[int, ...]
    kind: str
    words: str
    node: int | None = None  # told where there is more than one


@dataclass(frozen=True, kw_only=True)
class Block:
    """What some ranks printed, all the same: lines of (text, style) runs, of which `left_out` are not shown."""

    ranks: tuple[int, ...]
    errors: bool  # standard error
    first: tuple
    last: tuple = ()
    left_out: str = ""  # in words, "" when everything is shown
    behind: str = ""  # in words: which of the ranks have not printed all of it yet

    @property
    def label(self):
        return in_words(self.ranks) + (", stderr" if self.errors else "")


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A job at one moment. `tone`: plain, good, bad or wait; `sections`: (title, blocks) per attempt."""

    head: str
    tone: str = "plain"
    standings: tuple[Standing, ...] = ()
    sections: tuple[tuple[str, tuple[Block, ...]], ...] = ()
    notes: tuple[str, ...] = ()
    folded: tuple[tuple[str, str], ...] = ()  # (title, text): tracebacks, which the report tells more shortly
    reports: tuple = ()  # objects with .text() and .html(): a diagnosis


class View:
    """Reads a job's folder as it grows. `update` often, `picture` when something is to be shown.

    Args:
        folder: the job's folder, which holds attempt-A/rank-R/{out,err}.
        kept: the folder stays, so it can be named as the place of the whole output.
    """

    def __init__(self, folder, *, kept=False):
        self._folder, self._kept = Path(folder), kept
        self._printed = {}  # (attempt, rank, is standard error) -> Printed
        self._standings, self._latest = (), 0
        self.last_words_from = frozenset()  # ranks that printed something in the last update

    def update(self, ranks, said=None):
        """Read what is new and return whether anything to be shown has changed.

        Args:
            ranks: the snapshot's `RankNow`s.
            said: {rank: (kind, words)} where more is known than the rank's own state: see `Standing`.
        """
        self._find_outputs()
        spoke = {key for key, printed in self._printed.items() if printed.read()}
        self.last_words_from = frozenset(rank for _, rank, _ in spoke)
        standings = _standings(ranks, said or {})
        changed = bool(spoke) or standings != self._standings
        self._standings = standings
        return changed

    def _find_outputs(self):
        for attempt, rank, folder in _folders(self._folder):
            self._latest = max(self._latest, attempt)
            for errors, name in ((False, "out"), (True, "err")):
                if (attempt, rank, errors) not in self._printed:
                    self._printed[attempt, rank, errors] = Printed(folder / name)

    @property
    def has_output(self):
        return any(printed.size for printed in self._printed.values())

    @property
    def attempts(self):
        return self._latest + 1

    def picture(self, head, *, tone="plain", live=False, notes=(), reports=(), standings=True, ends=None):
        """Return the `Picture` of now.

        Args:
            head: the headline.
            live: the job still runs: the ends of outputs are shown, and equal beginnings count as equal.
            standings: show the state of every rank.
            ends: {attempt: words} on how earlier attempts ended.
        """
        groups, folded = {}, []
        for attempt in sorted({key[0] for key in self._printed}):
            texts = {k: p.text() for k, p in self._printed.items() if k[0] == attempt and p.size}
            folded += self._fold(texts)
            groups[attempt] = _groups(texts, live and attempt == self._latest)
        count = sum(map(len, groups.values())) or 1
        room = max(_FEWEST_CHARS, (LIVE_CHARS if live else FINAL_CHARS) // count)
        sections = []
        for attempt, found in groups.items():
            blocks = tuple(self._block(*group, room, live) for group in found)
            if blocks or (self.attempts > 1 and ends):
                sections.append((self._title(attempt, ends or {}), blocks))
        return Picture(
            head=head,
            tone=tone,
            standings=self._standings if standings else (),
            sections=tuple(sections),
            notes=tuple(notes),
            folded=tuple(folded),
            reports=tuple(reports),
        )

    def _fold(self, texts):
        """Take the tracebacks of failed ranks out of their error output and return them as (title, text)."""
        folded = []
        for key in sorted(key for key in texts if key[2]):
            attempt, rank, _ = key
            full = error_of(self._folder / f"attempt-{attempt}" / f"rank-{rank}").get("full", "")
            cut = texts[key].without(full)
            if cut is not None:
                texts[key] = cut
                again = f", attempt {attempt}" if self.attempts > 1 else ""
                folded.append((f"{in_words([rank])}{again}", full))
        return folded

    def _title(self, attempt, ends):
        if self.attempts == 1:
            return ""
        return f"attempt {attempt}" + (f": {ends[attempt]}" if attempt in ends else "")

    def _block(self, text, keys, behind, room, live):
        first, last, lines, chars = _window(text, room, live)
        return Block(
            ranks=tuple(rank for _, rank, _ in keys),
            errors=keys[0][2],
            first=tuple(first),
            last=tuple(last),
            left_out=self._left_out(keys[0], lines, chars, live) if lines else "",
            behind=behind,
        )

    def _left_out(self, key, lines, chars, live):
        words = f"{lines:,} line{'s' if lines > 1 else ''} ({_size(chars)})"
        if live:
            return f"{words} above"
        attempt, rank, errors = key
        if self._kept:
            path = self._folder / f"attempt-{attempt}" / f"rank-{rank}" / ("err" if errors else "out")
            return f"{words} left out here; the whole output is in {path}"
        return f"{words} left out here; with --keep the whole output stays in a file"


def _folders(job):
    """Return (attempt, rank, folder) of every rank that has a folder, in order."""
    found = []
    for above in job.glob("attempt-*"):
        for folder in above.glob("rank-*"):
            attempt, rank = _ATTEMPT.search(above.name), _RANK.search(folder.name)
            if attempt and rank:
                found.append((int(attempt[1]), int(rank[1]), folder))
    return sorted(found)


def _size(chars):
    return count(chars, "character") if chars < 10_000 else f"{chars / 1000:,.0f} kB"


def _standings(ranks, said):
    """Return the states of ranks, equal neighbours in meaning told together, in order of their lowest rank."""
    several = len({now.node for now in ranks}) > 1
    found = {}
    for now in sorted(ranks, key=lambda now: now.rank):
        kind, words = said.get(now.rank) or _state(now)
        found.setdefault((now.node if several else None, kind, words), []).append(now.rank)
    return tuple(
        Standing(ranks=tuple(members), kind=kind, words=words, node=node)
        for (node, kind, words), members in found.items()
    )


def _state(now):
    return now.state, ending_in_words(now.code) if now.state == "failed" else now.state


def ending_in_words(code):
    """Return how a rank ended, in words, from its exit code (minus the signal's number)."""
    import signal

    if code is None:
        return "failed"
    if code == 0:
        return "left by itself (exit code 0)"
    if code > 0:
        return f"failed (exit code {code})"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


# -- which outputs are equal ---------------------------------------------------------------------------------------


def _groups(texts, live):
    """Return [(text, keys of outputs that look like it, words on those that are behind)] in order of rank."""
    found = {}
    for key in sorted(texts):
        if any(texts[key].look):
            found.setdefault((key[2], texts[key].look), []).append(key)
    groups = [(texts[keys[0]], keys, "") for keys in found.values()]
    if live:
        groups = _merged(groups)
    return sorted(groups, key=lambda group: (min(rank for _, rank, _ in group[1]), group[1][0][2]))


def _merged(groups):
    """Put an output together with the longer one it is the beginning of, as long as both still grow."""
    merged = []  # [text, keys, {lines so far: ranks}]
    for text, keys, _ in sorted(groups, key=lambda group: len(group[0].look), reverse=True):
        for whole in merged:
            if whole[1][0][2] == keys[0][2] and _begins(whole[0].look, text.look):
                whole[1].extend(keys)
                whole[2].setdefault(len(text.look), []).extend(rank for _, rank, _ in keys)
                break
        else:
            merged.append([text, list(keys), {}])
    return [(text, keys, _behind(behind, len(text.look))) for text, keys, behind in merged]


def _begins(whole, part):
    is_text = bool(part) and isinstance(part[-1], str) and bool(whole) and isinstance(whole[0], str)
    return is_text and len(part) <= len(whole) and part[:-1] == whole[: len(part) - 1] and _line_begins(whole, part)


def _line_begins(whole, part):
    return whole[len(part) - 1].startswith(part[-1])


def _behind(behind, total):
    return "; ".join(
        f"{in_words(ranks)}: {lines:,} of {count(total, 'line')} so far"
        for lines, ranks in sorted(behind.items(), reverse=True)
    )


# -- how much is shown ---------------------------------------------------------------------------------------------


def _window(text, room, live):
    """Return (first lines, last lines, lines left out between them, characters left out)."""
    if live:
        shown, hidden = _fitting([*text.first, *text.last], room, from_end=True)
        return [], shown, text.lines + len(hidden), text.chars + _chars(hidden)
    if text.lines == 0 and _chars(text.first) <= room:
        return text.first, [], 0, 0
    begin, rest = _fitting(text.first, room // 2)
    end, more = _fitting([*rest, *text.last], room // 2, from_end=True)
    return begin, end, text.lines + len(more), text.chars + _chars(more)


def _fitting(lines, room, from_end=False):
    """Return (as many lines as fit, the others); at least one."""
    count = 0
    for line in reversed(lines) if from_end else lines:
        room -= _chars([line])
        if room < 0 and count:
            break
        count += 1
    return (lines[len(lines) - count :], lines[: len(lines) - count]) if from_end else (lines[:count], lines[count:])


def _chars(lines):
    return sum(sum(len(text) for text, _ in line) + 1 for line in lines)


# -- in words ------------------------------------------------------------------------------------------------------


def as_text(picture, whole=False):
    """Return a picture as plain text; `whole`: with what a page folds away."""
    parts = [picture.head, *_standing_lines(picture.standings)]
    for title, blocks in picture.sections:
        parts += [f"-- {title} --"] if title else []
        parts += [text for block in blocks for text in _block_lines(block)]
    if whole:
        parts += [line for title, text in picture.folded for line in (f"traceback of {title}:", text.rstrip())]
    parts += [text for report in picture.reports for text in ("", report.text())]
    return "\n".join([*parts, *picture.notes])


_PLURAL = {"waits": "wait", "was": "were"}


def _standing_lines(standings):
    named = [(_who(standing), _said_of(standing)) for standing in standings]
    width = max((len(who) for who, _ in named), default=0)
    return [f"  {who:<{width}}  {words}" for who, words in named]


def _said_of(standing):
    verb, space, more = standing.words.partition(" ")
    return (_PLURAL.get(verb, verb) if len(standing.ranks) > 1 else verb) + space + more


def _who(standing):
    return in_words(standing.ranks) + ("" if standing.node is None else f" on node {standing.node}")


def _block_lines(block):
    first, last = [plain(line) for line in block.first], [plain(line) for line in block.last]
    label = block.label + (f" ({block.behind})" if block.behind else "")
    if len(first) + len(last) == 1 and not block.left_out:
        return [f"{label}: {(first + last)[0]}"]
    gap = [f"... {block.left_out}"] if block.left_out else []
    return [f"{label}:", *(f"    {line}".rstrip() for line in [*first, *gap, *last])]
