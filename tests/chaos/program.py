"""A run as a process of its own, with all processes that it starts."""

from __future__ import annotations

import os
import subprocess
import time
import uuid

import psutil

MARK = "PLEASINGLY_CHAOS_RUN"  # inherited by every process that a run starts
SECONDS_TO_END = 600  # a run that takes longer hangs
SECONDS_TO_VANISH = 120  # for the workers of a launcher that was killed


class Broken(AssertionError):
    """A run did not do what it promises; the message says what."""


class Program:
    """One session of a run.

    Parameters
    ----------
    argv : sequence of str
    folder : Path
        The run's folder.
    environment : mapping, optional
        Variables beside those of this process.
    memory : int, optional
        Bytes of resident memory that all workers together may have, as ``ulimit -m``
        says it: Linux does not hold a process to it, Dask's nannies do.
    """

    def __init__(
        self,
        argv,
        folder,
        environment=None,
        memory=None,
    ):
        self.folder = folder
        self._mark = uuid.uuid4().hex
        self._began = time.monotonic()
        self.seconds = 0.0
        self.output = self.complained = ""
        if memory is not None:
            argv = ["sh", "-c", f'ulimit -m {memory >> 10} && exec "$@"', "sh", *argv]
        self.process = subprocess.Popen(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {}), MARK: self._mark},
            start_new_session=True,
        )

    @property
    def ended(self):
        """Whether the launcher has come to its end."""
        return self.process.poll() is not None

    def workers(self):
        """The worker processes, oldest first; also those that only begin to start."""
        try:
            children = psutil.Process(self.process.pid).children()
        except psutil.NoSuchProcess:
            return []
        return sorted(filter(_is_worker, children), key=lambda process: process.pid)

    def wait_until(self, condition):
        """Wait until ``there()`` is true; False if the run ended before."""
        until = time.monotonic() + SECONDS_TO_END
        while not condition():
            if self.ended:
                return False
            if time.monotonic() > until:
                self.end_by_force()
                raise Broken(f"the run hung: {self._last_words()}")
            time.sleep(0.02)
        return True

    def wait(self):
        """Wait for the end; give the exit status, negative for a signal."""
        try:
            self.output, self.complained = self.process.communicate(timeout=SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self.end_by_force()
            raise Broken(f"the run did not end: {self._last_words()}") from None
        self.seconds = time.monotonic() - self._began
        return self.process.returncode

    def must_end_well(self):
        """Hold the session to exit status 0 and silence on stderr, and leave no process."""
        if (self.wait(), self.complained) != (0, ""):
            raise Broken(f"exit status {self.process.returncode}: {self._last_words()}")
        self.must_vanish()

    def must_vanish(self):
        """Wait until no process of this session is left; give the seconds that took."""
        began = time.monotonic()
        while survivors := self.processes():
            if time.monotonic() > began + SECONDS_TO_VANISH:
                self.end_by_force()
                raise Broken(f"{len(survivors)} processes outlived their launcher")
            time.sleep(0.05)
        return time.monotonic() - began

    def end_by_force(self):
        """Leave nothing of a run that failed its test."""
        for process in self.processes():
            process.kill()
        self.output, self.complained = self.process.communicate()

    def processes(self):
        """All that this session has started and that still runs."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process):
        try:
            alive = process.status() != psutil.STATUS_ZOMBIE
            return alive and process.environ().get(MARK) == self._mark
        except psutil.Error:
            return False

    def _last_words(self):
        return " | ".join((self.complained or self.output).strip().splitlines()[-8:])


def _is_worker(process):
    try:
        return any("spawn_main" in word for word in process.cmdline())
    except psutil.Error:
        return False
