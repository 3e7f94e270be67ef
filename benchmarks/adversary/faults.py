"""Faults: a run is hurt from outside, resumed, and compared with an undisturbed one."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil

from benchmarks.adversary.case import Ended, Sandbox, Verdict, fell
from benchmarks.adversary.edges import drawn, listing
from benchmarks.adversary.figures import difference, inconsistency
from benchmarks.adversary.folders import records
from benchmarks.adversary.tables import clean, text

LOCAL = ["--cluster", "local", "--workers", "2"]
THREADS = ["--cluster", "threads", "--workers", "1"]
GRID = ["svm_grid", "--limit", "400", "--n-c", "4", "--n-gamma", "8", "--folds", "3", *LOCAL]
LIGHT = ["svm_grid", "--limit", "400", "--n-c", "4", "--n-gamma", "8", "--folds", "3", *THREADS]
TREES = [
    "cross_validate",
    "--limit",
    "400",
    "--folds",
    "4",
    *LOCAL,
    "--estimator",
    "forest",
    "--param",
    "n_estimators=20",
    "max_depth=2,3,4,5",
    "--estimator",
    "tree",
    "--param",
    "max_depth=2,3",
]
RANKS = [
    "pagerank",
    "--nodes",
    "30000",
    "--tol",
    "0",
    "--iterations",
    "80",
    "--distributed",
    "--checkpoint-every",
    "5",
    *LOCAL,
]
NETS = [
    "nn_bagging",
    "--limit",
    "200",
    "--n-bootstrap",
    "4",
    "--n-tuning",
    "2",
    "--max-epochs",
    "3",
    "--folds",
    "3",
    *LOCAL,
]
TRAIN = [
    "data_parallel",
    "--points",
    "2000",
    "--epochs",
    "40",
    "--checkpoint-seconds",
    "0.5",
    *LOCAL,
]
ALL = [GRID, LIGHT, TREES, RANKS, NETS, TRAIN]
SECONDS = 100
Fault = Callable[[Sandbox], Verdict]


class Session:
    """A process of the program and all that it starts, found again by a mark."""

    def __init__(
        self,
        sandbox: Sandbox,
        argv: list[Any],
        prefix: Sequence[str] = (),
        env: Mapping[str, str] = MappingProxyType({}),
        **keywords: Any,
    ) -> None:
        self.mark = uuid.uuid4().hex
        kept = sandbox.environment({**env, "ADVERSARY": self.mark})
        kept = {name: value for name, value in kept.items() if value != "UNSET"}
        self.out, self.err = (
            sandbox.folder / f"{self.mark}.out",
            sandbox.folder / f"{self.mark}.err",
        )
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            streams = {
                "stdin": subprocess.DEVNULL,
                "stdout": out,
                "stderr": err,
                "cwd": sandbox.folder,
            }
            self.process = subprocess.Popen(
                [*prefix, *sandbox.command(argv)],
                env=kept,
                start_new_session=True,
                **{**streams, **keywords},
            )
        self.sent: set[int] = set()

    def signal(self, number: int) -> None:
        self.sent.add(number)
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def all(self) -> list[psutil.Process]:
        processes = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.status() != "zombie" and process.environ().get("ADVERSARY") == self.mark:
                    processes.append(process)
        return processes

    def children(self) -> list[psutil.Process]:
        """Workers and their nannies' helpers; never the launcher.

        Nor Python's resource tracker: it is started again, and then writes a traceback for each
        name that it does not know, whatever program it is of.
        """
        descendants = [p for p in self.all() if p.pid != self.process.pid]
        return [p for p in descendants if "resource_tracker" not in " ".join(p.cmdline())]

    def wait(self, seconds: float = SECONDS) -> Ended | None:
        """None after a hang; whatever is left is killed."""
        try:
            status = self.process.wait(seconds)
            until = time.monotonic() + 40
            while self.all() and time.monotonic() < until:
                time.sleep(0.2)
            hung = bool(self.all())
        except subprocess.TimeoutExpired:
            hung = True
        for process in self.all() if hung else []:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if hung:
            return None
        return Ended(
            status, self.out.read_text(errors="replace"), self.err.read_text(errors="replace")
        )

    def until(self, n: int, folder: Path) -> bool:
        """Wait for ``n`` records of the journal; False if the run ended first."""
        while len(records(folder)) < n:
            if self.process.poll() is not None:
                return False
            time.sleep(0.01)
        return True


Hurt = Callable[[Session, Path, Sandbox], None]


def judged(ended: Ended | None, sent: set[int]) -> Verdict | None:
    """What is wrong with how a hurt session ended, None if nothing is."""
    if ended is None:
        return Verdict("hang", f"no end, or processes left, after {SECONDS} s")
    if -ended.status in sent and "Traceback" not in ended.complained:
        return None
    if fallen := fell(ended):
        return fallen
    lines = [line for line in ended.complained.splitlines() if line.strip()]
    if ended.status and len(lines) != 1:
        return Verdict("refusal", f"{len(lines)} lines: {' / '.join(lines)[-400:]}")
    return None


def calm(sandbox: Sandbox, words: list[Any]) -> Ended | None:
    """An undisturbed session, on threads where figures do not depend on workers."""
    if words[0] in ("pagerank", "data_parallel"):
        return Session(sandbox, words).wait()
    try:
        return sandbox.run([*words, *THREADS], seconds=SECONDS)
    except subprocess.TimeoutExpired:
        return None


def finish(
    sandbox: Sandbox,
    argv: list[Any],
    folder: Path,
    resumable: bool = True,
    twin: list[Any] | None = None,
    files: tuple[Path, ...] = (),
) -> Verdict:
    """Resume without the fault, and compare."""
    before = records(folder)
    if not (folder / "run.json").exists():
        if before:
            return Verdict("lost", f"{len(before)} records, but no run.json")
        shutil.rmtree(folder, ignore_errors=True)
        words = [*argv, "--results", folder]
    else:
        words = [argv[0], "--resume", folder]
    ended = calm(sandbox, words)
    if bad := judged(ended, set()):
        return bad
    assert ended is not None
    if ended.status:
        kind = "lost" if resumable else "held"
        return Verdict(kind, f"resumed: {ended.complained.strip()[-300:]}")
    wrong = inconsistency(folder) or difference(folder, sandbox.twin(twin or argv, *files))
    if wrong:
        return Verdict("wrong", wrong)
    after = records(folder)
    again = [task for task, began in before.items() if after.get(task, began) != began]
    return Verdict("lost", f"computed again: {again[:3]}") if again else Verdict("held")


def hurt_run(
    argv: list[Any] | None,
    hurt: Hurt | None = None,
    prefix: Sequence[str] = (),
    env: Mapping[str, str] = MappingProxyType({}),
    amid: bool = True,
    **keywords: Any,
) -> Fault:
    """Hurt a run amid its tasks (or from its start), let it end, then resume it."""

    def fault(sandbox: Sandbox) -> Verdict:
        words = argv or sandbox.random.choice(ALL)
        session = Session(
            sandbox,
            [*words, "--results", sandbox.out],
            _at(sandbox, prefix),
            {k: v.replace("HERE", str(sandbox.folder)) for k, v in env.items()},
            **keywords,
        )
        if hurt:
            tasks = len(records(sandbox.twin(words)))
            if amid and words[0] in ("pagerank", "data_parallel"):
                session.until(0, sandbox.out)
                time.sleep(sandbox.random.uniform(3, 7))
            elif amid:
                session.until(sandbox.random.randrange(1, max(tasks - 1, 2)), sandbox.out)
            else:
                time.sleep(sandbox.random.uniform(0.05, 6))
            hurt(session, sandbox.out, sandbox)
        if bad := judged(session.wait(), session.sent):
            return bad
        return finish(sandbox, words, sandbox.out)

    return fault


def _at(sandbox: Sandbox, words: Sequence[str]) -> list[str]:
    return [word.replace("HERE", str(sandbox.folder)) for word in words]


def signals(*numbers: int, pause: float = 0.0) -> Hurt:
    def hurt(session: Session, folder: Path, sandbox: Sandbox) -> None:
        for number in numbers:
            session.signal(number)
            time.sleep(pause)

    return hurt


def children(number: int, times: int = 1, pause: float = 0.5, share: float = 1.0) -> Hurt:
    """The signal to what the launcher has started, again and again."""

    def hurt(session: Session, folder: Path, sandbox: Sandbox) -> None:
        for _ in range(times):
            for process in session.children():
                if sandbox.random.random() <= share:
                    with contextlib.suppress(psutil.Error):
                        process.send_signal(number)
            time.sleep(pause)

    return hurt


def paused(who: str, seconds: float) -> Hurt:
    def hurt(session: Session, folder: Path, sandbox: Sandbox) -> None:
        processes = {
            "all": session.all,
            "children": session.children,
            "launcher": lambda: [psutil.Process(session.process.pid)],
        }[who]()
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for process in processes:
                with contextlib.suppress(psutil.Error):
                    process.send_signal(number)
            time.sleep(seconds if number == signal.SIGSTOP else 0)

    return hurt


def on_folder(change: Callable[[Path], Any]) -> Hurt:
    def hurt(session: Session, folder: Path, sandbox: Sandbox) -> None:
        with contextlib.suppress(FileNotFoundError):
            change(folder)

    return hurt


def moved(change: Callable[[Path], Path | None]) -> Fault:
    """The folder changes amid a run; what is left of it is resumed where it lies, or anew."""

    def fault(sandbox: Sandbox) -> Verdict:
        argv = sandbox.random.choice([GRID, LIGHT, TREES])
        session = Session(sandbox, [*argv, "--results", sandbox.out])
        session.until(sandbox.random.randrange(1, 5), sandbox.out)
        here = change(sandbox.out)
        if bad := judged(session.wait(), set()):
            return bad
        kept = here or sandbox.out
        return finish(sandbox, argv, kept, resumable=here is not None)

    return fault


def _renamed(folder: Path) -> Path:
    return folder.rename(folder.with_name("elsewhere"))


def _replaced(folder: Path) -> Path:
    """Renamed, with an empty folder in its place."""
    new_folder = _renamed(folder)
    folder.mkdir()
    return new_folder


def _removed(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _copied(folder: Path) -> Path:
    return Path(shutil.copytree(folder, folder.with_name("copy")))


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=False)


def small_disk(
    options: str, argv: list[Any], remount_options: str = "size=64m,nr_inodes=5000", env: str = ""
) -> Fault:
    """The results (or the folder that ``env`` names) on a small disk; resumed on a larger one."""

    def fault(sandbox: Sandbox) -> Verdict:
        with ExitStack() as stack:
            disk = stack.enter_context(mounted(sandbox.folder / "disk", options))
            out = sandbox.out if env else disk / "run"
            session = Session(
                sandbox, [*argv, "--results", out], env={env: str(disk)} if env else {}
            )
            if bad := judged(session.wait(), set()):
                return bad
            subprocess.run(["mount", "-o", f"remount,{remount_options}", disk], check=True)
            return finish(sandbox, argv, out)

    return fault


def read_only(argv: list[Any]) -> Fault:
    def fault(sandbox: Sandbox) -> Verdict:
        with mounted(sandbox.folder / "disk", "size=64m") as disk:
            session = Session(sandbox, [*argv, "--results", disk / "run"])
            session.until(2, disk / "run")
            subprocess.run(["mount", "-o", "remount,ro", disk], check=False)
            bad = judged(session.wait(), set())
            subprocess.run(["mount", "-o", "remount,rw", disk], check=False)
            return bad or finish(sandbox, argv, disk / "run")

    return fault


def edited(change: Callable[[Path, Sandbox], Any], sound: bool, pagerank: bool = False) -> Fault:
    """The data are changed between a stop and ``--resume``.

    sound : they mean the same, so that the run must go on; else it must refuse
    """

    def fault(sandbox: Sandbox) -> Verdict:
        data = sandbox.write(
            "mine.csv",
            listing(drawn(sandbox.seed, 400, 9000)) if pagerank else text(clean(sandbox.seed, 400)),
        )
        base = (
            [
                "pagerank",
                "--edges",
                data,
                "--tol",
                "0",
                "--iterations",
                "60",
                "--distributed",
                *LOCAL,
            ]
            if pagerank
            else [
                "svm_grid",
                "--dataset",
                data,
                "--target",
                "kind",
                "--n-c",
                "4",
                "--n-gamma",
                "6",
                "--folds",
                "3",
                *THREADS,
            ]
        )
        twin = sandbox.twin(base, data)
        session = Session(sandbox, [*base, "--results", sandbox.out])
        if pagerank:
            time.sleep(sandbox.random.uniform(4, 7))
        else:
            session.until(2, sandbox.out)
        session.signal(signal.SIGKILL)
        session.wait()
        for process in session.all():
            process.kill()
        change(data, sandbox)
        if not (sandbox.out / "run.json").exists():
            return Verdict("held", "killed before it began")
        ended = Session(sandbox, [base[0], "--resume", sandbox.out]).wait()
        if bad := judged(ended, set()):
            return bad
        assert ended is not None
        if ended.status == 0:
            wrong = inconsistency(sandbox.out) or difference(sandbox.out, twin)
            wrong = wrong or ("" if sound else "resumed with other data, was to be refused")
            return Verdict("wrong", wrong) if wrong else Verdict("held")
        return Verdict("lost", ended.complained.strip()) if sound else Verdict("held")

    return fault


def _touched(path: Path, sandbox: Sandbox) -> None:
    os.utime(path, (1, 1))


def _piped(path: Path, sandbox: Sandbox) -> None:
    path.unlink()
    os.mkfifo(path)


def _linked(path: Path, sandbox: Sandbox) -> None:
    path.rename(path.with_name("m2.csv"))
    path.symlink_to("m2.csv")


def _as_long(path: Path, sandbox: Sandbox) -> None:
    """Another edge, in a file of the same size and time."""
    stat = path.stat()
    path.write_text(path.read_text().replace("n1,", "n2,", 1))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def twice(*argv: list[Any], resume: bool = False, link: bool = False) -> Fault:
    """Two sessions in one folder at once: one answers rightly, the other is refused."""

    def fault(sandbox: Sandbox) -> Verdict:
        words = sandbox.random.choice(list(argv))
        where = sandbox.folder / "link" if link else sandbox.out
        if link:
            where.symlink_to(sandbox.out)
        first = [*words, "--results", sandbox.out]
        if resume:
            session = Session(sandbox, first)
            session.until(2, sandbox.out)
            session.signal(signal.SIGKILL)
            session.wait()
            first = [words[0], "--resume", sandbox.out]
        second = [words[0], "--resume", where] if resume else [*words, "--results", where]
        sessions = [Session(sandbox, line) for line in (first, second)]
        ends = [session.wait() for session in sessions]
        for ended in ends:
            if bad := judged(ended, set()):
                return bad
        done = sum(ended is not None and ended.status == 0 for ended in ends)
        if done != 1:
            endings = [ended.complained.strip()[-120:] for ended in ends if ended]
            return Verdict("wrong", f"{done} of two sessions ended with 0: {endings}")
        wrong = inconsistency(sandbox.out) or difference(sandbox.out, sandbox.twin(words))
        return Verdict("wrong", wrong) if wrong else Verdict("held")

    return fault


def same_second(sandbox: Sandbox) -> Verdict:
    """Four runs without ``--results`` at once: each has a folder of its own."""
    words = ["svm_grid", "--limit", "100", "--n-c", "2", "--n-gamma", "2", "--folds", "2", *THREADS]
    sessions = [Session(sandbox, words) for _ in range(4)]
    ends = [session.wait() for session in sessions]
    for ended in ends:
        if bad := judged(ended, set()):
            return bad
    done = [ended for ended in ends if ended and ended.status == 0]
    runs = [run.parent for run in sandbox.folder.glob("results/*/run.json")]
    if len(runs) != len(done):
        return Verdict("lost", f"{len(done)} runs ended well, {len(runs)} folders")
    wrong = [
        why for run in runs if (why := inconsistency(run) or difference(run, sandbox.twin(words)))
    ]
    return Verdict("wrong", wrong[0]) if wrong else Verdict("held")


def taken(argv: list[Any], port: int, *words: str) -> Fault:
    def fault(sandbox: Sandbox) -> Verdict:
        with socket.socket() as held:
            with contextlib.suppress(OSError):
                held.bind(("0.0.0.0", port))
                held.listen()
            return hurt_run([*argv, *words])(sandbox)

    return fault


def cwd_gone(sandbox: Sandbox) -> Verdict:
    """The folder that the program is started in is removed."""
    away = sandbox.folder / "away"
    away.mkdir()
    prefix = ["sh", "-c", f'cd {away} && rmdir {away} && exec "$@"', "sh"]
    return hurt_run(LIGHT, prefix=prefix)(sandbox)


def again_and_again(sandbox: Sandbox) -> Verdict:
    """Resumed and killed until nothing is left: no record is ever lost."""
    argv = sandbox.random.choice([GRID, TREES, NETS])
    words = [*argv, "--results", sandbox.out]
    seen: dict[str, float] = {}
    for _ in range(4):
        session = Session(sandbox, words)
        time.sleep(sandbox.random.uniform(3, 7))
        number = sandbox.random.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        session.signal(number)
        if bad := judged(session.wait(), session.sent):
            return bad
        by_task = records(sandbox.out)
        if lost := [task for task in seen if by_task.get(task) != seen[task]]:
            return Verdict("lost", f"records lost or made again: {lost[:3]}")
        seen = by_task
        if (sandbox.out / "run.json").exists():
            words = [argv[0], "--resume", sandbox.out]
    return finish(sandbox, argv, sandbox.out)


def _limit(*words: str) -> list[str]:
    return ["prlimit", *words]


def _shell(line: str) -> list[str]:
    return ["sh", "-c", f'{line} exec "$@"', "sh"]


K, T, I = signal.SIGKILL, signal.SIGTERM, signal.SIGINT  # noqa: E741
FAULTS: dict[str, Fault] = {
    "interrupted three times": hurt_run(None, signals(I, I, I, pause=0.2)),
    "ended and killed": hurt_run(None, signals(T, K, pause=1.0)),
    "interrupted early": hurt_run(None, signals(I), amid=False),
    "ended early": hurt_run(None, signals(T), amid=False),
    "quit": hurt_run(None, signals(signal.SIGQUIT)),
    "SIGUSR1": hurt_run(LIGHT, signals(signal.SIGUSR1)),
    "SIGPIPE": hurt_run(GRID, signals(signal.SIGPIPE)),
    "SIGXCPU": hurt_run(GRID, signals(signal.SIGXCPU)),
    "SIGABRT": hurt_run(TREES, signals(signal.SIGABRT)),
    "stopped for 8 s": hurt_run(None, paused("launcher", 8)),
    "all stopped for 35 s": hurt_run(GRID, paused("all", 35)),
    "workers stopped for 12 s": hurt_run(TREES, paused("children", 12)),
    "training stopped for 8 s": hurt_run(TRAIN, paused("children", 8)),
    "ranks stopped for 8 s": hurt_run(RANKS, paused("all", 8)),
    "children killed": hurt_run(GRID, children(K)),
    "children killed, trees": hurt_run(TREES, children(K)),
    "children killed thrice": hurt_run(GRID, children(K, 3, 2.5)),
    "children ended": hurt_run(NETS, children(T)),
    "half the children killed, ranks": hurt_run(RANKS, children(K, share=0.5)),
    "half the children killed, training": hurt_run(TRAIN, children(K, share=0.5)),
    "children interrupted": hurt_run(GRID, children(I)),
    "children with a bus error": hurt_run(TREES, children(signal.SIGBUS)),
    "children quit": hurt_run(TRAIN, children(signal.SIGQUIT)),
    "workers killed at their start": hurt_run(GRID, children(K, 8, 0.4), amid=False),
    "launcher killed, training": hurt_run(TRAIN, signals(K)),
    "launcher killed, ranks": hurt_run(RANKS, signals(K)),
    "killed again and again": again_and_again,
    "24 files": hurt_run(GRID, prefix=_limit("--nofile=24")),
    "64 files": hurt_run(GRID, prefix=_limit("--nofile=64")),
    "128 files, ranks": hurt_run(RANKS, prefix=_limit("--nofile=128")),
    "1 GB of addresses": hurt_run(LIGHT, prefix=_limit("--as=1000000000")),
    "3 GB of addresses": hurt_run(GRID, prefix=_limit("--as=3000000000")),
    "files of 9 kB": hurt_run(LIGHT, prefix=_limit("--fsize=9000")),
    "files of 60 kB": hurt_run(TREES, prefix=_limit("--fsize=60000")),
    "6 s of processor": hurt_run(GRID, prefix=_limit("--cpu=6")),
    "little stack": hurt_run(LIGHT, prefix=_limit("--stack=262144")),
    "no core of locked memory": hurt_run(LIGHT, prefix=_limit("--memlock=0")),
    "TMPDIR missing": hurt_run(GRID, env={"TMPDIR": "/nowhere/tmp"}),
    "TMPDIR a file": hurt_run(TRAIN, env={"TMPDIR": "/etc/hostname"}),
    "HOME missing": hurt_run(LIGHT, env={"HOME": "/nowhere"}),
    "HOME a file": hurt_run(GRID, env={"HOME": "/etc/hostname", "XDG_CACHE_HOME": "UNSET"}),
    "no HOME, no PATH": hurt_run(LIGHT, env={"HOME": "UNSET", "PATH": "UNSET"}),
    "caches are files": hurt_run(
        GRID,
        env={
            "XDG_CACHE_HOME": "/etc/hostname",
            "MPLCONFIGDIR": "/etc/hostname",
            "NUMBA_CACHE_DIR": "/etc/hostname",
        },
    ),
    "no cache of numba": hurt_run(LIGHT, env={"NUMBA_CACHE_DIR": "/proc/1/nope"}),
    "locale of ASCII": hurt_run(
        LIGHT,
        env={
            "LC_ALL": "C",
            "PYTHONUTF8": "0",
            "PYTHONIOENCODING": "ascii",
            "PYTHONCOERCECLOCALE": "0",
        },
    ),
    "locale of nowhere": hurt_run(TREES, env={"LC_ALL": "xx_YY.UTF-9", "LANG": "xx"}),
    "zone of nowhere": hurt_run(LIGHT, env={"TZ": "Mars/Olympus"}),
    "COLUMNS of nonsense": hurt_run(LIGHT, env={"COLUMNS": "-1", "TERM": "UNSET"}),
    "threads of nonsense": hurt_run(LIGHT, env={"NUMBA_NUM_THREADS": "99", "OMP_NUM_THREADS": "x"}),
    "backend of nonsense": hurt_run(LIGHT, env={"MPLBACKEND": "nonsense"}),
    "optimised away": hurt_run(TREES, env={"PYTHONOPTIMIZE": "2"}),
    "warnings are errors": hurt_run(LIGHT, env={"PYTHONWARNINGS": "error"}),
    "Dask of nonsense": hurt_run(GRID, env={"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "soon"}),
    "a proxy of nowhere": hurt_run(
        GRID, env={"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    ),
    "no standard output": hurt_run(LIGHT, prefix=_shell("exec 1>&-;")),
    "no standard streams": hurt_run(GRID, prefix=_shell("exec 0<&- 1>&- 2>&-;")),
    "output to a full device": hurt_run(LIGHT, prefix=_shell("exec 1>/dev/full;")),
    "output to a closed pipe": hurt_run(GRID, prefix=["bash", "-c", '"$@" | head -1', "bash"]),
    "the folder is gone": cwd_gone,
    "disk of 9 inodes": small_disk("size=9m,nr_inodes=9", LIGHT),
    "disk of 24 kB, trees": small_disk("size=24k", TREES),
    "disk of 300 kB, ranks": small_disk("size=300k", RANKS, "size=200m"),
    "disk of 60 kB, training": small_disk("size=60k", TRAIN, "size=200m"),
    "TMPDIR of 16 kB": small_disk("size=16k", GRID, env="TMPDIR"),
    "cache of 16 kB": small_disk("size=16k", LIGHT, env="NUMBA_CACHE_DIR"),
    "disk turns read-only": read_only(GRID),
    "disk turns read-only, ranks": read_only(TREES),
    "renamed": moved(_renamed),
    "replaced": moved(_replaced),
    "removed": moved(_removed),
    "copied": moved(_copied),
    "run.json removed": hurt_run(GRID, on_folder(lambda f: (f / "run.json").unlink())),
    "journal removed": hurt_run(LIGHT, on_folder(lambda f: (f / "journal.jsonl").unlink())),
    "journal emptied": hurt_run(TREES, on_folder(lambda f: os.truncate(f / "journal.jsonl", 0))),
    "journal replaced": hurt_run(
        GRID,
        on_folder(
            lambda f: (f / "j").write_bytes(b"x" * 99) and (f / "j").replace(f / "journal.jsonl")
        ),
    ),
    "members removed": hurt_run(NETS, on_folder(lambda f: shutil.rmtree(f / "members"))),
    "checkpoints removed": hurt_run(TRAIN, on_folder(lambda f: shutil.rmtree(f / "checkpoints"))),
    "data touched": edited(_touched, True),
    "data written again": edited(lambda p, _: p.write_bytes(p.read_bytes()), True),
    "a cell changed": edited(
        lambda p, _: p.write_text(p.read_text().replace("Bonn", "Wien", 1)), False
    ),
    "rows swapped": edited(
        lambda p, _: p.write_text(
            "\n".join([(r := p.read_text().split("\n"))[0], *r[2:-1], r[1], ""])
        ),
        False,
    ),
    "a row more": edited(lambda p, _: p.write_text(p.read_text() + "3,9,40,Bonn,ant\n"), False),
    "a column renamed": edited(
        lambda p, _: p.write_text(p.read_text().replace("age", "old", 1)), False
    ),
    "data removed": edited(lambda p, _: p.unlink(), False),
    "data a pipe": edited(_piped, False),
    "data a link": edited(_linked, True),
    "labels renamed": edited(lambda p, _: p.write_text(p.read_text().replace("ant", "axe")), False),
    "edges touched": edited(_touched, True, True),
    "a weight changed": edited(
        lambda p, _: p.write_text(p.read_text().replace(",1\n", ",2\n", 1)), False, True
    ),
    "an edge changed, as long": edited(_as_long, False, True),
    "two starts at once": twice(GRID, LIGHT, TREES),
    "two starts at once, ranks": twice(RANKS),
    "two starts at once, training": twice(TRAIN),
    "resumed twice at once": twice(GRID, NETS, resume=True),
    "resumed twice by a link": twice(LIGHT, TREES, resume=True, link=True),
    "four in a second": same_second,
    "dashboard's port taken": taken(GRID, 8787),
    "dashboard's own port taken": taken(TREES, 18787, "--dashboard", "18787"),
}
