"""`%%torchrun` in a real JupyterLab: eight cells, from one that works to one on two nodes, looked at light and dark."""

import json
import os
from pathlib import Path

import pytest
from lab_page import PANEL

pytest.importorskip("torch")

HEAD = """import os, sys, time
import torch
import torch.distributed as dist
dist.init_process_group()
rank = dist.get_rank()
"""

ALL_REDUCE = f"""%%torchrun --nproc 4
{HEAD}
x = torch.ones(1) * rank
dist.all_reduce(x)
print(x.item())
"""
DDP = f"""%%torchrun --nproc 4 --return losses
{HEAD}
from torch.nn.parallel import DistributedDataParallel as DDP
torch.manual_seed(0)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for step in range(20):
    x = torch.randn(8, 4)
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if step % 5 == 0:
        print(f"step {{step:2d}}  loss {{loss.item():.3f}}")
    print(f"\\r{{step + 1}} of 20", end="", file=sys.stderr)
"""
CRASH = f"""%%torchrun --nproc 4
{HEAD}
for step in range(10):
    if rank == 2 and step == 3:
        raise ValueError("bad batch")
    dist.all_reduce(torch.ones(7))
"""
MISMATCH = f"""%%torchrun --nproc 4
{HEAD}
if rank == 0:
    dist.all_reduce(torch.ones(7))
else:
    dist.broadcast(torch.ones(7), src=1)
"""
MISSING = f"""%%torchrun --nproc 4 --stop-when-stuck
{HEAD}
for step in range(4):
    if rank == 2 and step == 3:
        dist.recv(torch.ones(7), src=1)
    dist.all_reduce(torch.ones(7))
"""
ENDLESS = f"""%%torchrun --nproc 4
{HEAD}
if rank == 2:
    time.sleep(1000)
dist.all_reduce(torch.ones(7))
"""
RESTART = f"""%%torchrun --nproc 4 --max-restarts 1 --kill rank=2@step=12
{HEAD}
file = "torchrun_model.pt"
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
start = 0
if os.path.exists(file):
    saved = torch.load(file)
    start = saved.pop("step")
    model.module.load_state_dict(saved)
print("from step", start)
for step in range(start, 20):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    if step % 5 == 4:
        if rank == 0:
            torch.save(model.module.state_dict() | {{"step": step + 1}}, file)
        dist.barrier()
print("done")
"""
NODES = f"""%%torchrun --nnodes 2 --nproc 2
{HEAD}
x = torch.ones(1) * rank
dist.all_reduce(x)
print("sum", x.item(), "on node", os.environ["GROUP_RANK"])
"""
CELLS = [
    "%load_ext labsupport.torchrun", ALL_REDUCE, DDP, "print(len(losses), losses[-1] < losses[0])",
    CRASH, MISMATCH, MISSING, ENDLESS, RESTART, NODES,
]  # fmt: skip

RUN_ONE = """async (index) => {
  const panel = window.jupyterapp.shell.currentWidget;
  panel.content.activeCellIndex = index;
  panel.content.deselectAll();
  await window.jupyterapp.commands.execute('notebook:run-cell');
}"""


def write_notebook(path, cells):
    import nbformat

    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in cells]
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)


def run_one(lab, index, wait=True):
    if wait:
        lab.page.evaluate(RUN_ONE, index)
    else:
        lab.page.evaluate(f"(index) => {{ ({RUN_ONE})(index); }}", index)


def outputs(lab, index):
    """Return a cell's outputs: HTML and text of each display, name and value of each error."""
    return lab.cells()[index]["outputs"]


def text_of(lab, index):
    shown = [out["data"]["text/plain"] for out in outputs(lab, index) if "data" in out]
    return "\n".join(text if isinstance(text, str) else "".join(text) for text in shown)


def errors_of(lab, index):
    return [f"{out['ename']}: {out['evalue']}" for out in outputs(lab, index) if out["output_type"] == "error"]


@pytest.fixture(scope="module")
def ran(lab, server):
    """The notebook, open, with every cell run; yields the page."""
    write_notebook(server.work / "torchrun.ipynb", CELLS)
    lab.open("torchrun.ipynb")
    for index in range(len(CELLS)):
        if CELLS[index] is ENDLESS:
            run_one(lab, index, wait=False)
            lab.page.wait_for_function(
                """(index) => JSON.stringify(window.jupyterapp.shell.currentWidget.content.widgets[index]
                     .model.outputs.toJSON()).includes('has not called')""",
                arg=index,
            )
            lab.command("notebook:interrupt-kernel")
            lab.page.wait_for_function(
                "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'"
            )
        else:
            run_one(lab, index)
    lab.save()
    return lab


def cell(source):
    return CELLS.index(source)


def test_a_sum_is_shown_once_for_all_ranks(ran):
    assert "ranks 0-3: 6.0" in text_of(ran, cell(ALL_REDUCE))
    assert errors_of(ran, cell(ALL_REDUCE)) == []


def test_losses_of_ddp_come_back(ran):
    text = text_of(ran, cell(DDP))
    assert "step  0" in text and "20 of 20" in text and "19 of 20" not in text
    assert "20 True" in json.dumps(outputs(ran, cell(DDP) + 1))


def test_a_crash_names_rank_exception_and_line_and_raises_one_small_error(ran):
    text, (error,) = text_of(ran, cell(CRASH)), errors_of(ran, cell(CRASH))
    assert "rank 2" in text and "ValueError" in text and "bad batch" in text and "line 10" in text
    assert error.startswith("RanksFailed: ") and "rank 2" in error
    traceback = next(out["traceback"] for out in outputs(ran, cell(CRASH)) if out["output_type"] == "error")
    assert len(traceback) == 1


