"""The `lab` command line: dispatch, messages, exit codes, and the commands doctor and test."""

import ast
import graphlib
import os
import subprocess
import sys
import types

import pytest

import labsupport
from labsupport import cli
from labsupport.cli import doctor
from labsupport.cli import test as test_command
from labsupport.environment import machine
from labsupport.errors import LabError, UsageError
from labsupport.places import ROOT

NAMES = [name for group in cli.COMMANDS.values() for name in group]


def test_help_lists_every_command_and_imports_none():
    code = (
        "import sys; from labsupport.cli import main; main(['--help']);"
        "print([m for m in sys.modules if m.startswith('labsupport.') and m.count('.') > 1])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    listed = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")]
    assert listed == NAMES
    assert done.stdout.splitlines()[-1] == "[]"


def test_importing_labsupport_loads_nothing_heavy():
    code = "import sys, labsupport; print({'torch', 'matplotlib', 'numpy', 'IPython'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_package_and_the_command_line_import_without_any_installed_package():
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import labsupport, labsupport.environment, labsupport.cli"
    code += "; import labsupport.cli.doctor, labsupport.cli.start, labsupport.cli.test"
    subprocess.run([sys.executable, "-S", "-I", "-c", code], check=True)


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_a_module_with_the_two_functions(name, capsys):
    assert cli.main([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: lab {name}")
    module = sys.modules[f"labsupport.cli.{name}"]
    assert callable(module.run)


def test_python_m_labsupport_is_the_same_command():
    done = subprocess.run([sys.executable, "-m", "labsupport", "--version"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, f"lab {labsupport.__version__}")


@pytest.mark.parametrize(
    "words, says", [(["strat"], "the nearest is start"), (["lesson"], "lessons"), (["xyzzy"], "lab --help lists")]
)
def test_an_unknown_command_names_the_nearest(words, says, capsys):
    assert cli.main(words) == 2
    out, err = capsys.readouterr()
    assert says in err
    assert out == ""


def test_no_command_shows_the_help(capsys):
    assert cli.main([]) == 0
    assert "usage: lab COMMAND" in capsys.readouterr().out


def test_help_of_a_command(capsys):
    assert cli.main(["help", "start"]) == 0
    assert "--no-browser" in capsys.readouterr().out


@pytest.fixture
def command(monkeypatch):
    """Return a function that gives `lab doctor` another body."""

    def put(run):
        monkeypatch.setattr(doctor, "add_arguments", lambda parser: parser.add_argument("--n", type=int))
        monkeypatch.setattr(doctor, "run", run)

    return put


def raises(error):
    def run(args):
        raise error

    return run


@pytest.mark.parametrize(
    "run, code",
    [
        (lambda args: None, 0),
        (lambda args: 1, 1),
        (raises(LabError("it rained", why="clouds", next_step="wait")), 1),
        (raises(UsageError("no exercise is called 'x'")), 2),
        (raises(KeyboardInterrupt()), 130),
    ],
)
def test_exit_codes(command, run, code):
    command(run)
    assert cli.main(["doctor"]) == code


def test_an_error_is_three_lines_on_standard_error(command, capsys):
    command(raises(LabError("it rained", why="clouds", next_step="wait")))
    cli.main(["doctor"])
    out, err = capsys.readouterr()
    assert (out, err) == ("", "it rained\n  why:  clouds\n  next: wait\n")


def test_wrong_arguments_end_with_2(command, capsys):
    command(lambda args: 0)
    assert cli.main(["doctor", "--n", "many"]) == 2
    assert "usage: lab doctor" in capsys.readouterr().err


def test_a_package_lost_from_the_environment_is_named(command, capsys, monkeypatch):
    monkeypatch.setattr(sys, "base_prefix", "/elsewhere")
    command(raises(ModuleNotFoundError("No module named 'zarr'", name="zarr")))
    assert cli.main(["doctor"]) == 1
    assert "the package zarr is missing" in capsys.readouterr().err
    # Not set up yet: the launcher needs to see it, and goes on to install.
    monkeypatch.setattr(sys, "base_prefix", sys.prefix)
    with pytest.raises(ModuleNotFoundError):
        cli.main(["doctor"])


def test_a_program_error_is_not_hidden(command):
    command(raises(ZeroDivisionError("a bug")))
    with pytest.raises(ZeroDivisionError):
        cli.main(["doctor"])


def test_a_reader_that_has_seen_enough_ends_the_command_quietly():
    # `lab --help | head -1` on any system: the reading end is closed before the command writes.
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read(); from labsupport.cli import main; sys.exit(main([]))"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, text=True,
    )  # fmt: skip
    process.stdout.close()
    process.stdin.close()
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
    process.wait(timeout=60)


@pytest.mark.parametrize(
    "words", [["hint", "strides/no-such"], ["solution", "nothing/at-all"], ["start", "no-such-lesson"]]
)
def test_unknown_ids_end_with_2_and_the_nearest(words, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_WORK", str(tmp_path / "work"))
    assert cli.main(words) == 2
    assert "next:" in capsys.readouterr().err
    assert not (tmp_path / "work").exists(), "an unknown id makes nothing"


# lab doctor


def test_doctor_looks_at_everything_and_says_ok_or_the_way_out():
    found = list(doctor.findings())
    assert {f.topic for f in found} >= {
        "system",
        "Python",
        "packages",
        "cores",
        "memory",
        "disk",
        "accelerator",
        "browser",
    }
    assert {f.level for f in found} <= {"ok", "note", "problem"}
    for finding in found:
        assert finding.level == "ok" or finding.way, f"{finding} names no way out"


def test_doctor_stops_where_there_is_no_wheel(monkeypatch, capsys):
    problem = LabError("PyTorch has no package for this machine", why="it needs glibc 2.28", next_step="use Debian 12")
    monkeypatch.setattr(machine, "wheel_problem", lambda: problem)
    assert cli.main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "it needs glibc 2.28" in out
    assert "next: use Debian 12" in out
    assert "packages" not in out
    assert out.rstrip().endswith("1 problem found.")


@pytest.mark.parametrize(
    "where, value, level, says",
    [
        ("free_bytes", 10**8, "problem", "100 MB free"),
        ("memory_bytes", (10**9, 8 * 10**9), "note", "1.0 GB usable of 8.0 GB"),
        ("memory_bytes", (None, None), "ok", "does not say"),
        ("cores", (1.5, 8, "a container limit"), "note", "1.5 of 8 usable, because of a container limit"),
        ("nvidia_gpus", ["NVIDIA L4, 23034 MiB"], "note", "build without CUDA"),
    ],
)
def test_doctor_on_other_machines(monkeypatch, where, value, level, says):
    monkeypatch.setattr(machine, where, lambda *args: value)
    monkeypatch.setattr(doctor, "_installed", lambda: [])
    monkeypatch.setattr(doctor, "_version", lambda name: "2.13.0+cpu")
    checks = {"free_bytes": "_disk", "memory_bytes": "_memory", "cores": "_cores", "nvidia_gpus": "_accelerator"}
    finding = getattr(doctor, checks[where])()
    assert (finding.level, says in finding.text) == (level, True), finding


def test_doctor_names_missing_and_other_versions(monkeypatch):
    versions = dict.fromkeys(doctor._NEEDED, "1.0") | {"ml-engineering-lab": "0.1.0", "zarr": None}
    monkeypatch.setattr(doctor, "_version", versions.get)
    monkeypatch.setattr(doctor, "_pins", lambda: {"numpy": "2.4.6"})
    missing, other = doctor._packages()
    assert (missing.level, missing.text) == ("problem", "missing: zarr")
    assert (other.level, "numpy 1.0 (tested: 2.4.6)" in other.text) == ("note", True)


def test_doctor_sees_a_workspace_that_cannot_be(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("LAB_WORK", str(tmp_path / "file" / "work"))
    assert doctor._workspace().level == "problem"


# lab test


def options(**given):
    return types.SimpleNamespace(**({"fast": False, "bench": False, "pytest": []} | given))


def test_fast_leaves_out_browser_and_slow(monkeypatch):
    assert "-m" not in test_command.command(options())[3:]
    words = test_command.command(options(fast=True))
    assert words[words.index("-m", 3) + 1] == "not browser and not slow"
    assert words[-1] == "tests"


def test_arguments_after_two_dashes_reach_pytest(monkeypatch):
    seen = []
    monkeypatch.setattr(test_command, "command", lambda args: seen.append(args.pytest) or [sys.executable, "-c", ""])
    assert cli.main(["test", "--", "-k", "journal"]) == 0
    assert seen == [["-k", "journal"]]


@pytest.mark.slow
def test_the_last_line_is_pytests_own_and_the_workspace_is_not_touched(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("LAB_WORK", str(tmp_path / "mine"))
    probe = tmp_path / "test_probe.py"
    writes = "import os\nfrom pathlib import Path\n\ndef test_a():\n    Path(os.environ['LAB_WORK'], 'x').touch()\n"
    probe.write_text(writes, encoding="utf-8")
    assert cli.main(["test", "--", str(probe), "-n", "0", "-p", "no:cacheprovider"]) == 0
    assert capfd.readouterr().out.rstrip().splitlines()[-1].startswith("1 passed in")
    assert not (tmp_path / "mine").exists()
    probe.write_text("def test_a():\n    assert False\n", encoding="utf-8")
    assert cli.main(["test", "--", str(probe), "-n", "0", "-p", "no:cacheprovider"]) == 1


@pytest.mark.slow
def test_what_fails_beside_others_is_asked_once_more_alone_and_named(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(test_command, "ROOT", tmp_path)
    for name in [name for name in os.environ if name.startswith("PYTEST")]:  # of the run this test is part of
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    monkeypatch.setattr(test_command, "_MOST_CORES", 0)
    (tmp_path / "tests").mkdir()
    probe = tmp_path / "tests" / "test_probe.py"
    body = "import os\n\ndef test_a():\n    assert 'PYTEST_XDIST_WORKER' not in os.environ\n\ndef test_b():\n    pass\n"
    probe.write_text(body, encoding="utf-8")
    assert test_command.run(options()) == 0
    told = capfd.readouterr().out
    assert "they failed beside others (1):\n  tests.test_probe::test_a\n" in told
    assert told.splitlines()[-1].startswith("1 passed in")
    probe.write_text(body.replace("not in", "=="), encoding="utf-8")
    assert test_command.run(options()) == 1
    probe.write_text(
        "class ForgedPass(AssertionError): pass\n\ndef test_a():\n    raise ForgedPass\n", encoding="utf-8"
    )
    capfd.readouterr()
    assert test_command.run(options()) == 1
    assert "once more" not in capfd.readouterr().out


def test_many_failures_are_no_chance(tmp_path):
    case = '<testcase classname="t" name="a{}"><failure message="no">no</failure></testcase>'
    for count, asked in ((12, 12), (13, 0)):
        text = "".join(case.format(k) for k in range(count))
        (tmp_path / "first.xml").write_text(f"<testsuite>{text}</testsuite>", encoding="utf-8")
        assert len(test_command.again(tmp_path / "first.xml")) == asked
    text = case.format(1) + case.format(2).replace('"no"', '"test_attacks.ForgedPass: Row(...)"')
    (tmp_path / "first.xml").write_text(f"<testsuite>{text}</testsuite>", encoding="utf-8")
    assert test_command.again(tmp_path / "first.xml") == []
    assert test_command.again(tmp_path / "none.xml") == []


def test_bench_runs_every_benchmark_and_fails_with_one(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(test_command, "ROOT", tmp_path)
    with pytest.raises(LabError):
        test_command.run(options(bench=True))
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "a.py").write_text("print('1.5 ms')", encoding="utf-8")
    assert test_command.run(options(bench=True)) == 0
    assert capfd.readouterr().out.splitlines() == ["== a.py", "1.5 ms"]
    (tmp_path / "benchmarks" / "b.py").write_text("raise SystemExit(3)", encoding="utf-8")
    assert test_command.run(options(bench=True)) == 1


def test_continuous_integration_calls_one_script():
    text = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    assert [line.strip() for line in text.splitlines() if "run:" in line] == ["- run: .ci/run"]
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert script.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in script
    assert script.rstrip().splitlines()[-1] == "exec ./lab test"


def test_no_module_imports_itself_by_a_detour():
    """Lazy imports count: they hide a circle from Python, not from whoever has to read one file before the other."""
    files = {_module(path): path for path in (ROOT / "labsupport").rglob("*.py")}
    taken = {name: _imported(name, path, files) for name, path in files.items()}
    assert any(taken.values())
    try:
        graphlib.TopologicalSorter(taken).prepare()
    except graphlib.CycleError as circle:
        pytest.fail(" <- ".join(circle.args[1]))


def _module(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _imported(name, path, files):
    """Return the modules of ours that a module imports, at any depth of its code."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            wanted = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {one if one in files else node.module for one in wanted}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & files.keys() - {name}
