"""What is seen of a job: played from files as a rank writes them, folded, in words and in HTML."""

import html.parser
import json
from types import SimpleNamespace

import pytest

from labsupport.figures.palette import PALETTE, contrast
from labsupport.torchrun import page, view
from labsupport.torchrun.printed import Printed, plain
from labsupport.torchrun.view import View, as_text, in_words


class JobFolder:
    """A job's folder that tests write into as ranks would."""

    def __init__(self, folder):
        self.folder = folder

    def rank(self, rank, attempt=0):
        folder = self.folder / f"attempt-{attempt}" / f"rank-{rank}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def write(self, rank, text, name="out", attempt=0):
        raw = text if isinstance(text, bytes) else text.encode()
        with (self.rank(rank, attempt) / name).open("ab") as file:
            file.write(raw)


def now(rank, state="running", code=None, node=0, attempt=0):
    return SimpleNamespace(rank=rank, state=state, code=code, node=node, attempt=attempt, world=4)


@pytest.fixture
def job(tmp_path):
    return JobFolder(tmp_path)


def words(job, ranks=(), said=None, head="head", **options):
    seen = View(job.folder)
    seen.update(ranks, said)
    return as_text(seen.picture(head, **options))


# -- a terminal ----------------------------------------------------------------------------------------------------


def played(tmp_path, *pieces):
    file = tmp_path / "out"
    printed = Printed(file)
    with file.open("ab", buffering=0) as out:
        for piece in pieces:
            out.write(piece if isinstance(piece, bytes) else piece.encode())
            printed.read()
    text = printed.text()
    return [plain(line) for line in (*text.first, *text.last)]


