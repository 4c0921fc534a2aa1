"""Reports: true to the rows, in the live check's words, and harmless whatever a learner wrote."""

import csv
import html.parser
import io
import json
import re
import xml.etree.ElementTree as ET

import pytest
from classroom import EXERCISES, LESSON, NASTY, row

from labsupport.errors import LabError, UsageError
from labsupport.grading.engine import Secret
from labsupport.grading.reports import Header, Report, junit, pages, record, sheet, write
from labsupport.grading.reports.texts import csv_cell, line, plain
from labsupport.showing import show_verdict

SECRET = Secret(b"a secret of the tests")
OUTCOMES = ("passed", "wrong", "not yet", "crashed", "over limit", "cannot run here", "unreadable", "grader fault")
SAYS = {(EXERCISES[0], "drops-it"): "You drop `the rest`."}
# What a terminal, a spreadsheet or a reader could take for something else.
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def report(*rows, notes=(), lessons=None, **header):
    usual = {"mode": "grade", "tier": "A", "layers": {"files": "ok", "network": "ok"}, "course": "c0", "inputs": "own"}
    ids = {LESSON: list(EXERCISES)} if lessons is None else lessons
    return Report(header=Header(**usual | header), rows=rows, exercises=ids, notes=notes, beliefs=SAYS)


def nasty_report():
    rows = [
        row(
            text, EXERCISES[0], "wrong", why=text, next=text, seen=text, measured=text, taken=text, case=text,
            misconception="drops-it", notes=(text,), clean_run=text,
        )
        for text in NASTY
    ]  # fmt: skip
    return report(*rows, notes=NASTY)


