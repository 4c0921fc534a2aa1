"""Runners that many tests share: starting one takes longer than a test."""

import os

import pytest
from caged import opened


@pytest.fixture(scope="session")
def planted():
    """A secret in the judge's environment, there before anything starts."""
    os.environ["LAB_PLANTED"] = "planted-secret-8161"
    yield os.environ["LAB_PLANTED"]
    del os.environ["LAB_PLANTED"]


@pytest.fixture(scope="session", params=["A", "B"])
def runner(request, planted):
    with opened(request.param) as runner:
        yield runner


@pytest.fixture(scope="session")
def caged(planted):
    with opened("A") as runner:
        yield runner


@pytest.fixture(scope="session", params=["A", "B"])
def ungrouped(request):
    """A runner that has no control groups to count memory with."""
    with opened(request.param, groups=False) as runner:
        yield runner