@pytest.mark.parametrize(
    "pieces, lines",
    [
        (["a\nb\n"], ["a", "b"]),
        (["a\n\n\nb"], ["a", "", "", "b"]),
        (["\r  0%|    |\r 50%|##  |\r100%|####|\n", "done\n"], ["100%|####|", "done"]),
        (["downloading\rdone"], ["doneloading"]),
        (["downloading\r\x1b[Kdone"], ["done"]),
        (["windows\r\nlines\r\n"], ["windows", "lines"]),
        (["abc\b\bX"], ["aXc"]),
        (["a\tb"], ["a       b"]),
        (["outer 1\ninner 1\x1b[A\router 2\n\rinner 2\n"], ["outer 2", "inner 2"]),
        ([b"caf\xc3", b"\xa9\n"], ["café"]),
        ([b"\xff\xfe\n"], ["\ufffd\ufffd"]),
        (["\x1b[3", "1mred\x1b[0m"], ["red"]),
        (["\x1b]0;a title\x07text"], ["text"]),
        (["\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\"], ["link"]),
        (["\x1b[2J\x1b[Htext\x00\x07"], ["text"]),
        (["a\x1b[5Gb"], ["a   b"]),
    ],
)
def test_a_file_is_played_as_a_terminal_would(tmp_path, pieces, lines):
    assert played(tmp_path, *pieces) == lines


def test_it_does_not_matter_where_reading_stopped(tmp_path):
    text = "a\x1b[1;31mbold\x1b[0m é\r\n100%|██\rX\n\x1b]0;t\x07z\n".encode()
    whole = played(tmp_path, text)
    (tmp_path / "out").unlink()
    assert played(tmp_path, *(text[i : i + 1] for i in range(len(text)))) == whole


def test_colours_are_kept_as_words(tmp_path):
    (tmp_path / "out").write_text(
        "\x1b[1;31mred\x1b[22m thin\x1b[0m none \x1b[38;5;196mx\x1b[38;2;0;0;255my\x1b[7mz\x1b[m"
    )
    printed = Printed(tmp_path / "out")
    printed.read()
    (line,) = printed.text().first
    assert line == (
        ("red", "bold fg1"), (" thin", "fg1"), (" none ", ""), ("x", "fg1"), ("y", "fg4"), ("z", "fg4 inverse"),
    )  # fmt: skip


def test_a_flood_keeps_its_beginning_and_its_end_and_is_counted(tmp_path):
    lines = [f"line {i}" for i in range(60_000)]
    (tmp_path / "out").write_text("\n".join(lines) + "\n", encoding="utf-8")
    printed = Printed(tmp_path / "out")
    printed.read()
    text = printed.text()
    first, last = [[plain(line) for line in part] for part in (text.first, text.last)]
    assert first == lines[: len(first)] and len(first) > 1000
    assert last[1:] == lines[-len(last) + 1 :] and len(last) > 1000
    assert len(first) + text.lines + len(last) == pytest.approx(len(lines), abs=1)
    assert sum(map(len, first + last)) < 50_000


def test_a_bar_of_a_million_steps_takes_no_room(tmp_path):
    file = tmp_path / "out"
    printed = Printed(file)
    with file.open("a", encoding="utf-8") as out:
        for i in range(2000):
            out.write("".join(f"\r{i * 100 + j:7d} steps" for j in range(100)))
            out.flush()
            printed.read()
    text = printed.text()
    assert [plain(line) for line in text.first] == [" 199999 steps"]
    assert text.lines == 0


def test_one_endless_line_is_broken_and_bounded(tmp_path):
    (tmp_path / "out").write_text("x" * 3_000_000)
    printed = Printed(tmp_path / "out")
    printed.read()
    text = printed.text()
    assert sum(len(plain(line)) for line in (*text.first, *text.last)) < 500_000


# -- folding -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ranks, said",
    [
        ([2], "rank 2"),
        ([0, 1, 2, 3], "ranks 0-3"),
        ([3, 1], "ranks 1, 3"),
        ([0, 1], "ranks 0, 1"),
        ([0, 2, 3, 4], "ranks 0, 2-4"),
    ],
)
def test_ranks_in_words(ranks, said):
    assert in_words(ranks) == said


def test_equal_outputs_are_shown_once(job):
    for rank in (2, 0, 3, 1):
        job.write(rank, "6.0\n")
    assert words(job) == "head\nranks 0-3: 6.0"


def test_a_rank_that_differs_stands_alone_and_the_order_is_that_of_ranks(job):
    for rank, text in ((3, "a\n"), (1, "a\n"), (0, "b\n"), (2, "c\n")):
        job.write(rank, text)
    assert words(job) == "head\nrank 0: b\nranks 1, 3: a\nrank 2: c"


def test_output_and_error_output_are_not_mixed(job):
    for rank in (0, 1):
        job.write(rank, "out\n")
        job.write(rank, "careful\n", "err")
    job.write(1, "more\n", "err")
    assert words(job).splitlines()[1:] == [
        "ranks 0, 1: out", "rank 0, stderr: careful", "rank 1, stderr:", "    careful", "    more",
    ]  # fmt: skip


def test_while_it_runs_the_beginning_of_an_output_counts_as_equal(job):
    job.write(0, "step 1\nstep 2\n")
    job.write(1, "step 1\nst")
    job.write(2, "step 1\n")
    job.write(3, "other\n")
    live = words(job, live=True)
    assert live.splitlines()[1] == "ranks 0-2 (ranks 1, 2: 1 of 2 lines so far):" or "rank 1: 2 of 2" in live
    assert "rank 3: other" in live
    assert "rank 2: step 1" in words(job), "when it has ended, an output is equal or it is not"


def test_a_bar_that_ended_alike_is_folded_though_it_was_drawn_differently(job):
    job.write(0, "\r 10%\r 60%\r100%\n")
    job.write(1, "\r 30%\r100%\n")
    assert words(job) == "head\nranks 0, 1: 100%"


def test_empty_output_is_not_shown(job):
    job.rank(0)
    job.write(1, "")
    job.write(2, "\n")
    assert words(job) == "head"


def test_attempts_have_a_title_each(job):
    job.write(0, "first\n")
    job.write(0, "second\n", attempt=1)
    assert words(job, ends={0: "rank 2 killed by SIGKILL"}).splitlines()[1:] == [
        "-- attempt 0: rank 2 killed by SIGKILL --", "rank 0: first", "-- attempt 1 --", "rank 0: second",
    ]  # fmt: skip


# -- states --------------------------------------------------------------------------------------------------------


def test_ranks_in_the_same_state_are_told_together(job):
    ranks = [now(0), now(1), now(2, "failed", -9), now(3, "done", 0)]
    said = {0: ("waiting", "waits in all_reduce 4 (line 12)"), 1: ("waiting", "waits in all_reduce 4 (line 12)")}
    assert words(job, ranks, said).splitlines()[1:] == [
        "  ranks 0, 1  wait in all_reduce 4 (line 12)",
        "  rank 2      killed by SIGKILL",
        "  rank 3      done",
    ]


def test_nodes_are_told_where_there_are_several(job):
    ranks = [now(0, node=0), now(1, node=0), now(2, node=1), now(3, node=1)]
    assert words(job, ranks).splitlines()[1:] == ["  ranks 0, 1 on node 0  running", "  ranks 2, 3 on node 1  running"]


def test_something_changed_only_when_it_did(job):
    job.write(0, "a\n")
    seen = View(job.folder)
    assert seen.update([now(0)])
    assert not seen.update([now(0)])
    assert seen.update([now(0, "done", 0)])
    job.write(0, "b\n")
    assert seen.update([now(0, "done", 0)])
    assert seen.last_words_from == {0}


# -- much of it ----------------------------------------------------------------------------------------------------


def test_a_large_output_is_bounded_with_a_sentence(job):
    job.write(0, "".join(f"line {i}\n" for i in range(100_000)))
    shown = words(job)
    assert "line 0\n" in shown and "line 99999" in shown
    assert "left out here; with --keep the whole output stays in a file" in shown
    assert len(shown) < view.FINAL_CHARS


def test_a_kept_folder_is_named_as_the_place_of_the_whole_output(job):
    job.write(0, "".join(f"line {i}\n" for i in range(100_000)))
    seen = View(job.folder, kept=True)
    seen.update([now(0)])
    assert str(job.rank(0) / "out") in as_text(seen.picture("head"))


def test_live_pictures_are_small_and_show_the_end(job):
    for rank in range(8):
        job.write(rank, "".join(f"rank {rank} line {i}\n" for i in range(5000)))
    seen = View(job.folder)
    seen.update([now(rank) for rank in range(8)])
    picture = seen.picture("head", live=True)
    assert "rank 7 line 4999" in as_text(picture)
    assert "lines (" in as_text(picture) and " above" in as_text(picture)
    assert len(page.as_html(picture)) < 60_000


# -- tracebacks ----------------------------------------------------------------------------------------------------

FULL = 'Traceback (most recent call last):\n  File "cell.py", line 3, in <module>\n    f()\nValueError: no\n'


def test_a_traceback_is_taken_out_of_the_error_output(job):
    job.write(0, "a warning\n" + FULL, "err")
    (job.rank(0) / "error.json").write_text(json.dumps({"type": "ValueError", "message": "no", "full": FULL}))
    seen = View(job.folder)
    seen.update([now(0, "failed", 1)])
    picture = seen.picture("head")
    assert "Traceback" not in as_text(picture)
    assert "rank 0, stderr: a warning" in as_text(picture)
    assert FULL.rstrip() in as_text(picture, whole=True)
    shown = page.as_html(picture)
    assert "<details" in shown and "ValueError: no" in shown


def test_a_traceback_after_a_flood_is_taken_out_too(job):
    job.write(0, "noise " * 20 + "\n", "err")
    for _ in range(3000):
        job.write(0, "noise " * 20 + "\n", "err")
    job.write(0, FULL, "err")
    (job.rank(0) / "error.json").write_text(json.dumps({"type": "ValueError", "message": "no", "full": FULL}))
    assert "Traceback" not in words(job)


# -- HTML ----------------------------------------------------------------------------------------------------------


class Seen(html.parser.HTMLParser):
    """Collects what an HTML text has: elements, attributes, text outside of style."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text, self._open = [], [], "", []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if "style" not in self._open:
            self.text += data


def pictured(job, ranks=(), said=None, **options):
    seen = View(job.folder)
    seen.update(ranks, said)
    return page.as_html(seen.picture("4 ranks: running", **options))


def test_html_has_the_same_words_and_nothing_that_runs_or_loads(job):
    job.write(0, "<script>alert(1)</script> & \x1b[31m<b>red</b>\x1b[0m\n")
    job.write(1, 'javascript:x "quoted"\n', "err")
    seen = Seen(pictured(job, [now(0), now(1, "failed", 7)], {0: ("waiting", "waits in <all_reduce>")}))
    assert "<script>alert(1)</script> & <b>red</b>" in seen.text
    assert "waits in <all_reduce>" in seen.text
    assert "failed (exit code 7)" in seen.text
    assert not {"script", "b0", "img", "link", "iframe"} & set(seen.tags)
    assert {name for name, _ in seen.attributes} <= {
        "class",
        "style",
        "aria-label",
        "aria-hidden",
        "data-state",
        "scope",
    }
    assert not any("url(" in (value or "") or "http" in (value or "") for _, value in seen.attributes)


def test_every_rank_has_its_state_in_its_place(job):
    shown = pictured(job, [now(rank, "done" if rank % 2 else "running") for rank in range(4)])
    places = [shown.index(f"<b>rank {rank}</b>") for rank in range(4)]
    assert places == sorted(places)


def test_without_its_style_sheet_it_reads_the_same(job):
    job.write(0, "\x1b[32mgreen\x1b[0m\n")
    shown = pictured(job, [now(0)])
    bare = shown[: shown.index("<style>")] + shown[shown.index("</style>") + len("</style>") :]
    assert Seen(bare).text == Seen(shown).text


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_colour_of_text_can_be_read(theme):
    colours = PALETTE[theme]
    for ground in (colours["ground"], colours["raised"]):
        for colour in (*page.ANSI[theme]["fg"], colours["ink"], colours["quiet"]):
            assert contrast(colour, ground) >= 4.5, (colour, ground)
    for tint in page.ANSI[theme]["bg"]:
        assert contrast(colours["ink"], tint) >= 4.5, tint
    for role in set(page._ROLES.values()):
        fill, edge, text = colours["roles"][role]
        assert contrast(text, fill) >= 4.5
        assert contrast(edge, colours["raised"]) >= 3


@pytest.mark.parametrize("style", ["fg1 bg1", "bg3 inverse", "fg2 inverse", "bold faint fg7", "bg0"])
def test_text_on_a_tint_is_in_ink(style):
    css = page._css(style)
    if "background" in css:
        assert "color:var(--tr-ink)" in css
    else:
        assert "color:var(--tr-fg7)" in css


def test_an_exported_page_holds_it(job):
    nbformat, nbconvert = pytest.importorskip("nbformat"), pytest.importorskip("nbconvert")
    job.write(0, "loss 0.5\n")
    data = {"text/html": pictured(job, [now(0)]), "text/plain": words(job, [now(0)])}
    cell = nbformat.v4.new_code_cell("%%torchrun", outputs=[nbformat.v4.new_output("display_data", data)])
    notebook = nbformat.v4.new_notebook(cells=[cell])
    for template in ("lab", "basic"):
        exported, _ = nbconvert.HTMLExporter(template_name=template).from_notebook_node(notebook)
        assert "loss 0.5" in exported and 'data-state="running"' in exported
    text, _ = nbconvert.MarkdownExporter().from_notebook_node(notebook)
    assert "loss 0.5" in text


def test_a_flood_that_comes_in_pieces_is_counted_to_the_line(tmp_path):
    data = "".join(f"line {i} of many\n" for i in range(60_000)).encode()
    file = tmp_path / "out"
    printed = Printed(file)
    with file.open("wb") as out:
        for i in range(0, len(data), 100_003):
            out.write(data[i : i + 100_003])
            out.flush()
            printed.read()
    text = printed.text()
    assert len(text.first) + text.lines + len(text.last) == 60_000
    assert plain(text.last[-1]) == "line 59999 of many" and plain(text.first[0]) == "line 0 of many"
    shown = sum(len(plain(line)) + 1 for line in [*text.first, *text.last])
    assert shown + text.chars == len(data)
