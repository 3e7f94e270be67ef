"""The command ``pleasingly nn-bagging``: bagging of neural networks.

``pleasingly nn-bagging predict RUN --image FILE`` predicts with a stored ensemble of images, and
``predict RUN TABLE`` with one of a table.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pipelines.bagging.explain import ROWS, SamplesToExplain
from pipelines.bagging.intervals import CONFIDENCE as OF_INTERVALS
from pipelines.bagging.members import READ
from pipelines.bagging.record import READ_AGAIN, BaggingAnswer, BaggingRecord, BaggingRow
from pipelines.bagging.selective_prediction import CONFIDENCE
from pipelines.bagging.summary import of_ensemble
from pipelines.console import phase
from pipelines.data.dataset import CLASSIFICATION, REGRESSION, Dataset
from pipelines.data.load import load_dataset
from pipelines.data.placement import Fold, FoldedData
from pipelines.data.user_code import absolute_name, named_code
from pipelines.errors import InputError, opt
from pipelines.nn.augment import AUGMENTATION, choose_augmentation
from pipelines.nn.inputs import Inputs
from pipelines.nn.options import network_option, own_code_option
from pipelines.nn.settings import (
    BY_HAND,
    OF_NETWORKS,
    OPTIMIZERS,
    PRECISIONS,
    SCHEDULES,
    TrainingSettings,
    need_torch,
)
from pipelines.nn.space import SearchSpace, code_of_space
from pipelines.run import job, summary
from pipelines.run.cluster import Cluster, Workers
from pipelines.run.groups import FoldOptions, OwnDataOptions, RecyclingOptions, TestOptions
from pipelines.run.lifecycle import Session
from pipelines.run.options import (
    at_least,
    fraction,
    list_option,
    number,
    option,
    positive,
    real,
    rule,
)
from pipelines.run.outcomes import TaskDescription
from pipelines.run.predict import (
    RULE_OF_IMAGES,
    SHOWN,
    TABLES,
    ModelAnswer,
    PredictOptions,
)
from pipelines.search.extension import record_extended, rows_to_extend
from pipelines.search.options import BudgetOptions, ExtendOptions, NestedOptions, TaskOptions
from pipelines.search.scoring import make_scoring
from pipelines.search.splits import splits_of
from pipelines.search.strategies import strategy_packages

if TYPE_CHECKING:
    from pipelines.bagging.estimator import BaggedNets
    from pipelines.bagging.regressor import BaggedNetsRegressor
    from pipelines.bagging.train_members import TrainedMembers
    from pipelines.bagging.work import Trainings
    from pipelines.run.new_rows import NewRows
    from pipelines.search.forecast import Rates, WorkType
    from pipelines.search.tasks import Problem

SMALLEST_OF_CNN = 20  # pixels on a side; smaller grey images get the network conv by default
MOST_COPIES = 1000

STRATEGIES, MARGIN = ("random", "race", "tpe"), 3.0
OF_CLASSES = ("defer_error", "explain", "label_smoothing", "rare")  # options for classification
OF_NUMBERS = ("defer_width",)  # options for regression


@dataclass(frozen=True)
class NetworkTrainingOptions:
    """Options of the training of networks."""

    group: ClassVar[str] = "model"

    network: str | None = network_option(
        "that of --space; for images of 20 pixels and more cnn, smaller ones conv, tables table"
    )
    augment: str = option(
        "none",
        "change the training images at random: light (digits: shifts, turns, sizes; photographs: "
        "shifts and flips), randaugment, trivialaugment, augmix, or module:function",
        rule=AUGMENTATION,
        metavar="NAME",
        parse=absolute_name,
        code=named_code,
    )
    optimizer: str = option(
        "auto",
        "torch's optimiser; auto: sgd, for the study's networks their own",
        choices=("auto", *OPTIMIZERS),
    )
    schedule: str = option(
        "auto",
        "learning-rate schedule; auto: onecycle, for the study's networks none",
        choices=("auto", *SCHEDULES),
    )
    weight_decay: float | None = real(
        None,
        "weight decay, except of biases and norms (default: 0.0005, adamw 0.05, table 0.1)",
        rule=at_least(0, 10),
        metavar="DECAY",
    )
    label_smoothing: float | None = real(
        None,
        "fraction of a label spread over all classes (default: 0.05, table 0.02)",
        rule=at_least(0, 0.9),
        metavar="FRACTION",
    )
    patience: int | None = number(
        None,
        "epochs without a smaller loss on the out-of-bag rows after which a network stops, and its "
        "best weights are kept (default: never; network table 20, in a regression 30)",
    )
    batch_size: int | None = number(
        None, "rows of a training step (default: 64; the study's networks 10, table 256)"
    )
    max_epochs: int | None = number(
        None,
        "maximum epochs (default: 12 to 60, 1500 steps; the study's networks 20, which stop "
        "earlier once the loss falls by less than a fifth; table 20 to 200, 200 steps; in a "
        "regression 20 to 1000, 1000 steps)",
    )
    precision: str = option(
        "fp32",
        "matrix products: tf32 on a GPU; bf16 on GPUs and newer CPUs, except the study's networks",
        choices=PRECISIONS,
    )
    memory: float | None = real(
        None,
        "GiB of device memory that training may use on a worker (default: 90 % of a GPU, no limit "
        "on a CPU)",
        rule=positive,
        metavar="GIB",
        changes_results=False,
    )


@dataclass(frozen=True)
class Options(
    NetworkTrainingOptions,
    BudgetOptions,
    ExtendOptions,
    NestedOptions,
    FoldOptions,
    RecyclingOptions,
    TestOptions,
    TaskOptions,
    OwnDataOptions,
):
    """Options of ``nn_bagging``."""

    group: ClassVar[str] = "ensemble and search"

    n_bootstrap: int = number(
        12,
        "members of the ensemble, each on a bootstrap sample of its own",
        rule=at_least(1, 10_000),
    )
    n_tuning: int = number(
        12,
        "candidates of each member's random search; 0: no search, each member trains the first one "
        "drawn",
        rule=at_least(0, 10_000),
    )
    strategy: str = option(
        "random",
        "which of a member's candidates are tried: random, all on every fold; race drops those "
        "clearly behind as folds finish; tpe draws where earlier candidates did well",
        choices=STRATEGIES,
    )
    race_margin: float = real(
        MARGIN,
        "with --strategy race: standard errors behind the best at which a candidate is dropped",
        rule=at_least(1, 100),
        metavar="N",
    )
    space: str = option(
        "auto",
        "search space: small, study, mlp, table, cnn or a .yaml file; auto: by --network",
        metavar="NAME|FILE",
        path="file",
        code=code_of_space,
    )
    scoring: tuple[str, ...] = list_option(
        (),
        "scorers of scikit-learn; the first chooses a member's best candidate (default: "
        "neg_log_loss; neg_mean_squared_error for regression)",
        metavar="NAME",
    )
    explain: str | None = option(
        None,
        "test rows whose certainty is plotted, such as 7,18",
        rule=ROWS,
        metavar="ROWS",
        changes_results=False,
    )
    defer_error: float | None = fraction(
        None,
        "answer only where the estimated error (from out-of-bag rows) is at most this; defer the "
        "rest",
        changes_results=False,
    )
    defer_width: float | None = real(
        None,
        "regression: answer only where the interval is at most this wide, in units of the target; "
        "defer the rest",
        metavar="WIDTH",
        rule=rule("above 0 and finite", lambda width: 0 < width < math.inf),
        changes_results=False,
    )
    confidence: float | None = fraction(
        None,
        "confidence level of --defer-error, of prediction sets and of a regression's intervals "
        f"(default: {CONFIDENCE}, intervals {OF_INTERVALS})",
        changes_results=False,
    )
    image: tuple[str, ...] | None = list_option(
        None,
        "your own images, for the ensemble to classify",
        metavar="FILE",
        path="data",
    )

    def check(self) -> None:
        """Refuse options that have no effect, or contradict each other."""
        for name in ("scoring", "extend", "strategy") if self.n_tuning == 0 else ():
            value = getattr(self, name)
            if value and value != STRATEGIES[0]:
                raise InputError(
                    f"{opt(name)} is of a search, and {opt('n_tuning', 0)} makes none, got "
                    f"{','.join(value) if isinstance(value, tuple) else value}; leave one of them "
                    "out"
                )
        if self.race_margin != MARGIN and self.strategy != "race":
            raise InputError(
                f"{opt('race_margin')} goes with {opt('strategy', 'race')}, got "
                f"{self.race_margin:g} beside {opt('strategy', self.strategy)}; leave one of them "
                "out"
            )
        if self.extend is not None and self.strategy == "tpe":
            raise InputError(
                f"{opt('extend')} takes fits of candidates that are known before, got "
                f"{self.extend} beside {opt('strategy', 'tpe')}, which draws them; leave one of "
                "them out"
            )
        super().check()


@dataclass(frozen=True)
class BaggingPredictOptions(PredictOptions):
    """Options of ``nn_bagging predict``."""

    description: ClassVar[str] = (
        "Predict the rows of a table, or your own images, with the ensemble of a run. Columns are "
        "matched by name. " + RULE_OF_IMAGES
    )
    has_figures: ClassVar[bool] = True

    output: Path | None = option(
        None,
        "for a table: a .csv or .parquet file (default: NAME-predictions.csv beside it); for "
        "images: such a file, or a folder (default: image-predictions.csv in the current folder), "
        f"beside which figures NAME-certainty.svg and .png of the first {SHOWN} are put",
        parse=Path,
        metavar="PATH",
    )
    copies: int = number(
        0,
        "for images: average over N copies, augmented as in training, instead of the image itself",
        rule=rule(f"from 0 to {MOST_COPIES}", lambda number: 0 <= number <= MOST_COPIES),
    )
    network: str | None = own_code_option("a network of your own")
    augment: str | None = own_code_option("a function of your own that augments")

    def check(self) -> None:
        super().check()
        if self.copies and self.table is not None:
            raise InputError(
                f"{opt('copies')} goes with {opt('image')}, got {self.copies} and a TABLE; leave "
                "it out"
            )

    @property
    def folder(self) -> Path:
        """Folder for the figures."""
        if self.output is None:
            return Path()
        return self.output.parent if self.output.suffix in TABLES else self.output


def none_if_auto(choice: Any) -> Any:
    """The choice of an option; None for "auto"."""
    return None if choice == "auto" else choice


@dataclass(frozen=True, eq=False, kw_only=True)
class BaggingPlan(job.Plan[Options]):
    """Plan of an ensemble: bootstrap samples and candidates of all members, all drawn.

    Attributes
    ----------
    samples_to_explain : Asked
        Samples whose certainty is drawn.
    space : SearchSpace
        Where candidates are drawn from.
    augment : str
        How training images are changed.
    trainings : Trainings
        Trainings of the members and their candidates.
    scoring : tuple of str
        Names of scorers; the first one chooses a member's best candidate.
    network_lines : sequence of str
        Lines for the terminal on a network that is not one of the study.
    rates : mapping
        Measured rates of tasks; empty if none were measured.
    """

    samples_to_explain: SamplesToExplain
    space: SearchSpace
    augment: str
    trainings: Trainings
    scoring: tuple[str, ...]
    network_lines: Sequence[str] = ()
    rates: Mapping[WorkType, Rates] = field(default_factory=dict)

    @property
    def lines(self) -> list[str]:
        """Lines on the data, the networks and the number of fits."""
        from pipelines.data.tables.words import counted

        options, data = self.options, self.data
        members, shape = counted(options.n_bootstrap, "member"), data.image_shape
        plan = f"ensemble   {members}, without a search"
        if options.n_tuning:
            n_tasks = options.n_bootstrap * options.n_tuning
            at_most = "at most " if options.strategy == "race" else ""
            plan = (
                f"ensemble   {members} x {counted(options.n_tuning, 'candidate')} x "
                f"{options.folds} folds = {at_most}{n_tasks * options.folds:,} fits in "
                f"{counted(n_tasks, 'task')}, and {counted(options.n_bootstrap, 'refit')}"
            )
        if options.nested is not None:
            plan += f"; and as much in each of {options.nested} outer folds"
        form = f"images of {shape[-2]} x {shape[-1]} pixels" if shape else "a table"
        notes = [f"note       {note}" for note in self.samples_to_explain.notes]
        training = self.trainings.training
        if self.space.network in BY_HAND and training.optimizer is not None:
            notes.append(
                f"note       network {self.space.network} is trained as modules are, not by its "
                f"own rule: {training.optimizer}, schedule {training.schedule}, batches of "
                f"{training.batch_size}, up to {counted(training.max_epochs, 'epoch')}"
            )
        of_data = summary.data_line(data, form, options.limit)
        return [*data.lines, of_data, *self.network_lines, *notes, plan]

    def trainings_on(self, device: str) -> Trainings:
        """The trainings for a device."""
        trainings = self.trainings.on(device)
        # Members of a table in one group would all have the candidate that its first one drew.
        if self.options.n_tuning == 0 and self.space.network != "table":
            return trainings.in_groups()
        return trainings

    def tasks_for(self, kind: str, n_workers: int) -> Sequence[TaskDescription]:
        """Tasks of the candidates, and of the refits that follow them."""
        on_gpu = kind == "cuda" or self.options.device == "gpu"
        trainings = self.trainings_on("gpu" if on_gpu else "cpu")
        problem = trainings.problem(FoldedData.of(self.data), self.scoring)
        feed = trainings.feed(problem, n_workers)
        return [*feed(0), *feed.waiting]

    def timed(self, workers: Workers, done: job.Done) -> tuple[Self, Sequence[str]]:
        """See ``Plan``. If candidates are drawn or dropped on the way, the forecast is of all."""
        from pipelines.bagging.work import run_member_task
        from pipelines.search.forecast import forecast

        budget = self.options.time_budget
        if self.options.quiet and budget is None:
            return self, ()
        trainings = self.trainings_on(workers.device).with_strategy("random")
        problem = trainings.problem(FoldedData.of(self.data), self.scoring)
        refit_candidates = {
            stage: row["candidate"] for stage, row in getattr(done, "refits", {}).items()
        }
        # A strategy that drops candidates may need less: the forecast is an upper bound.
        feed = trainings.feed(problem, workers.n, getattr(done, "rows", {}), refit_candidates)
        tasks = [*feed(0), *feed.waiting]

        def run(problem: Problem, task: Any, n_threads: int) -> Iterator[Any]:
            return run_member_task(
                problem, task, shared_fit=trainings.shared_fit, n_threads=n_threads
            )

        is_race = self.options.strategy == "race"
        time_forecast = forecast(problem, tasks, workers, run=run, at_most=is_race, budget=budget)
        return replace(self, rates=time_forecast.rates), time_forecast.lines

    def on(self, cluster: Cluster) -> Self:
        """The plan, with the space and the samples to explain added to its entries."""
        n_splits = self.options.folds if self.options.n_tuning else 0
        entries = {"n_splits": n_splits, "space": self.space.describe(), "augment": self.augment}
        entries["scoring"] = list(self.scoring)
        return replace(self, entries=entries | self.samples_to_explain.describe())


def refuse_of_other_task(options: Options, data: Dataset) -> None:
    """Refuse options for another task, and a confidence that needs more rows.

    Raises
    ------
    InputError
        An option is for classification and the task is regression, or the other way round; or the
        confidence of intervals is more than n / (n + 1) for n training rows.
    """
    is_regression = data.task == REGRESSION
    for name in OF_CLASSES if is_regression else OF_NUMBERS:
        if (value := getattr(options, name)) not in (None, "refuse"):
            targets, task = ("numbers", "classes"), REGRESSION
            if is_regression:
                targets, task = ("classes", "numbers"), CLASSIFICATION
            raise InputError(
                f"{opt(name)} is for {targets[0]}, and the target is {targets[1]}, got {value!r}; "
                f"leave it out, or say {opt('task', task)}"
            )
    n = len(data.y_train)
    confidence = options.confidence or OF_INTERVALS
    if is_regression and confidence > n / (n + 1):
        raise InputError(
            f"{opt('confidence')} must be at most {n / (n + 1):.3g} with {n:,} training rows, got "
            f"{confidence:g}; lower it, or add rows"
        )


def space_of(options: Options, data: Dataset, record: Mapping[str, Any]) -> SearchSpace:
    """The space that candidates are drawn from; a resumed run keeps that of its first session.

    Parameters
    ----------
    options : Options
    data : Dataset
    record : mapping
        ``run.json`` of the run to resume; empty for a new one.

    Returns
    -------
    SearchSpace
    """
    shape = data.image_shape
    if "space" in record:
        space = SearchSpace.from_mapping(record["space"])
        if not named_code(space.network):
            return space
        # A network of the user's own is loaded from the file in the options, never from one that a
        # run folder names, as a folder may come from somebody else.
    network = options.network
    if network is None and options.space == "auto":
        is_large = shape is not None and min(shape[-2:]) >= SMALLEST_OF_CNN
        network = "table" if shape is None else "cnn" if is_large or len(shape) == 3 else "conv"
    return SearchSpace.load(options.space, network, none_if_auto(options.optimizer) or "sgd")


class Bagging(job.Job[Options]):
    """Job of ``nn_bagging``: an ensemble of networks, each trained on a bootstrap sample.

    Each member is the best candidate of a search on its bootstrap sample. The members vote; in a
    regression the answer is their mean, with an interval.
    """

    command = "nn_bagging"
    description = (
        "Train an ensemble of neural networks, each on a bootstrap sample with a random search of "
        "its own, on every worker. They vote on classes; numbers get their mean and an interval."
    )
    options_class = Options
    row = BaggingRow
    record = BaggingRecord
    files = READ_AGAIN
    page = "pipelines.pages.nn_bagging:BaggingReport"
    predict_options_class = BaggingPredictOptions
    model_files = READ
    examples = (
        "--dataset mnist --data-dir data --explain 18,247",
        "--dataset mine.csv --target species --n-bootstrap 4 --n-tuning 2",
        "--dataset houses.csv --target price --n-bootstrap 24 --n-tuning 0",
        "--resume results/nn_bagging-20261120-140055",
    )
    reusable = True  # a finished run may be resumed with another explain
    lasting = ("space",)  # candidates are drawn from it; its file may not change
    candidate_options = frozenset(("n_bootstrap", "n_tuning", "strategy", "race_margin", "space"))

    @staticmethod
    def load_model(run: Path, network: Any = None) -> BaggedNets | BaggedNetsRegressor:
        """See ``Job``; for ``network`` see ``BaggedNets.of_run``."""
        from pipelines.bagging.estimator import BaggedNets
        from pipelines.bagging.regressor import BaggedNetsRegressor
        from pipelines.run.new_rows import record_of

        if record_of(run, "nn_bagging", BaggingRecord).dataset.task == REGRESSION:
            return BaggedNetsRegressor.of_run(run, network)
        return BaggedNets.of_run(run, network)

    @staticmethod
    def predict_rows(rows: NewRows, options: BaggingPredictOptions) -> ModelAnswer:
        """See ``Job``. For the first images, figures of the certainty are drawn, too."""
        from pipelines.bagging.predict import predict_with_ensemble

        def draw(*image: Any) -> Path:
            from pipelines.pages.nn_bagging import draw_certainty

            return draw_certainty(options.folder, *image)

        code = {"network": options.network, "augment": options.augment}
        return predict_with_ensemble(rows, options.run, draw, options.copies, **code)

    def packages(self, options: Options, record: Mapping[str, Any]) -> tuple[str, ...]:
        return (*job.PACKAGES, *OF_NETWORKS, *strategy_packages(options.strategy))

    def load(self, options: Options, kind: str) -> Dataset:
        """Load the data set, unscaled: images and tables are scaled on the workers."""
        need_torch()
        return load_dataset(
            options.dataset,
            task=options.task_asked,
            test_size=options.test_size,
            seed=options.seed,
            # Folds of a bootstrap sample may lack a class, so none is refused for that. Only where
            # rare classes are merged or dropped does the number of folds decide which are rare.
            n_folds=options.folds if options.rare != "refuse" else 1,
            **options.as_read(),
        )

    def plan(self, options: Options, data: Dataset, record: Mapping[str, Any]) -> BaggingPlan:
        """Draw the bootstrap samples and all candidates, and find the samples to explain."""
        from pipelines.bagging.work import Trainings
        from pipelines.search.strategies.tpe import need_optuna

        refuse_of_other_task(options, data)
        if options.strategy == "tpe":
            need_optuna()
        samples_to_explain = SamplesToExplain.of(options.explain, options.image or (), data)
        samples_to_explain.refuse_other_images(record)
        space = space_of(options, data, record)
        augment = choose_augmentation(options.augment, data.image_shape is not None, data.ink)
        choices = {name: none_if_auto(getattr(options, name)) for name in TrainingSettings.choices}
        choices["memory_bytes"] = options.memory and int(options.memory * 2**30)
        choices |= {"augment": augment, "is_regression": data.task == REGRESSION}
        training = TrainingSettings.of(space.network, len(data.y_train), **choices)
        inputs = Inputs(data.n_inputs, data.n_classes, data.image_shape)
        outer, lines = list[Fold](), list[str]()
        if options.nested is not None:
            rows = (data.X_train, data.y_train, None, data.task, data.classes)
            outer = splits_of("auto", options.nested, 1, options.seed + 1, *rows)
        trainings = Trainings.draw(
            data.y_train,
            inputs,
            space,
            training,
            n_bootstrap=options.n_bootstrap,
            n_tuning=max(1, options.n_tuning),
            n_folds=options.folds,
            seed=options.seed,
            nested=outer,
            strategy=options.strategy,
            race_margin=options.race_margin,
        )
        if space.network not in BY_HAND:  # an error in the user's module is raised here
            from pipelines.nn.networks import describe_network

            lines = describe_network(trainings.candidates[0][0].spec, inputs)
        if options.n_tuning == 0:
            trainings = trainings.without_search()
        return BaggingPlan(
            options=options,
            data=data,
            record=record,
            samples_to_explain=samples_to_explain,
            space=space,
            augment=augment,
            trainings=trainings,
            scoring=make_scoring(options.scoring, data) if options.scoring else (trainings.loss,),
            network_lines=lines,
        )

    def restore(self, plan: BaggingPlan, session: Session) -> TrainedMembers:
        """Rows of candidates and members of earlier sessions, or of the run to extend."""
        from pipelines.bagging.train_members import done_before

        done = done_before(session, plan.trainings)
        if plan.options.extend is None or session.folder.has_begun:
            return done
        problem = plan.trainings.problem(FoldedData.of(plan.data), plan.scoring)
        rows, accepted = rows_to_extend(self, plan, problem, session)
        return replace(done, rows=rows, extended=rows, accepted=accepted)

    def execute(
        self, plan: BaggingPlan, done: TrainedMembers, session: Session, cluster: Cluster
    ) -> TrainedMembers:
        """Train the candidates and members that are not done."""
        from pipelines.bagging.train_members import train_members

        data = plan.data
        # The user's own images are predicted along with the test rows, after them.
        rows = FoldedData.of(data, X_test=plan.samples_to_explain.after(data.X_test))
        trainings = plan.trainings_on(cluster.device)
        problem = trainings.problem(rows, plan.scoring)
        record_extended(done.extended, plan.options, session, cluster)
        budget = plan.options.time_budget
        return train_members(
            session, cluster, problem, trainings, done, data.classes, budget, plan.rates
        )

    def answer(
        self, plan: BaggingPlan, computed: TrainedMembers, session: Session, cluster: Cluster | None
    ) -> BaggingAnswer:
        """Combine the members' predictions, and score them on the test rows."""
        from pipelines.bagging.answer import TrainedEnsemble, answer, answer_numbers
        from pipelines.bagging.importance import write_ensemble_importances
        from pipelines.data.baseline import baseline_of, remarks_on

        options, data = plan.options, plan.data
        is_regression = data.task == REGRESSION
        ensemble = TrainedEnsemble(
            session.path,
            computed.members(plan.trainings),
            data,
            plan.samples_to_explain,
            options.folds if options.n_tuning else 1,
            options.seed,
            options.confidence or (OF_INTERVALS if is_regression else CONFIDENCE),
            options.defer_error,
            options.defer_width,
        )
        if is_regression:
            with phase(session.echo, "mean       combining the members' predictions"):
                entries = answer_numbers(ensemble)
        else:
            cluster_arguments = (
                (cluster.client, cluster.runner.scattered, cluster.device) if cluster else ()
            )
            with phase(session.echo, "vote       combining the members' predictions"):
                entries = answer(ensemble, *cluster_arguments)
                baseline = baseline_of(data)
            error = entries["vote_test_error"]
            remarks = remarks_on(data, baseline, test_error=error, option="")
            entries |= {"baseline": baseline, "remarks": remarks}
        network_code = named_code(plan.space.network)
        remark = write_ensemble_importances(
            session.path,
            list(ensemble.refits),
            data,
            options.seed,
            plan.scoring[0] if options.scoring else None,
            options.time_budget,
            network_code[0] if network_code else None,
        )
        entries["remarks"] += [remark] if remark else []
        if options.nested is not None:
            from pipelines.bagging.train_members import nested_vote_estimate

            nested = (session.path, plan.trainings, computed, data.y_train)
            entries["nested"] = nested_vote_estimate(*nested)
        return BaggingAnswer.of({**computed.entries, **entries})

    def summary_lines(self, record: Mapping[str, Any], path: Path) -> list[str]:
        return of_ensemble(record)

    def is_whole(self, record: Mapping[str, Any], plan: BaggingPlan, done: TrainedMembers) -> bool:
        """Whether a run is finished and all its members are stored."""
        is_finished = super().is_whole(record, plan, done)
        trainings = (plan.trainings, *plan.trainings.nested)
        return is_finished and len(done.refits) == sum(len(part.seeds) for part in trainings)


JOB = Bagging
main, run = JOB.main, JOB.run


def __dir__() -> list[str]:
    return ["main", "run"]


if __name__ == "__main__":
    sys.exit(main())
