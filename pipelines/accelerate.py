"""scikit-learn's own searches with shared fits: ``pleasingly accelerate script.py``."""

from __future__ import annotations

import atexit
import dataclasses
import importlib.util
import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from pipelines.errors import InputError, flag_of
from pipelines.run.cluster_options import PlaceOptions, session_option
from pipelines.run.options import argument, parse_options
from pipelines.search.acceleration import Acceleration, acceleration_of, search_backend

if TYPE_CHECKING:
    from distributed import Client

    from pipelines.search.joblib_backend import SearchBackend

BACKEND, NO_CLUSTER = "pleasingly", "none"
DESCRIPTION = (
    "Run a Python script, unchanged, in which the searches of scikit-learn share their work: "
    "GridSearchCV, RandomizedSearchCV, the halving searches, cross_validate, cross_val_score, "
    "validation_curve, learning_curve and what is built on them. What cannot share runs as it "
    "would have. At the end a line on stderr says of each search how many fits were asked for and "
    "made."
)
EXAMPLES = (
    "script.py --epochs 3",
    "--table -m package.module",
    "--results kept --cluster slurm --profile generic-slurm script.py",
)


@dataclass(frozen=True)
class Options(PlaceOptions):
    """Options of ``accelerate``: the script, where its fits run, and where they are stored."""

    group: ClassVar[str] = "script"

    script: Path | None = argument(
        "SCRIPT", "a Python script, or -m and a module; its arguments follow", default=None
    )
    results: str | None = session_option(
        None,
        "folder where every fit is kept at once: a script that was killed, started again, makes "
        "none of them again",
        metavar="DIR",
        path="folder",
    )
    table: bool = session_option(
        False, "print a table of the searches at the end, with what they shared"
    )
    quiet: bool = session_option(False, "print nothing at the end")
    cluster: str = session_option(
        NO_CLUSTER,
        "where fits are made: none (in the script's process, and as n_jobs says), local, cuda, "
        "slurm, pbs, sge, mpi, or the address of a running scheduler: tls://host:port",
        metavar="KIND",
    )

    def check(self) -> None:
        """Refuse options for a cluster if there is none."""
        for field in dataclasses.fields(PlaceOptions):
            is_for_cluster = field.name != "cluster" and self.cluster == NO_CLUSTER
            if is_for_cluster and getattr(self, field.name) != field.default:
                raise InputError(
                    f"{flag_of(field.name)} is for a cluster; add {flag_of('cluster')}"
                )


def accelerate(
    client: Client | None = None, results: str | Path | None = None, *, report: bool = True
) -> Acceleration:
    """Let all searches of scikit-learn in this process share their work, from now on.

    The joblib backend ``"pleasingly"`` becomes the default. A script that chooses another backend
    with ``joblib.parallel_config`` gets that one.

    Parameters
    ----------
    client : distributed.Client, optional
        Cluster whose workers make the fits; by default this process, or ``n_jobs`` processes.
    results : path, optional
        Folder where each fit is stored as soon as it is made. Fits that are already there are not
        made again.
    report : bool, default True
        Whether, at the end of the process, a line on stderr says for each search how many fits
        were requested and how many were made.

    Returns
    -------
    Acceleration
        Its ``log`` lists the searches that were carried out.

    Raises
    ------
    InputError
        Another process is using ``results``.
    """
    from joblib import register_parallel_backend

    acceleration = acceleration_of(client, results)

    def backend(nesting_level: int | None = None, **options: Any) -> SearchBackend:
        default_acceleration = None if options else acceleration
        return search_backend(
            **options, nesting_level=nesting_level, acceleration=default_acceleration
        )

    register_parallel_backend(BACKEND, backend, make_default=True)
    if report:
        atexit.register(print_report, acceleration)
    return acceleration


def stop() -> None:
    """Make joblib's usual backend the default again. The opposite of ``accelerate``."""
    from joblib import register_parallel_backend
    from joblib.parallel import BACKENDS, DEFAULT_PROCESS_BACKEND

    usual_backend = BACKENDS[DEFAULT_PROCESS_BACKEND]
    register_parallel_backend(DEFAULT_PROCESS_BACKEND, usual_backend, make_default=True)
    register_parallel_backend(BACKEND, search_backend)


def print_report(acceleration: Acceleration, table: bool = False) -> None:
    """Print the searches on stderr, as a line for each or as a table."""
    log = acceleration.log
    for line in log.table() if table else log.lines():
        print(line, file=sys.stderr)


def load_ipython_extension(ipython: Any) -> None:
    """``%load_ext pipelines.accelerate``: searches in a notebook share their work."""
    acceleration = accelerate(report=False)

    def after_cell(result: Any) -> None:
        print_report(acceleration)
        acceleration.log.entries.clear()

    ipython.events.register("post_run_cell", after_cell)
    ipython.pleasingly_after_cell = after_cell


def unload_ipython_extension(ipython: Any) -> None:
    """``%unload_ext pipelines.accelerate``: searches are scikit-learn's own again."""
    ipython.events.unregister("post_run_cell", ipython.pleasingly_after_cell)
    stop()


