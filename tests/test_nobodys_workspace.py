"""Tests and benchmarks run lessons, and lessons keep a journal: never in the workspace of whoever runs them."""

import importlib.util
import os
import subprocess

from labsupport.places import ROOT, workspace


def test_tests_have_a_workspace_of_their_own():
    assert not workspace().is_relative_to(ROOT) and os.environ["LAB_WORK"]


def test_what_the_benchmark_of_grading_runs_has_one_too(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("benchmark_of_grading", ROOT / "benchmarks" / "grading.py")
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    given = []

    def run(command, env, **options):
        given.append(env["LAB_WORK"])
        assert os.path.isdir(given[-1])  # noqa: PTH112
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setenv("LAB_WORK", str(tmp_path))
    monkeypatch.setattr(benchmark.subprocess, "run", run)
    monkeypatch.setattr(benchmark, "_reap", lambda: None)  # it would wait for the processes of these tests
    benchmark.nbmake([tmp_path / "05_strides.ipynb"], 1, 1)
    benchmark.grade(tmp_path, 1)
    assert len(given) == 3 and str(tmp_path) not in given
    assert [path for path in given if os.path.exists(path)] == []  # noqa: PTH110
