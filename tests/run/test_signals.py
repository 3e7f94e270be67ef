from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cluster_setup.shutdown import HANDLED
from pipelines.run.signals import interrupted_once


@pytest.mark.parametrize("number", HANDLED)
def test_the_first_signal_is_an_interrupt_and_handlers_are_given_back(number, capsys):
    before = signal.signal(number, signal.SIG_DFL)  # whatever these tests were started under
    with interrupted_once():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
    assert "press Ctrl-C again to quit at once" in capsys.readouterr().err
    assert signal.signal(number, before) == signal.SIG_DFL


def import_that_is_stopped():
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as error:
        raise ImportError("initialization failed") from error


def test_an_import_that_was_interrupted_is_an_interrupt():
    with pytest.raises(KeyboardInterrupt), interrupted_once():
        import_that_is_stopped()
    with pytest.raises(ImportError, match="no such module"), interrupted_once():
        raise ImportError("no such module")


def test_what_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupted_once():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


class Finalized:
    """Asked to end while it is finalized, where Python drops what is raised."""

    def __del__(self):
        signal.raise_signal(signal.SIGINT)
        for _ in range(3):  # the handler is called between two instructions
            pass


def finalize_and_wait():
    for _ in range(3):
        Finalized()
    threading.Event().wait(60)


def test_an_interrupt_that_python_drops_comes_again(capsys):
    hook = sys.unraisablehook
    with pytest.raises(KeyboardInterrupt), interrupted_once():
        finalize_and_wait()
    assert sys.unraisablehook is hook
    assert capsys.readouterr().err == ""


def test_runs_in_other_threads_leave_the_hook_alone():
    """Two that overlap would put back each other's."""
    with interrupted_once(), ThreadPoolExecutor(1) as pool:
        hook = sys.unraisablehook

        def hook_of_run():
            with interrupted_once():
                return sys.unraisablehook

        assert pool.submit(hook_of_run).result() is hook