def split_command_line(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split a command line into our options, and the script or ``-m module`` with its arguments."""
    fields = {flag_of(field.name): field for field in dataclasses.fields(Options)}
    index = 0
    while index < len(argv) and argv[index] != "-m" and argv[index].startswith("-"):
        field, index = fields.get(argv[index]), index + 1
        if field is not None and field.default is not False:
            index += field.metadata["nargs"] or 1
    return list(argv[:index]), list(argv[index:])


@contextmanager
def accelerated(options: Options) -> Iterator[Acceleration]:
    """Context in which searches share their work, on the cluster that the options name."""
    with ExitStack() as cluster:
        client = None
        if options.cluster != NO_CLUSTER:
            from cluster_setup import ClusterOptions, join, open_cluster, render

            names = ("workers", "device", "profile", "adaptive", "rmm_pool", "dashboard")
            cluster_options = ClusterOptions(
                options.cluster,
                tls=not options.no_tls,
                echo=lambda line: print(line, file=sys.stderr),
                **{name: getattr(options, name) for name in names},
            )
            render(cluster_options)
            join(cluster_options)
            client = cluster.enter_context(open_cluster(cluster_options))
        acceleration = accelerate(client, options.results, report=False)
        try:
            yield acceleration
        finally:
            acceleration.close()
            stop()
            if not options.quiet:
                print_report(acceleration, options.table)


@contextmanager
def main_module_kept() -> Iterator[None]:
    """Context that restores the main module, the arguments and ``sys.path`` after a script."""
    main, argv, path = sys.modules["__main__"], sys.argv, list(sys.path)
    try:
        yield
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = main, argv, path


def run_script(words: Sequence[str], on_cluster: bool) -> None:
    """Run a script, or ``-m`` and a module, with its arguments, as ``python`` would.

    Parameters
    ----------
    words : sequence of str
        Script or ``-m`` and module, with the arguments.
    on_cluster : bool
        Whether worker processes may start while the script runs. They must not import it, as it
        would run again in each.
    """
    if words[0] == "-m":
        sys.argv = list(words[1:])
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    path = Path(words[0]).absolute()
    sys.argv, script = list(words), ModuleType("__main__")
    sys.path.insert(0, str(path.resolve().parent))
    script.__dict__.update(__file__=str(path), __builtins__=__builtins__)
    if on_cluster:  # worker processes import the main module by the name in its spec
        script.__spec__ = ModuleSpec("pipelines.accelerate", None)
    sys.modules["__main__"] = script
    code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    exec(code, script.__dict__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a script whose searches share their work.

    Returns
    -------
    int
        Exit status: 0, 1 if the script raised an error, 2 if it could not be started. A
        ``SystemExit`` of the script is passed on.
    """
    from cluster_setup import ClusterError
    from pipelines.console import print_error

    try:
        own_words, script_words = split_command_line(sys.argv[1:] if argv is None else argv)
        options, _ = parse_options(Options, "accelerate", DESCRIPTION, own_words, EXAMPLES)
        # On a command line the script stays the main module to the end, for its atexit functions.
        with nullcontext() if argv is None else main_module_kept():
            check_script(script_words)
            with accelerated(options):
                try:
                    run_script(script_words, options.cluster != NO_CLUSTER)
                except Exception as error:
                    print_traceback(error)
                    return 1
        return 0
    except InputError as error:
        print_error("accelerate", error.flagged())
    except (ClusterError, ImportError, OSError) as error:
        print_error("accelerate", str(error))
    return 2  # 1 is for errors of the script


def check_script(words: Sequence[str]) -> None:
    """Refuse a command line without a script, or with one that does not exist."""
    if not words or words == ["-m"]:
        raise InputError(
            "SCRIPT must be a Python script, or -m and a module, got none; "
            "pleasingly accelerate --help shows examples"
        )
    if words[0] != "-m" and not Path(words[0]).is_file():
        raise InputError(f"SCRIPT must be a file, got {words[0]!r}; there is none of that name")
    if words[0] == "-m":
        sys.path.insert(0, os.getcwd())
        with suppress(ModuleNotFoundError):
            if importlib.util.find_spec(words[1]) is not None:
                return
        raise InputError(f"SCRIPT must be a module, got -m {words[1]}; there is none of that name")


def print_traceback(error: BaseException) -> None:
    """Print an error of a script as ``python`` would, without our frames, by ``sys.excepthook``."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename in (__file__, runpy.__file__):
        frames = frames.tb_next
    frames = frames or error.__traceback__
    sys.excepthook(type(error), error.with_traceback(frames), frames)


class CallableModule(ModuleType):
    """Class of this module, so that ``accelerate()`` calls the function of the same name."""

    def __call__(
        self,
        client: Client | None = None,
        results: str | Path | None = None,
        *,
        report: bool = True,
    ) -> Acceleration:
        """See the function ``accelerate``, whose docstring replaces this one."""
        return accelerate(client, results, report=report)


CallableModule.__call__.__doc__ = accelerate.__doc__
sys.modules[__name__].__class__ = CallableModule

if __name__ == "__main__":
    sys.exit(main())
