"""Options of ``data_parallel`` beside those that every command has, and its strategies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, Self

from pipelines.data.stream.rows import INPUTS
from pipelines.data.user_code import absolute_name, named_code
from pipelines.errors import InputError, flag_of
from pipelines.nn.augment import AUGMENTATION
from pipelines.nn.settings import PRECISIONS
from pipelines.run.options import Rule, at_least, fraction, number, option, positive, real, rule

# What a network's rate and optimiser are where nothing is said.
USUAL = {
    "approximator": ("adamw", 0.003),
    "bagging": ("sgd", 0.01),
    "mlp": ("adamw", 0.001),
    "cnn": ("sgd", 0.05),
}
MICROBATCHES = 8
ROWS_OF_APPROXIMATOR, HIDDEN = 8000, (64, 64)
OPTIMIZERS = ("sgd", "adamw")  # of torch.optim
SCALINGS = ("none", "linear", "sqrt")
STORAGES = ("device", "host")
# Name -> what K counts, and K where none is given; 0 where there is none.
STRATEGIES = {
    "every-step": ("", 0),
    "every-k": ("steps", 4),
    "never": ("", 0),
    "average": ("epochs", 1),
}


@dataclass(frozen=True)
class SyncStrategy:
    """When ranks share gradients or average their models.

    ``every-step``: each step is made with the gradient of the union batch, as DDP does.
    ``every-k``: each k-th step is, between them each rank goes its own way, and models are averaged
    after each epoch; after the study, which shared at each 2nd, 4th and 10th. ``average``: models
    are averaged after each k-th epoch (McDonald et al. 2010). ``never``: ranks never communicate.
    Where models are averaged, so is the optimiser's state (momentum, or both moments of AdamW).

    Attributes
    ----------
    name : one of ``STRATEGIES``
    k : steps or epochs, whatever the strategy counts
    """

    name: str
    k: int

    @property
    def always_equal(self) -> bool:
        """Whether all ranks have the same weights after every step."""
        return self.name == "every-step"

    def shares(self, step: int) -> bool:
        """Return whether a step, counted from 1, uses the gradient of all ranks' batches."""
        return self.always_equal or (self.name == "every-k" and step % self.k == 0)

    def averages(self, epoch: int) -> bool:
        """Return whether models are averaged after an epoch, counted from 0."""
        return self.name == "every-k" or (self.name == "average" and (epoch + 1) % self.k == 0)


@dataclass(frozen=True)
class Formation:
    """How ranks share a network: pipelines side by side, of ranks that have some stages each.

    Attributes
    ----------
    n_pipelines, n_in_pipeline : pipelines, and ranks of each
    n_each : stages of a rank
    n_micro, n_rows : micro-batches of a rank's batch, and the rows of each
    """

    n_pipelines: int
    n_in_pipeline: int
    n_each: int
    n_micro: int
    n_rows: int

    @classmethod
    def of(cls, options: TrainingOptions, n_ranks: int) -> Self:
        """That of so many ranks at most; of fewer than a pipeline has, a shorter one."""
        assert options.stages != "auto"  # which the workers' memory decides
        n_in_pipeline = min(options.stages, n_ranks)
        n_micro = options.microbatches or MICROBATCHES
        sizes = options.stages_of_a_rank, n_micro, options.batch_size // n_micro
        return cls(n_ranks // n_in_pipeline, n_in_pipeline, *sizes)

    @property
    def n_ranks(self) -> int:
        return self.n_pipelines * self.n_in_pipeline

    @property
    def n_stages(self) -> int:
        return self.n_in_pipeline * self.n_each

    def stages_of(self, position: int) -> list[int]:
        """The numbers of the stages of a rank, by its place in its pipeline."""
        return list(range(position, self.n_stages, self.n_in_pipeline))

    @property
    def bubble(self) -> float:
        """The idle share of a step, were stages equal and messages for nothing.

        (p - 1) / (v m + p - 1) of p ranks, v stages of each and m micro-batches (Narayanan et al.,
        Efficient large-scale language model training on GPU clusters, 2021).
        """
        idle = self.n_in_pipeline - 1
        return idle / (self.n_each * self.n_micro + idle)


def strategy_of(text: str) -> SyncStrategy:
    """Return the strategy that is typed ``NAME`` or ``NAME=K``, checked by ``is_strategy``."""
    name, equals, number = text.partition("=")
    unit, k = STRATEGIES[name]
    if equals and not (unit and number.isdecimal() and int(number)):
        raise ValueError(f"{number} is no number of {unit}")
    return SyncStrategy(name, int(number) if equals else k)


def is_strategy(text: str) -> str | None:
    """Check an option's value: return the rule it breaks, or None."""
    try:
        for strategy in text.split(","):
            strategy_of(strategy)
    except (KeyError, ValueError):
        names = ", ".join(name + ("=K" if unit else "") for name, (unit, _) in STRATEGIES.items())
        return f"of {names}, K at least 1"
    return None


def _whole_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(","))


_all_at_least_1 = rule(
    "whole numbers from 1 to 100000",
    lambda values: all(1 <= integer <= 100_000 for integer in values),
)


