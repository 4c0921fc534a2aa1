"""The page for people who only want the tool: its cells run in a real kernel, its table lists every option."""

import argparse
import re

import nbformat
import pytest
from nbclient import NotebookClient

from labsupport.loaderbench.command import add_arguments
from labsupport.places import ROOT

PAGE = (ROOT / "docs" / "loaderbench.md").read_text(encoding="utf-8")


def test_the_page_lists_every_option():
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    options = {name for action in parser._actions for name in action.option_strings if name.startswith("--")}
    listed = [
        name
        for row in PAGE.splitlines()
        if row.startswith("| `--")
        for name in re.findall(r"`(--[a-z-]+)`", row.split("|")[1])
    ]
    assert set(listed) == options - {"--help"} and len(listed) == len(set(listed))


@pytest.mark.slow
def test_every_cell_of_the_page_runs(tmp_path):
    blocks = re.findall(r"```python( raises)?\n(.*?)```", PAGE, re.DOTALL)
    book = nbformat.v4.new_notebook()
    for raises, source in blocks:
        tags = {"tags": ["raises-exception"]} if raises else {}
        book.cells.append(nbformat.v4.new_code_cell(source, metadata=tags))
    NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    failed = [cell for cell in book.cells if any(out.output_type == "error" for out in cell.outputs)]
    assert [cell.metadata.tags for cell in failed] == [["raises-exception"]]
    assert "Tiny has no items" in "\n".join(failed[0].outputs[0].traceback)
    pages = [out.data.get("text/html", "") for cell in book.cells for out in cell.outputs if "data" in out]
    assert any('class="lab-loaderbench"' in page for page in pages)
    assert not any("<progress" in page for page in pages)  # the line of progress has made room for the report
