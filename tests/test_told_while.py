"""What a notebook says while a check takes long: nothing at first, one renewed line, and at the end how long."""

import sys
import threading
from types import SimpleNamespace

import pytest

from labsupport.waiting import told_while

PATIENCE_S = 60  # a hang guard


@pytest.fixture
def told(monkeypatch):
    """What a kernel was told to show, in order, and an event that is set by the first word."""
    said = SimpleNamespace(lines=[], first=threading.Event(), outputs=0)

    class Handle:
        def update(self, bundle, raw):
            said.lines.append(bundle["text/plain"])

    def display(bundle, raw, display_id):
        said.outputs += 1
        said.lines.append(bundle["text/plain"])
        said.first.set()
        return Handle()

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(kernel=object()))
    return said


def test_what_is_quick_needs_no_word(told):
    with told_while("checking strides/address-of"):
        pass
    assert told.lines == []


def test_one_output_says_what_is_waited_for_and_then_how_long_it_took(told):
    with told_while("checking strides/address-of", quiet_s=0):
        assert told.first.wait(PATIENCE_S)
    assert told.outputs == 1
    assert told.lines[0].startswith("checking strides/address-of: ") and told.lines[0].endswith(" s so far")
    assert told.lines[-1].startswith("checking strides/address-of took ")


def test_an_error_passes_through_and_ends_the_line(told):
    with pytest.raises(KeyboardInterrupt), told_while("checking x", quiet_s=0):
        assert told.first.wait(PATIENCE_S)
        raise KeyboardInterrupt
    assert told.lines[-1].startswith("checking x took ")


def test_no_thread_stays(told):
    before = threading.active_count()
    with told_while("checking x", quiet_s=0):
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


@pytest.mark.parametrize("shell", [None, SimpleNamespace()], ids=["no shell", "a terminal"])
def test_nothing_is_shown_outside_a_kernel(told, monkeypatch, shell):
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    before = threading.active_count()
    with told_while("checking x", quiet_s=0):
        assert threading.active_count() == before
    assert told.lines == []


def test_ipython_is_not_loaded_for_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython")
    with told_while("checking x", quiet_s=0):
        assert "IPython" not in sys.modules