def test_a_mismatch_is_a_table_of_both_sides(ran):
    text = text_of(ran, cell(MISMATCH))
    assert "all_reduce" in text and "broadcast" in text and "[7]" in text
    assert len(errors_of(ran, cell(MISMATCH))) == 1


def test_a_missing_call_is_told_and_ends_the_job_when_asked_to(ran):
    text = text_of(ran, cell(MISSING))
    assert "nobody could go on" in text and "collective 4" in text and "rank 2" in text
    assert errors_of(ran, cell(MISSING))[0].startswith("RanksFailed")


def test_an_interrupt_ends_a_job_and_says_where_everyone_was(ran):
    text = text_of(ran, cell(ENDLESS))
    assert "interrupted after" in text
    assert "ranks 0, 1, 3  waited in all_reduce 1" in text
    assert "was at line 9" in text
    assert errors_of(ran, cell(ENDLESS)) == ["Interrupted: every rank of this job has ended"]


def test_a_restart_shows_both_attempts(ran):
    text = text_of(ran, cell(RESTART))
    assert "1 restart" in text and "rank 2 was killed by --kill at step 12" in text
    assert "from step 0" in text and "from step 10" in text
    assert errors_of(ran, cell(RESTART)) == []


def test_two_nodes(ran):
    text = text_of(ran, cell(NODES))
    assert "4 ranks on 2 nodes: done" in text
    assert "ranks 0, 1: sum 6.0 on node 0" in text and "ranks 2, 3: sum 6.0 on node 1" in text


def test_every_cell_has_one_picture_and_no_leftover(ran):
    for index, source in enumerate(CELLS):
        if source.startswith("%%"):
            shown = [out for out in outputs(ran, index) if "data" in out]
            assert len(shown) == 1, index
            assert len(json.dumps(shown)) < 60_000


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_can_be_read_in_both_themes(ran, theme):
    ran.theme(theme)
    boxes = ran.page.locator(f"{PANEL} .lab-ranks")
    assert boxes.count() == 8
    for i in range(8):
        boxes.nth(i).scroll_into_view_if_needed()
        for text, ground in boxes.nth(i).evaluate(_COLOURS):
            assert _contrast(text, ground) >= 4.5, (i, text, ground)
        if folder := os.environ.get("LAB_SCREENSHOTS"):
            boxes.nth(i).screenshot(path=Path(folder) / f"torchrun_{i}_{theme}.png")


def test_nothing_is_cut_off_on_a_narrow_page_and_edges_stay_with_forced_colours(ran):
    size = ran.page.viewport_size
    boxes = ran.page.locator(f"{PANEL} .lab-ranks")
    try:
        ran.page.set_viewport_size({"width": 640, "height": 900})
        ran.page.emulate_media(forced_colors="active")
        for i in range(boxes.count()):
            assert boxes.nth(i).evaluate("(box) => box.scrollWidth <= box.clientWidth"), i
            sizes = "(all) => Math.min(...all.map((e) => parseFloat(getComputedStyle(e).fontSize)))"
            assert boxes.nth(i).locator("*").evaluate_all(sizes) >= 11
        chip = ran.page.locator(f"{PANEL} .lab-ranks li").first
        assert chip.evaluate("(chip) => getComputedStyle(chip).borderTopStyle") == "solid"
        if folder := os.environ.get("LAB_SCREENSHOTS"):
            boxes.nth(3).screenshot(path=Path(folder) / "torchrun_narrow_forced.png")
    finally:
        ran.page.emulate_media(forced_colors="none")
        ran.page.set_viewport_size(size)


def test_axe_finds_nothing(ran):
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(ran.page, context={"include": [[f"{PANEL} .lab-ranks"]]})
    assert found.response["violations"] == []


def test_the_saved_notebook_reads_the_same_when_opened_untrusted(ran, server):
    copied = json.loads((server.work / "torchrun.ipynb").read_text(encoding="utf-8"))
    path = server.work / "torchrun_copy.ipynb"  # written by somebody else, as far as the server knows
    path.write_text(json.dumps(copied | {"metadata": copied["metadata"] | {"note": "copy"}}), encoding="utf-8")
    texts = ran.page.locator(f"{PANEL} .lab-ranks").evaluate_all(_WORDS)
    assert len(texts) == 8
    ran.open("torchrun_copy.ipynb")
    ran.theme("light")
    boxes = ran.page.locator(f"{PANEL} .jp-RenderedHTMLCommon:has-text('rank')")
    assert boxes.evaluate_all(_WORDS) == texts
    if folder := os.environ.get("LAB_SCREENSHOTS"):
        for i in range(3):
            boxes.nth(i).screenshot(path=Path(folder) / f"torchrun_untrusted_{i}.png")


_WORDS = """(boxes) => boxes.map((box) => {
  const copy = box.cloneNode(true);
  copy.querySelectorAll('style').forEach((style) => style.remove());
  return copy.textContent.split(/\\s+/).join(' ').trim();
})"""
_COLOURS = """(box) => {
  const opaque = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (!/rgba\\(.*, 0\\)|transparent/.test(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const found = new Set();
  const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    if (walker.currentNode.data.trim() && parent.tagName !== 'STYLE')
      found.add(JSON.stringify([getComputedStyle(parent).color, opaque(parent)]));
  }
  return [...found].map((pair) => JSON.parse(pair));
}"""


def _contrast(text, ground):
    from labsupport.figures.palette import contrast

    def as_hex(colour):
        numbers = [float(n) for n in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        return "#" + "".join(f"{round(n):02x}" for n in numbers)

    return contrast(as_hex(text), as_hex(ground))
