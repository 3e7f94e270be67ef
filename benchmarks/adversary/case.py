"""A case, how it is run, and what became of it."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

HERE = threading.local()  # the server of a thread
VERDICTS = ("held", "wrong", "refusal", "traceback", "hang", "lost")
SECONDS = 60
Check = Callable[[str], str]


@dataclass(frozen=True)
class Verdict:
    """``kind`` is one of VERDICTS; "refusal": a refusal that is untidy, or of a sound input."""

    kind: str
    detail: str = ""


@dataclass
class Case:
    """A command line of the program and what it is held to.

    argv : of ``python -m pipelines.``, its name first
    check : what is wrong with an answer, "" for nothing; it gets what was printed
    refusal : "may", "must" or "never" be refused
    names : words, one of which a refusal has
    """

    argv: list[str]
    check: Check | None = None
    refusal: str = "may"
    names: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    cwd: Path | None = None


@dataclass
class Ended:
    status: int
    output: str
    complained: str


class Sandbox:
    """Where a case is built: a folder, random numbers and the program's tree."""

    locks: dict[str, threading.Lock] = {}  # noqa: RUF012

    def __init__(self, root: Path, tree: Path, kind: str, number: int, seed: int) -> None:
        self.root, self.tree, self.kind, self.number, self.seed = root, tree, kind, number, seed
        self.folder = root / f"{kind}-{number}"
        self.folder.mkdir(parents=True)
        words = f"{seed} {kind} {number}"
        self.random = random.Random(words)
        self.rng = np.random.default_rng(list(hashlib.sha256(words.encode()).digest()))
        self.out = self.folder / "run"

    def write(self, name: str, content: bytes | str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def command(self, argv: Sequence[object]) -> list[str]:
        return [sys.executable, "-m", f"pipelines.{argv[0]}", *(str(word) for word in argv[1:])]

    def environment(self, additions: dict[str, str] | None = None) -> dict[str, str]:
        base = {"PYTHONPATH": str(self.tree), "OMP_NUM_THREADS": "1"}
        return {**os.environ, **base, **(additions or {})}

    def run(
        self,
        argv: Sequence[object],
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        seconds: float = SECONDS,
    ) -> Ended:
        """Run the program to its end; all that it started is killed after ``seconds``."""
        if not env and ("local" not in argv or "threads" in argv):
            return self._forked([str(word) for word in argv], cwd or self.folder, seconds)
        process = subprocess.Popen(
            self.command(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment(env),
            cwd=cwd or self.folder,
            start_new_session=True,
        )
        try:
            output, complained = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        return Ended(process.returncode, output.decode(errors="replace"), _text(complained))

    def _forked(self, argv: list[str], cwd: Path, seconds: float) -> Ended:
        server: Any = getattr(HERE, "server", None)
        if server is None or server.poll() is not None:
            server = HERE.server = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("server.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self.environment(),
                bufsize=0,
            )
        out, err = self.folder / ".out", self.folder / ".err"
        request = json.dumps([argv, str(cwd), str(out), str(err)])
        server.stdin.write(f"{request}\n".encode())
        pid = int(server.stdout.readline())
        timer = threading.Timer(seconds, os.killpg, (pid, signal.SIGKILL))
        timer.start()
        status = int(server.stdout.readline())
        late = timer.finished.is_set()
        timer.cancel()
        if late and status == -signal.SIGKILL:
            raise subprocess.TimeoutExpired(argv, seconds)
        return Ended(status, _text(out.read_bytes()), _text(err.read_bytes()))

    def twin(self, argv: Sequence[object], *files: Path) -> Path:
        """The run of clean input, made once; ``argv`` without ``--results``."""
        words = [str(word).replace(str(self.folder), ".") for word in argv]
        content = [path.read_bytes() for path in files]
        key = hashlib.sha256(repr((words, content)).encode()).hexdigest()[:16]
        with self.locks.setdefault(key, threading.Lock()):
            folder = self.root / "twins" / key
            if not (folder / "run.json").exists():
                ended = self.run([*argv, "--results", folder], seconds=3 * SECONDS)
                if ended.status:
                    raise RuntimeError(f"the clean twin failed: {ended.complained}")
        return folder


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def judge(sandbox: Sandbox, case: Case) -> Verdict:
    """Run a case and say what became of it."""
    try:
        ended = sandbox.run(case.argv, case.env, case.cwd)
    except subprocess.TimeoutExpired:
        return Verdict("hang", f"no end after {SECONDS} s")
    return verdict(ended, case)


def verdict(ended: Ended, case: Case) -> Verdict:
    if fallen := fell(ended):
        return fallen
    if ended.status == 0:
        if case.refusal == "must":
            return Verdict("wrong", "answered, was to be refused")
        try:
            wrong = case.check(ended.output + ended.complained) if case.check else ""
        except Exception as error:  # no table where one was promised
            wrong = f"the answer cannot be read: {error!r}"
        return Verdict("wrong", wrong) if wrong else Verdict("held")
    lines = [line for line in ended.complained.splitlines() if line.strip()]
    if case.refusal == "never":
        return Verdict("refusal", f"refused: {' | '.join(lines)[:400]}")
    if len(lines) != 1:
        return Verdict("refusal", f"{len(lines)} lines: {' | '.join(lines)[-400:]}")
    if case.names and not any(word in lines[0] for word in case.names):
        return Verdict("refusal", f"names none of {case.names}: {lines[0][:400]}")
    return Verdict("held", lines[0])


def fell(ended: Ended) -> Verdict | None:
    if "Traceback (most recent call last)" in ended.complained + ended.output:
        return Verdict("traceback", (ended.complained or ended.output).strip()[-400:])
    if ended.status not in (0, 1, 2):
        words = ended.complained.strip()[-300:]
        return Verdict("traceback", f"exit status {ended.status}: {words}")
    return None
