"""Faults of the launcher: ended by a signal at any moment, and resumed until the run is done."""

from __future__ import annotations

import os
import signal
import time

from tests.chaos.checks import journal_of, must_be_one_line, must_be_readable, must_equal, must_keep
from tests.chaos.program import Broken, Program

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
MOST_FAULTS = 4


def disturb(
    workload,
    truth,
    folder,
    rng,
    number,
    seconds,
):
    """Carry out a run whose launcher is ended again and again; give what was done to it.

    Parameters
    ----------
    seconds : float
        What a run takes that nobody disturbs.

    Raises
    ------
    Broken
        A record is lost or computed twice, or the run does not end as the other.
    """
    done = []
    before = b""
    signals = [SIGNALS[number % len(SIGNALS)], *rng.choice(SIGNALS, rng.integers(1, MOST_FAULTS))]
    for number_of_signal in [*map(int, signals), None]:
        begun = (folder / "run.json").exists()
        program = Program(workload.resume(folder) if begun else workload.begin(folder), folder)
        if number_of_signal is None:
            break
        how = signal.Signals(number_of_signal)
        after = float(rng.uniform(0, seconds))
        time.sleep(after)
        _send(program, how)
        program.wait()
        done.append(f"{how.name} after {after:.1f} s")
        _must_end_as_told(program, how, workload, before)
        before = must_keep(before, folder)
        must_be_readable(folder)
    program.must_end_well()
    must_keep(before, folder)
    must_equal(workload, folder, truth)
    return done


def _send(program, how):
    if program.ended:
        return
    if how == signal.SIGINT:  # as a terminal does: to the whole group
        os.killpg(program.process.pid, how)
    else:
        program.process.send_signal(how)


def _must_end_as_told(program, how, workload, before):
    status = program.process.returncode
    program.must_vanish()
    if status == 0:  # the signal came too late
        return
    if how == signal.SIGKILL:
        if status != -how:
            raise Broken(f"SIGKILL, and yet exit status {status}: {program.complained}")
    elif status == -how:  # before the command could say what to do about it
        if journal_of(program.folder) != before:
            raise Broken(f"{how.name} ended a run under way without a word")
    elif status == 1:
        begins = f"{workload.command}: stopped on request"
        must_be_one_line(_without_closing(program.complained), begins)
    else:
        raise Broken(f"{how.name} gave exit status {status}: {program.complained}")


def _without_closing(complaint):
    return complaint.replace("stopping the workers; press Ctrl-C again to quit at once\n", "")