class Page(html.parser.HTMLParser):
    """Collects a page's tags, attributes and visible text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text, self._open = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in ("meta", "link", "br"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag, "tags close in the order they were opened"

    def handle_data(self, data):
        if "style" not in self._open:
            self.text.append(data)

    def words(self):
        return " ".join("".join(self.text).split())


# The first line


def test_the_first_line_names_mode_tier_layers_course_and_inputs():
    said = report().header.line
    assert said == "grade | tier A caged: 2 layers ok | course c0 | own"
    fenced = report(tier="B", layers={"seccomp": "ok", "namespaces": "EPERM"}, mode="feedback").header.line
    assert fenced.startswith("feedback | tier B fenced: 1 layer ok; namespaces: EPERM")
    assert "tier C open: no layers" in report(tier="C", layers={}).header.line


@pytest.mark.parametrize("name", ["index.html", "learner", "junit.xml", "grades.json"])
def test_every_report_says_it(name, tmp_path):
    made = report(row())
    write(made, tmp_path, secret=SECRET)
    path = tmp_path / (pages.page_of("ada") if name == "learner" else name)
    text = path.read_text(encoding="utf-8")
    shown = Page(text).words() if path.suffix == ".html" else text.replace("\\u0026", "&")
    assert made.header.line in shown
    if path.suffix == ".html":
        assert shown.index(made.header.line) < shown.index("points" if name == "learner" else "1 passed")


def test_every_line_of_the_table_says_it():
    found = list(csv.DictReader(io.StringIO(sheet.table(report(row(), row("bob"))))))
    assert [(r["mode"], r["tier"], r["layers"], r["course"]) for r in found] == [
        ("grade", "A", "files ok; network ok", "c0")
    ] * 2


# grades.csv


def test_the_table_has_one_line_per_learner_and_exercise_in_order():
    rows = [row(name, exercise, outcome) for name in ("ada", "bob") for exercise, outcome in zip(EXERCISES, OUTCOMES)]
    found = list(csv.DictReader(io.StringIO(sheet.table(report(*rows)))))
    assert [(r["learner"], r["exercise"], r["outcome"]) for r in found] == [
        (r.learner, r.exercise, r.outcome) for r in rows
    ]
    assert found[0]["points"] == "1.0"


@pytest.mark.parametrize("text", NASTY)
def test_no_cell_is_a_formula_or_acts_on_a_terminal(text):
    made = sheet.table(report(row(text, why=text, notes=(text,))))
    assert not UNSEEN.search(made.replace("\r\n", "\n"))
    for cells in csv.reader(io.StringIO(made)):
        assert not any(re.match(r"[\s\"']*[=+\-@|%]", cell) and not cell.startswith("'") for cell in cells)


def test_numbers_stay_numbers():
    assert (csv_cell(-1.5), csv_cell(None), csv_cell(True), csv_cell("fine")) == (-1.5, "", "yes", "fine")


# grades.json


def test_the_record_holds_every_field_and_its_signature_is_checked(tmp_path):
    made = report(row(usage={"wall_s": 0.5, "odd": float("inf")}, observed="k", notes=("é",)))
    write(made, tmp_path, secret=SECRET)
    found = record.verify(tmp_path / "grades.json", SECRET)
    entry = found["rows"][0]
    assert (entry["submission"], entry["observed"], entry["tier"], entry["usage"]["wall_s"]) == (
        "f" * 64,
        "k",
        "A",
        0.5,
    )
    assert found["limits"]["exercises"][EXERCISES[0]]["call_s"] > 0
    assert found["limits"]["submission"]["submission_s"] > 0
    assert found["header"]["layers"] == {"files": "ok", "network": "ok"}


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"outcome": "wrong"', '"outcome": "passed"'),
        lambda text: text.replace('"mode": "grade"', '"mode": "Grade"'),
        lambda text: text.replace('"points": 0.0', '"points": 1.0'),
        lambda text: text.replace('"rows"', '"rows": [], "rows"'),
        lambda text: text.replace('"points": 0.0', '"points": NaN'),
        lambda text: json.dumps({**json.loads(text), "signature": {"value": 7}}),
        lambda text: json.dumps({**json.loads(text), "signature": None}),
        lambda text: text[:-20],
        lambda text: "[]",
    ],
)
def test_a_changed_record_is_refused(tmp_path, change):
    write(report(row(outcome="wrong")), tmp_path, secret=SECRET)
    path = tmp_path / "grades.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(change(text), encoding="utf-8")
    assert path.read_text(encoding="utf-8") != text
    with pytest.raises(LabError):
        record.verify(path, SECRET)


def test_another_secret_no_secret_and_no_signature_are_told_apart(tmp_path):
    write(report(row()), tmp_path, secret=SECRET)
    path = tmp_path / "grades.json"
    with pytest.raises(LabError, match="not what was signed"):
        record.verify(path, Secret(b"another secret of tests"))
    with pytest.raises(UsageError):
        record.verify(path, Secret())
    write(report(row()), tmp_path, secret=Secret())
    with pytest.raises(LabError, match="no signature"):
        record.verify(path, SECRET)
    with pytest.raises(UsageError):
        record.verify(tmp_path / "not there", SECRET)


def test_the_record_is_plain_ascii_json(tmp_path):
    write(nasty_report(), tmp_path, secret=SECRET)
    raw = (tmp_path / "grades.json").read_bytes()
    assert raw.isascii() and not UNSEEN.search(raw.decode("ascii"))
    assert [r["learner"] for r in json.loads(raw)["rows"]] == list(NASTY)


# junit.xml


def test_junit_has_a_suite_per_learner_and_a_place_for_each_outcome():
    exercises = [f"start-here/e{n}" for n in range(len(OUTCOMES))]
    rows = [row(name, e, outcome, why="said") for name in ("ada", "bob") for e, outcome in zip(exercises, OUTCOMES)]
    root = ET.fromstring(junit.suites(report(*rows)))
    assert [suite.get("name") for suite in root] == ["ada", "bob"]
    counts = {name: root[0].get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "8", "failures": "4", "errors": "1", "skipped": "2"}
    tags = [case[0].tag if len(case) else "" for case in root[0].iter("testcase")]
    assert tags == ["", "failure", "skipped", "failure", "failure", "skipped", "failure", "error"]
    assert root[0].find("properties/property[@name='tier']").get("value") == "A"


def test_junit_is_well_formed_whatever_is_in_it():
    root = ET.fromstring(junit.suites(nasty_report()))
    assert [suite.get("name") for suite in root] == [line(text) for text in NASTY]
    for case, text in zip(root.iter("testcase"), NASTY, strict=True):
        assert plain(text).strip()[:5].strip() in case[0].text


# The pages


def every_page(made):
    return pages.pages(made).values()


def test_pages_run_and_load_nothing():
    for text in every_page(nasty_report()):
        page = Page(text)
        allowed = set(
            "html head meta title style body header p main h1 h2 h3 h4 ul li b div table thead tbody tr th td a bdi "
            "span code section dl dt dd details summary".split()
        )
        assert set(page.tags) <= allowed
        names = {name for name, _ in page.attributes}
        assert not {name for name in names if name.startswith("on")} | (names & {"style", "src", "srcset"})
        assert not UNSEEN.search(text)
        links = [value for name, value in page.attributes if name == "href"]
        assert all(re.fullmatch(r"(\.\./index|learners/[a-z0-9-]+)\.html", link) for link in links)
        assert "default-src 'none'" in text and "script-src" not in text


def test_the_style_block_is_the_one_the_policy_allows():
    import base64
    import hashlib

    text = pages.pages(report(row()))["index.html"]
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in text
    assert "prefers-color-scheme: dark" in style


def test_names_that_look_alike_have_pages_of_their_own():
    names = ["ada", "Ada", "a/da", "../../etc/passwd", "ada ", "", "é", "\ud800", "x" * 500, "con"]
    files = [pages.page_of(name) for name in names]
    assert len(set(files)) == len(names)
    assert all(re.fullmatch(r"learners/[a-z0-9-]{10,60}\.html", name) for name in files)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_learners_message_is_the_live_checks_text(outcome):
    told = row(
        outcome=outcome, case="two left", why="You drop `the rest`, <twice>.", next="Count & look.", seen="7 for 8",
        misconception="drops-it" if outcome == "wrong" else None, measured="64 bytes",
    )  # fmt: skip
    shown = Page(pages.pages(report(told))[pages.page_of("ada")]).words()
    message = show_verdict(told.verdict())
    assert " ".join(message.head.split()) in shown
    for label, text in message.lines:
        assert label in shown and text.replace("`", "") in shown


def test_the_overview_says_what_the_class_believes():
    rows = [row(name, outcome="wrong", misconception="drops-it") for name in ("ada", "bob")] + [row("cy")]
    made = report(*rows, notes=("`x.ipynb` of dee: left out.",))
    shown = Page(pages.pages(made)["index.html"]).words()
    assert "3 learners" in shown and "1 passed, 2 wrong" in shown
    assert "2 drops-it You drop the rest." in shown
    assert "x.ipynb of dee: left out." in shown
    assert shown.count("0 of 1") == 2


def test_pages_of_learners_who_are_gone_go_and_other_files_stay(tmp_path):
    write(report(row("ada"), row("bob")), tmp_path, secret=SECRET)
    other = tmp_path / "learners" / "notes.txt"
    other.write_text("mine", encoding="utf-8")
    write(report(row("ada")), tmp_path, secret=SECRET)
    assert {path.name for path in (tmp_path / "learners").iterdir()} == {
        "notes.txt",
        pages.page_of("ada").split("/")[1],
    }


def test_a_class_of_thousands_has_an_overview_one_can_open():
    rows = [row(f"learner {n:05}", exercise) for n in range(2000) for exercise in EXERCISES]
    made = report(*rows)
    assert len(pages._index(made)) < 2_000_000
    assert len(sheet.table(made).splitlines()) == 1 + len(rows)


# Shares


def test_what_was_not_decided_does_not_count_against_anybody():
    rows = [row(outcome="passed"), row(exercise=EXERCISES[1], outcome="wrong", points=0)]
    assert report(*rows).share("ada") == 0.5
    rows.append(row(exercise=EXERCISES[2], outcome="grader fault", points=0))
    assert report(*rows).share("ada") == 0.5
    assert report(row(outcome="cannot run here", points=0)).share("ada") is None
