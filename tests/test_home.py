"""The home notebook lists every lesson of the course: a link to those that can be opened, the others as planned."""

import re

from labsupport import building, catalog
from labsupport.places import SOURCE


def cells():
    return building.build(SOURCE / "home.py")["cells"]


def prose():
    return "\n".join(cell["source"] for cell in cells() if cell["cell_type"] == "markdown")


def test_every_ready_lesson_has_its_row_and_no_other_is_linked():
    rows = re.findall(r"^\| (\d\d) \| \[.*$", prose(), re.MULTILINE)
    ready = [lesson for lesson in catalog.lessons() if lesson.ready]
    assert rows == [f"{lesson.number:02d}" for lesson in ready]
    subjects = {slug: subject for _, slug, subject in catalog.PLAN}
    for lesson in ready:
        link = f"[{lesson.slug}]({lesson.notebook})"
        row = f"| {lesson.number:02d} | {link} | {subjects[lesson.slug]} | {lesson.minutes} minutes |"
        assert row in prose().splitlines(), f"notebooks/source/home.py needs this row: {row}"


def test_every_planned_lesson_is_named_as_planned():
    planned = [f"{lesson.number:02d} {lesson.slug}" for lesson in catalog.lessons() if not lesson.ready]
    assert re.findall(r"\d\d [a-z_]+", prose().split("## Planned")[1]) == planned


def test_links_stay_in_the_folder_and_name_lessons():
    known = {lesson.notebook for lesson in catalog.lessons() if lesson.ready}
    assert set(re.findall(r"\]\(([^)]+)\)", prose())) <= known


def test_the_page_reads_without_running_anything():
    assert [cell["source"].splitlines()[-1] for cell in cells() if cell["cell_type"] == "code"] == ["progress()"]
    assert not re.search(r"<(script|iframe|img|style)", prose())


def test_the_first_line_is_the_only_title():
    assert re.findall(r"^# .*$", prose(), re.MULTILINE) == [prose().splitlines()[0]]
