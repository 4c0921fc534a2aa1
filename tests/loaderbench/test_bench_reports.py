"""A report says the same as text, HTML and JSON, and two of them can be compared."""

import dataclasses
import re
from html.parser import HTMLParser

import pytest
from test_deciding import sample, setting, swept

from labsupport.errors import LabError
from labsupport.loaderbench import Report, compare
from labsupport.loaderbench.deciding import best_of, decide
from labsupport.loaderbench.wording import duration, size

AROUND = {"python": "3.11", "torch": "2.13", "system": "linux", "machine": "x86_64", "cores": 2, "threads": 1}


def report_of(samples, has_step=False, **changes):
    baseline = next(iter(samples))
    decision = decide(samples, baseline, best_of(samples, samples), has_step=has_step, cores=2)
    return dataclasses.replace(
        Report(
            dataset="<Photos>",
            length=1000,
            surroundings=AROUND,
            decision=decision,
            samples=samples,
            refused=((setting(8), LabError("a worker <died>", why="memory", next_step="use fewer")),),
            notes=("no step was given",),
        ),
        **changes,
    )


SLOW = swept(0.040, hand_s=0.001, start_s=0.03)


def test_the_text_has_a_row_per_setting_the_mark_and_the_call():
    text = report_of(SLOW).text()
    assert next(line for line in text.splitlines() if line[0:1] == "*").startswith("* 2 workers (fork), batch 32")
    assert "DataLoader(dataset, batch_size=32, num_workers=2, multiprocessing_context='fork')" in text
    assert "not run: 8 workers" in text and "note: no step was given" in text
    assert "transfer" not in text  # columns without numbers are left out
    assert max(map(len, text.splitlines())) < 200


def test_settings_with_one_reason_not_to_run_share_a_line():
    error, other = (LabError(what, next_step="name it") for what in ("a lambda", "a file"))
    report = report_of(SLOW, refused=((setting(1), error), (setting(8), error), (setting(16), other)))
    told = [line for line in report.text().splitlines() if line.startswith("not run")]
    assert len(told) == 2 and "1 worker (fork), batch 32; 8 workers (fork), batch 32: a lambda" in told[0]
    assert report._repr_html_().count("not run:") == 2


def test_a_device_and_a_step_have_columns():
    samples = swept(0.040, 0.010, hand_s=0.001, transfer_s=0.002)
    header = report_of(samples, has_step=True).text().splitlines()[2]
    assert "transfer" in header and "step" in header


class _Outline(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen, self.labels = [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.labels += [value for name, value in attrs if name == "aria-label"]
        if tag not in ("rect", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_html_is_whole_escaped_and_has_words_for_the_picture():
    html = report_of(SLOW)._repr_html_()
    outline = _Outline()
    outline.feed(html)
    assert outline.open == [] and "script" not in outline.seen
    assert "<Photos>" not in html and "&lt;Photos&gt;" in html and "&lt;died&gt;" in html
    assert outline.labels and "2 workers (fork), batch 32: wait" in outline.labels[0]
    assert html.count('<th scope="row"') == len(SLOW) and html.count('scope="col"') == 10


def test_bars_stay_inside_the_picture():
    html = report_of(SLOW)._repr_html_()
    width = float(re.search(r'<svg[^>]* width="([\d.]+)"', html)[1])
    bars = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', html)
    assert bars and all(float(x) + float(w) <= width for x, w in bars)


def test_bars_are_labelled_by_what_differs():
    html = report_of(SLOW)._repr_html_()
    labels = re.findall(r'<text x="194"[^>]*>([^<]*)</text>', html)
    assert len(set(labels)) == len(SLOW) and not any("batch 32" in label or "…" in label for label in labels)


def test_a_report_survives_json(tmp_path):
    report = report_of(SLOW)
    again = Report.load(report.save(tmp_path / "a.json"))
    assert again.text() == report.text() and again.decision == report.decision
    assert {one: tuple(rows) for one, rows in report.samples.items()} == again.samples


def test_files_that_are_no_reports_are_named(tmp_path):
    (tmp_path / "a.json").write_text("{", encoding="utf-8")
    with pytest.raises(LabError, match="cannot be read"):
        Report.load(tmp_path / "a.json")
    (tmp_path / "a.json").write_text("{}", encoding="utf-8")
    with pytest.raises(LabError, match="not a report"):
        Report.load(tmp_path / "a.json")
    (tmp_path / "a.json").write_text('{"format": "loaderbench report 1", "decision": 3}', encoding="utf-8")
    with pytest.raises(LabError, match="damaged"):
        Report.load(tmp_path / "a.json")
    with pytest.raises(LabError, match="no file"):
        Report.load(tmp_path / "b.json")
    with pytest.raises(LabError, match="cannot be written"):
        report_of(SLOW).save(tmp_path / "no" / "a.json")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_two_reports_are_compared_beyond_their_spread():
    before, after = report_of(SLOW), report_of(swept(0.020, hand_s=0.001, start_s=0.03))
    found = compare(before, after)
    assert [change.verdict for change in found.changes] == ["faster"] * 4
    assert "2 times faster" in found.text() and found.differences == ()
    assert [change.verdict for change in compare(after, before).changes] == ["slower"] * 4


def test_ranges_that_meet_are_no_change():
    one = {setting(0): [sample(0.010, repetition=0), sample(0.014, repetition=1)]}
    other = {setting(0): [sample(0.013, repetition=0), sample(0.020, repetition=1)]}
    assert compare(report_of(one), report_of(other)).changes[0].verdict == "same"


def test_what_else_differs_is_told():
    other = report_of(SLOW, length=7, surroundings=AROUND | {"cores": 16})
    text = compare(report_of(SLOW), other).text()
    assert "the datasets differ" in text and "cores was 2 and is 16" in text
    alone = report_of(dict(list(SLOW.items())[:2]))
    assert len(compare(report_of(SLOW), alone).only_before) == 2
    with pytest.raises(LabError, match="no setting in common"):
        compare(report_of(swept(0.01, counts=(0,))), report_of(swept(0.01, counts=(4,))))


def test_numbers_in_words():
    assert [duration(s) for s in (0.0000123, 0.00456, 0.5, 12.34, 200)] == [
        "12.3 µs", "4.56 ms", "500 ms", "12.3 s", "3 min 20 s",
    ]  # fmt: skip
    assert [size(n) for n in (12, 4_560, 12_300_000, 2_500_000_000)] == ["12 B", "4.56 kB", "12.3 MB", "2.5 GB"]
