"""The options of ``data_parallel`` beside those of every command, and its strategies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, Self

from pipelines.data.stream.streamed_rows import INPUTS
from pipelines.data.user_code import absolute_name, named_code
from pipelines.errors import InputError, flag_of
from pipelines.nn.augment import AUGMENTATION
from pipelines.nn.settings import PRECISIONS
from pipelines.run.options import Rule, at_least, fraction, number, option, positive, real, rule

# The default optimiser and learning rate of each network.
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
# Name -> what K counts, and its default; 0 for a strategy without K.
STRATEGIES = {
    "every-step": ("", 0),
    "every-k": ("steps", 4),
    "never": ("", 0),
    "average": ("epochs", 1),
}


@dataclass(frozen=True)
class SyncStrategy:
    """When ranks share gradients or average their models.

    - ``every-step``: each step uses the gradient of the union batch, as DDP does.
    - ``every-k``: each k-th step does; between them each rank uses its own gradient, and models
      are averaged after each epoch. The study shared at each 2nd, 4th and 10th step.
    - ``average``: models are averaged after each k-th epoch (McDonald et al. 2010).
    - ``never``: ranks never communicate while they train.

    With the models the state of the optimiser is averaged, too: the momentum, or both moments of
    AdamW.

    Attributes
    ----------
    name : str
        One of ``STRATEGIES``.
    k : int
        Steps or epochs, whichever the strategy counts; 0 if it counts none.

    References
    ----------
    R. McDonald, K. Hall and G. Mann, Distributed training strategies for the structured perceptron,
    NAACL HLT, 2010.
    """

    name: str
    k: int

    @property
    def always_equal(self) -> bool:
        """Whether all ranks have the same weights after every step."""
        return self.name == "every-step"

    def shares(self, step: int) -> bool:
        """Whether a step, counted from 1, uses the gradient of all ranks' batches."""
        return self.always_equal or (self.name == "every-k" and step % self.k == 0)

    def averages(self, epoch: int) -> bool:
        """Whether models are averaged after an epoch, counted from 0."""
        return self.name == "every-k" or (self.name == "average" and (epoch + 1) % self.k == 0)


@dataclass(frozen=True)
class Formation:
    """How ranks divide a network: into pipelines side by side, each rank with one or more stages.

    Attributes
    ----------
    n_pipelines, n_in_pipeline : int
        Pipelines, and ranks of each.
    n_each : int
        Stages of a rank; with more than one the schedule is interleaved.
    n_micro, n_rows : int
        Micro-batches of a pipeline's batch, and rows of each.
    """

    n_pipelines: int
    n_in_pipeline: int
    n_each: int
    n_micro: int
    n_rows: int

    @classmethod
    def of(cls, options: TrainingOptions, n_ranks: int) -> Self:
        """The formation that the options ask for, with at most ``n_ranks`` ranks.

        If there are fewer than a pipeline should have, the pipeline is shorter. Ranks that do not
        fill another pipeline are left out.
        """
        assert options.stages != "auto"  # resolved before, by the workers' memory
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
        """The numbers of the stages of the rank at a position of its pipeline."""
        return list(range(position, self.n_stages, self.n_in_pipeline))

    @property
    def bubble(self) -> float:
        """The idle fraction of a step if all stages took equal time and messages none.

        It is (p - 1) / (v m + p - 1) for p ranks, v stages of each and m micro-batches (Narayanan
        et al. 2021).

        References
        ----------
        D. Narayanan et al., Efficient large-scale language model training on GPU clusters using
        Megatron-LM, SC, 2021.
        """
        idle = self.n_in_pipeline - 1
        return idle / (self.n_each * self.n_micro + idle)


def strategy_of(text: str) -> SyncStrategy:
    """The strategy that is typed ``NAME`` or ``NAME=K``.

    Raises
    ------
    KeyError
        There is no strategy of that name.
    ValueError
        K is not a whole number of at least 1, or the strategy has none.
    """
    name, equals, number = text.partition("=")
    unit, k = STRATEGIES[name]
    if equals and not (unit and number.isdecimal() and int(number)):
        raise ValueError(f"{number} is no number of {unit}")
    return SyncStrategy(name, int(number) if equals else k)


def is_strategy(text: str) -> str | None:
    """The rule that an option's value breaks, as text; None if it is one or more strategies."""
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
    """Options for the network and the data."""

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
    """Options for the training and its ranks."""

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
        """The strategies of the run, as they are typed."""
        return self.compare.split(",") if self.compare else [self.sync]

    @property
    def chosen_optimizer(self) -> str:
        """The optimiser; ``auto`` is resolved by the network."""
        default, _ = USUAL.get(self.network, USUAL["mlp"])
        return default if self.optimizer == "auto" else self.optimizer

    @property
    def base_rate(self) -> float:
        """The learning rate of one rank."""
        default = USUAL.get(self.network, USUAL["mlp"])[1]
        return default if self.learning_rate is None else self.learning_rate

    def loaders(self, n_ranks_on_host: int) -> int:
        """How many processes of a rank read rows ahead.

        By default the rank's fraction of this host's cores, one less; so it must be called on the
        host of the rank.
        """
        from joblib import cpu_count

        if self.loader_workers is not None:
            return self.loader_workers
        return max(1, cpu_count() // n_ranks_on_host - 1)

    def kept_at_once(self, formation: Formation) -> tuple[float, float]:
        """How many numbers a rank holds at once, for each weight and for each activation of a row.

        For a weight: the weight, its gradient, its value after the best epoch, and the optimiser's
        moments. For an activation: the rows of the micro-batches in flight; without stages those of
        the whole batch.
        """
        moments = 2 if self.chosen_optimizer == "adamw" else int(self.momentum > 0)
        if formation.n_stages == 1:
            return 3.0 + moments, float(self.batch_size)
        return 3.0 + moments, float(formation.n_rows * min(formation.n_micro, formation.n_stages))

    def rate(self, step: int, n_ranks: int) -> float:
        """The learning rate of a step, counted from 1.

        If ``scale_lr`` says so, the rate of one rank is multiplied by the number of ranks (Goyal et
        al. 2017) or its square root (Krizhevsky 2014). During the warm-up it rises linearly.

        References
        ----------
        P. Goyal et al., Accurate, large minibatch SGD: training ImageNet in 1 hour, arXiv
        1706.02677, 2017.

        A. Krizhevsky, One weird trick for parallelizing convolutional neural networks, arXiv
        1404.5997, 2014.
        """
        factor = {"none": 1.0, "linear": float(n_ranks), "sqrt": n_ranks**0.5}[self.scale_lr]
        return self.base_rate * factor * min(1.0, step / max(1, self.warm_up))

    def refuse_meaningless(self) -> None:
        """Raise InputError for options that have no effect with the others."""
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