def _number_of_stages(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


whole_numbers = partial(option, None, parse=_whole_numbers, rule=_all_at_least_1, metavar="N,N")


@dataclass(frozen=True)
class NetworkOptions:
    """Options that choose the network and the data."""

    group: ClassVar[str] = "network"

    network: str = option(
        "approximator",
        "approximator (of a function, no data needed), bagging or cnn (images), "
        "mlp (tables), a name of torchvision.models (random weights), or your own nn.Module: "
        "module:NAME or FILE.py:NAME of a class or function",
        parse=absolute_name,
        code=named_code,
        metavar="NAME",
    )
    augment: str = option(
        "none",
        "change the training images at random: light, randaugment, trivialaugment, augmix, "
        "or module:function; see nn-bagging",
        parse=absolute_name,
        code=named_code,
        rule=AUGMENTATION,
        metavar="NAME",
    )
    task: str = option(
        "auto",
        "task of a table; auto: by the values of the target",
        choices=("auto", "classification", "regression"),
    )
    hidden: tuple[int, ...] | None = whole_numbers(
        "with --network mlp: units of its layers (default: 64,64)"
    )
    points: int | None = number(
        None,
        "with --network approximator: points of the function (default: 8000)",
        rule=at_least(10, 100_000_000),
    )
    validation: float = fraction(
        0.1, "fraction of the training rows held out to measure losses after each epoch"
    )


@dataclass(frozen=True)
class TrainingOptions(NetworkOptions):
    """Options of the training and of its ranks."""

    group: ClassVar[str] = "training"

    sync: str = option(
        "every-step",
        "how ranks are synchronised: every-step, every-k=K (gradients every K steps), never, "
        "average=K (models every K epochs)",
        rule=Rule("one", lambda text: "one strategy" if "," in text else is_strategy(text)),
        metavar="NAME[=K]",
    )
    compare: str | None = option(
        None,
        "instead of --sync: strategies side by side, such as every-step,every-k=4,never",
        rule=Rule("strategies, with commas between them", is_strategy),
        metavar="A,B,…",
    )
    ranks: tuple[int, ...] | None = whole_numbers(
        "numbers of ranks to compare, such as 1,2 (default: one for each worker)"
    )
    stages: int | Literal["auto"] = option(
        1,
        "split the network into N pipeline stages, each on a rank of its own; with more ranks "
        "several pipelines average their gradients; auto: as few as fit into the memory of a "
        "worker, or of its GPU",
        parse=_number_of_stages,
        rule=rule(
            "a whole number of at least 1, or auto",
            lambda stages: stages == "auto" if isinstance(stages, str) else stages >= 1,
        ),
        metavar="N",
    )
    microbatches: int | None = number(
        None,
        f"with --stages: micro-batches of a rank's batch (default: {MICROBATCHES})",
    )
    stages_of_a_rank: int = number(
        1, "with --stages: stages of each rank; more (interleaved) leave it less idle"
    )
    repeats: int = number(1, "trainings of each, with different seeds")
    epochs: int = number(20, "maximum epochs")
    batch_size: int = number(128, "rows of a rank's batch; a step takes those of all ranks")
    optimizer: str = option(
        "auto", "auto: adamw, for the bagging network sgd", choices=("auto", *OPTIMIZERS)
    )
    learning_rate: float | None = real(
        None,
        "of one rank (default: 0.003 for approximator, 0.01 for bagging, else 0.001)",
        rule=positive,
        metavar="RATE",
    )
    momentum: float = real(
        0.9, "of sgd", rule=rule("in [0, 1)", lambda factor: 0 <= factor < 1), metavar="M"
    )
    scale_lr: str = option(
        "none",
        "multiply the learning rate by the number of ranks, or its square root",
        choices=SCALINGS,
    )
    warm_up: int = number(
        0, "steps over which the learning rate rises to its value", rule=at_least(0)
    )
    patience: int | None = number(None, "stop after N epochs without a lower validation loss")
    until_loss: float | None = real(None, "stop at this validation loss", metavar="LOSS")
    precision: str = option(
        "fp32",
        "of matrix products in training: tf32 on a GPU; bf16 on GPUs and newer CPUs",
        choices=PRECISIONS,
    )
    channels_last: bool = option(False, "NHWC memory format for images, which tensor cores prefer")
    storage: str = option(
        "device", "where rows are stored: in the device's memory, or the host's", choices=STORAGES
    )
    input: str = option(
        "auto",
        "rows of an image folder or a .parquet table: memory loads all, stream reads them from "
        "disk in shuffled windows; auto streams what exceeds half of the memory",
        choices=INPUTS,
    )
    loader_workers: int | None = number(
        None,
        "with --input stream: processes of each rank that read and decode ahead (default: its "
        "share of the host's cores minus one, at least 1; 0: none)",
        rule=at_least(0, 1000),
        changes_results=False,
    )
    cache_dir: str | None = option(
        None,
        "with --input stream: folder on each host's local disk for decoded rows, kept after the "
        "run (default: in TMPDIR, removed afterwards)",
        metavar="DIR",
        path="folder",
        changes_results=False,
    )
    checkpoint_seconds: float = real(
        10.0,
        "seconds between checkpoints on disk",
        rule=positive,
        metavar="S",
        changes_results=False,
    )

    open_ranks: bool = option(
        False,
        "let ranks on several hosts communicate over sockets that torch does not encrypt",
        changes_results=False,
    )

    def strategies(self) -> list[str]:
        """Return the strategies of the run, as they are typed."""
        return self.compare.split(",") if self.compare else [self.sync]

    @property
    def chosen_optimizer(self) -> str:
        """The optimiser, ``auto`` resolved by the network."""
        default, _ = USUAL.get(self.network, USUAL["mlp"])
        return default if self.optimizer == "auto" else self.optimizer

    @property
    def base_rate(self) -> float:
        """The learning rate of one rank."""
        default = USUAL.get(self.network, USUAL["mlp"])[1]
        return default if self.learning_rate is None else self.learning_rate

    def loaders(self, n_ranks_on_host: int) -> int:
        """The processes of a rank that read ahead; it is asked on that host."""
        from joblib import cpu_count

        if self.loader_workers is not None:
            return self.loader_workers
        return max(1, cpu_count() // n_ranks_on_host - 1)

    def kept_at_once(self, formation: Formation) -> tuple[float, float]:
        """Count the numbers that are held for each weight, and for each that a row leaves.

        Of a weight itself, its gradient, its best value and the optimiser's; of rows, those of the
        micro-batches that are on their way, or of the whole batch where there are no stages.
        """
        moments = 2 if self.chosen_optimizer == "adamw" else int(self.momentum > 0)
        if formation.n_stages == 1:
            return 3.0 + moments, float(self.batch_size)
        return 3.0 + moments, float(formation.n_rows * min(formation.n_micro, formation.n_stages))

    def rate(self, step: int, n_ranks: int) -> float:
        """Return the learning rate of a step, counted from 1.

        With many ranks it is multiplied with their number (Goyal et al. 2017) or its root
        (Krizhevsky 2014), where that is asked for.
        """
        factor = {"none": 1.0, "linear": float(n_ranks), "sqrt": n_ranks**0.5}[self.scale_lr]
        return self.base_rate * factor * min(1.0, step / max(1, self.warm_up))

    def refuse_meaningless(self) -> None:
        """Raise InputError for options that would do nothing."""
        if self.compare is not None and self.sync != "every-step":
            raise InputError("--sync and --compare exclude each other; name all in --compare")
        if len(set(self.strategies())) < len(self.strategies()):
            raise InputError(f"--compare must name each strategy once, got {self.compare}")
        optimizer = self.chosen_optimizer
        if self.momentum != 0.9 and optimizer != "sgd":
            raise InputError(
                f"--momentum is for --optimizer sgd, got {self.momentum:g} with {optimizer}; leave "
                "it out"
            )
        if self.channels_last and self.network in ("approximator", "mlp"):
            raise InputError(
                "--channels-last is for a network with convolutions, got --network "
                f"{self.network}; leave it out"
            )
        self._refuse_meaningless_stages()
        self._refuse_meaningless_input()
        for name, network in (("hidden", "mlp"), ("points", "approximator")):
            if getattr(self, name) is not None and self.network != network:
                raise InputError(
                    f"--{name} is for --network {network}, got --network {self.network}; leave it "
                    "out"
                )

    def _refuse_meaningless_input(self) -> None:
        if self.input == "memory":
            for name in ("loader_workers", "cache_dir"):
                if getattr(self, name) is not None:
                    raise InputError(
                        f"{flag_of(name)} is for --input auto or stream, got memory; leave it out"
                    )
        if self.input == "stream" and (self.stages != 1 or self.network == "approximator"):
            conflict = f"--stages {self.stages}" if self.stages != 1 else "--network approximator"
            raise InputError(f"--input stream does not go with {conflict}; leave one out")

    def _refuse_meaningless_stages(self) -> None:
        n_micro = self.microbatches or MICROBATCHES
        if self.stages == 1:
            for name, default in (("microbatches", None), ("stages_of_a_rank", 1)):
                if getattr(self, name) != default:
                    raise InputError(f"{flag_of(name)} is for a network in stages; add --stages 2")
            return
        if self.strategies() != ["every-step"]:
            raise InputError(
                f"--stages is for --sync every-step, got {', '.join(self.strategies())}; leave one "
                "out"
            )
        if self.precision == "bf16":
            raise InputError("--stages is for --precision fp32 or tf32, got bf16; leave one out")
        if self.batch_size % n_micro:
            raise InputError(
                f"--batch-size must be a multiple of --microbatches, got {self.batch_size} and "
                f"{n_micro}; take --batch-size {-(-self.batch_size // n_micro) * n_micro}"
            )
        if self.stages == "auto":
            return
        if n_micro % self.stages if self.stages_of_a_rank > 1 else n_micro < self.stages:
            word = "a multiple of" if self.stages_of_a_rank > 1 else "at least"
            raise InputError(
                f"--microbatches must be {word} --stages, got {n_micro} and {self.stages}; take "
                f"--microbatches {-(-n_micro // self.stages) * self.stages}"
            )
