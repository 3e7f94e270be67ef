"""One rank of a training: its part of each batch, and the communication of its strategy."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.data.batches import Batches, RankBatch
from pipelines.data.stream.row_feed import RowFeed, StreamedBatches, StreamedColumns
from pipelines.parallel.buckets import Buckets
from pipelines.parallel.checkpoint import TrainingProgress, from_bytes, to_bytes, write_checkpoint
from pipelines.parallel.flat import BEST, FlatModel, best_network
from pipelines.parallel.options import TrainingOptions, strategy_of
from pipelines.parallel.process_group.group import ProcessGroup
from pipelines.parallel.training_problem import TrainingProblem

if TYPE_CHECKING:
    import torch

Send = Callable[[Mapping[str, Any]], None]
SECONDS_BETWEEN_EVENTS = 0.5  # of ``news``, which all pass through the scheduler


@dataclass(frozen=True)
class TrainingPlan:
    """The plan of a training, the same for all ranks of a process group.

    Attributes
    ----------
    options : TrainingOptions
    seed : int
        Draws the first weights, and the order of the rows.
    start : bytes or None
        A checkpoint to continue from.
    checkpoint : str
        The path to which rank 0 writes checkpoints.
    n_ranks_on_host : int, default 1
        The most ranks that any host has, which divide its cores for reading.
    """

    options: TrainingOptions
    seed: int
    start: bytes | None
    checkpoint: str
    n_ranks_on_host: int = 1


class Rank:
    """A rank while it trains.

    Parameters
    ----------
    problem : TrainingProblem
    plan : TrainingPlan
    group : ProcessGroup
        This rank's handle of the process group.
    send : function
        Sends a message to the client; see ``train`` for their kinds.
    """

    def __init__(
        self, problem: TrainingProblem, plan: TrainingPlan, group: ProcessGroup, send: Send
    ) -> None:
        import torch

        from pipelines.nn.networks import autocast, drawing_from

        self._torch, self._autocast, self._drawing_from = torch, autocast, drawing_from
        self._problem, self._plan, self._group, self._tell = problem, plan, group, send
        options = self._options = plan.options
        self._strategy = strategy_of(options.sync)
        self._equal_ranks = group  # ranks that hold the same weights; in a pipeline, its peers
        self._network = self._make_network()
        for module in self._network.modules() if options.channels_last else ():
            # The memory format of the input decides which kernel a convolution uses.
            if isinstance(module, torch.nn.Conv2d):
                module.register_forward_pre_hook(
                    lambda _, inputs: inputs[0].contiguous(memory_format=torch.channels_last)
                )
        self._draws = self._network_draws()
        self._model = FlatModel(
            self._network, options.chosen_optimizer, options.momentum, group.device
        )
        self._progress = TrainingProgress()
        state: dict[str, torch.Tensor] = {}
        if plan.start is not None:
            state, self._progress = self._start(plan.start)
            self._model.load(state)
        self._best = {name: tensor for name, tensor in state.items() if name.startswith(BEST)}
        part, n_parts = self._part
        settings: dict[str, Any] = {
            "batch_size": options.batch_size,
            "seed": plan.seed,
            "map": problem.prepare,
            "rank": part,
            "n_ranks": n_parts,
            "device": group.device,
            "epoch": self._progress.epoch,
            "position": self._progress.position,
            "on_host": options.storage == "host",
        }
        self._feed: RowFeed | None = None
        self._batches: Batches
        self._validation: Any
        self._test: Any
        measured_rows = (problem.validation, problem.test)
        if problem.on_disk:
            self._feed = RowFeed(
                problem.on_disk,
                n_workers=options.loaders(plan.n_ranks_on_host),
                directory=options.cache_dir,
                device=group.device,
                say=lambda text: send({"kind": "note", "text": text}),
            )
            self._batches = StreamedBatches(problem.train, self._feed, **settings)
            self._validation, self._test = (
                StreamedColumns(rows, self._feed, group.device) for rows in measured_rows
            )
        else:
            self._batches = Batches(problem.train, **settings)
            self._validation, self._test = (
                {name: torch.tensor(column, device=group.device) for name, column in rows.items()}
                for rows in measured_rows
            )
        self._kept_point: tuple[dict[str, torch.Tensor], TrainingProgress] | None = None
        # The buffers before the step in progress, if all ranks are always equal: a step that breaks
        # leaves the weights as they were, but a forward pass may have changed the buffers.
        self._equal_buffers: dict[str, torch.Tensor] = {}
        self._loss = torch.zeros((), device=group.device)  # of this rank, not yet summed over ranks
        # ``TrainingProgress.loss`` on the device; to read it at each step would make the host wait.
        self._summed_loss = torch.tensor(
            self._progress.loss, dtype=torch.float64, device=group.device
        )
        self._last_news = self._last_write = time.monotonic()

    @property
    def _part(self) -> tuple[int, int]:
        """The index of this rank's part of each union batch, and the number of parts."""
        return self._group.rank, self._group.n_ranks

    def _make_network(self) -> torch.nn.Module:
        return self._problem.network.make(self._plan.seed)

    @cached_property
    def _buckets(self) -> Buckets:
        return Buckets(self._model, self._group)

    def _network_draws(self) -> bool:
        from pipelines.nn.networks import draws

        try:
            return draws(self._network, self._torch.zeros(2, self._problem.network.n_inputs))
        except Exception:  # two rows of zeros may not do; if no rows do, the first step says why
            return True

    def _start(self, content: bytes) -> tuple[dict[str, torch.Tensor], TrainingProgress]:
        """The state and the progress that this rank continues from."""
        return from_bytes(content)

    def train(self) -> bytes:
        """Train to the end; return the last checkpoint.

        Messages are of kind ``begun``, ``news`` (the current step), ``epoch`` (a row of the table)
        and ``note``.

        Raises
        ------
        ProcessGroupError
            Another rank was lost.
        """
        group, progress = self._group, self._progress
        for tensor in self._model.state().values():  # first weights may differ in bits between GPUs
            self._equal_ranks.broadcast(tensor)
        self._keep()
        group.tally()
        self._tell({"kind": "begun", "step": progress.step, "n_weights": self._model.n_weights})
        self._began = time.perf_counter() - progress.seconds
        while not progress.done:
            self._epoch()
        loss, metric = self._tested()
        tested = {"test_loss": _finite(loss), "test_metric": _finite(metric)}
        progress.epochs[-1] = progress.epochs[-1] | tested
        return self._ended()

    def _ended(self) -> bytes:
        """Write the last checkpoint; return its content."""
        if self._group.rank == 0:
            self._write()
        return to_bytes(*self._point())

    def close(self) -> None:
        """End the processes that read rows ahead, if there are any."""
        if self._feed is not None:
            self._feed.close()

    def _measured(self, columns: Any) -> tuple[float, float]:
        """Mean loss and metric of rows that every rank has; each computes a part."""
        return self._problem.measure(self._model.network, columns, self._group)

    def _tested(self) -> tuple[float, float]:
        """Mean loss and metric of the test rows, by the network after its best epoch."""
        best = best_network(self._network, self._model.state() | self._best)
        return self._problem.measure(best, self._test, self._group)

    def _share_loss(self) -> None:
        """Sum over ranks the loss since the last shared step, and count it."""
        total = self._loss.clone()
        self._group.sum(total)
        self._count(total)

    def _epoch(self) -> None:
        progress, strategy, group = self._progress, self._strategy, self._group
        began = time.perf_counter()
        for batch in self._batches:
            self._step(batch, progress.step + 1)
            progress.step, progress.position = progress.step + 1, batch.position
            progress.seconds = time.perf_counter() - self._began
            if strategy.always_equal:
                self._write_in_time()
            if time.monotonic() - self._last_news >= SECONDS_BETWEEN_EVENTS:
                self._last_news = time.monotonic()
                self._tell({"kind": "news", "step": progress.step, "epoch": progress.epoch + 1})
        averaged = strategy.averages(progress.epoch)
        if averaged:
            self._average()
        self._share_loss()
        progress.loss = float(self._summed_loss)  # waits for the device to finish the epoch
        communication, wait = group.tally()
        epoch_seconds = time.perf_counter() - began
        progress.seconds = time.perf_counter() - self._began
        self._end_epoch(epoch_seconds, communication, wait, averaged or strategy.always_equal)

    def _average(self) -> None:
        """Average weights, statistics and the optimiser's state over all ranks."""
        for tensor in self._model.state().values():
            if tensor.is_floating_point():
                self._group.mean(tensor)

    def _step(self, batch: RankBatch, step: int) -> None:
        """Take one step of the optimiser, with this rank's gradient or that of all ranks."""
        model, group, n_mine = self._model, self._group, len(batch.rows)
        group.check()  # in a step without a sum nothing else notices that the group was stopped
        shares, always_equal = self._strategy.shares(step), self._strategy.always_equal
        if always_equal:
            self._equal_buffers = {name: buffer.clone() for name, buffer in model.buffers.items()}
        model.shared.zero_()
        if shares:
            self._buckets.begin()
        if n_mine:
            X = batch.columns["X"]
            image_seed, network_seed = seeds_of(self._plan.seed, step, group.rank)
            if self._options.augment != "none":
                X = self._problem.augmented(X, self._options.augment, image_seed)
            precise = self._autocast(group.device, self._options.precision)
            seeded = (
                self._drawing_from(network_seed, group.device) if self._draws else nullcontext()
            )
            with seeded, precise:
                outputs = model.network(X)
            loss = self._problem.loss(outputs.float(), batch.columns["y"])
            # Divided by the rows of the union batch, gradients of ranks add up to its mean.
            (loss / (batch.n_union if shares else n_mine)).backward()
            self._loss += loss.detach()
        if shares:
            model.loss.copy_(self._loss)
            if always_equal:
                model.put_statistics()
                self._buckets.end()
                model.take_statistics(group.n_ranks)
            else:
                self._buckets.end(model.n_statistics)
            self._count(model.loss)
        if shares or n_mine:  # without rows or a sum there is no gradient
            model.step(self._options.rate(step, group.n_ranks))
        self._equal_buffers = {}

    def _count(self, added: torch.Tensor) -> None:
        """Count a loss that was summed over all ranks."""
        self._summed_loss += added
        self._loss.zero_()

    def _end_epoch(
        self, epoch_seconds: float, communication: float, wait: float, equal: bool
    ) -> None:
        """Measure the losses after an epoch, decide whether to continue, and report.

        If ranks differ, the mean of their models is measured, and each rank continues with its own.

        Parameters
        ----------
        epoch_seconds, communication, wait : float
            Seconds of the epoch on this rank, in all and of its collectives.
        equal : bool
            Whether all ranks have the same weights.
        """
        progress, options, group, model = self._progress, self._options, self._group, self._model
        problem = self._problem
        times = self._torch.tensor(
            [epoch_seconds - communication - wait, wait], device=group.device
        )
        group.mean(times)
        compute, wait = times.tolist()
        last = progress.epoch + 1 >= options.epochs
        own_state: dict[str, torch.Tensor] = {}
        if not equal:
            own_state = {name: tensor.clone() for name, tensor in model.state().items()}
            self._average()
        loss, metric = self._measured(self._validation)
        improved = math.isfinite(loss) and (progress.best is None or loss < progress.best)
        if improved:
            progress.best = loss
            self._best = {
                f"{BEST}{name}": tensor.clone()
                for name, tensor in model.state().items()
                if name == "weights" or name.startswith("buffer ")
            }
        progress.since_best = 0 if improved else progress.since_best + 1
        row = {
            "epoch": progress.epoch + 1,
            "step": progress.step,
            "loss": float(self._summed_loss) / problem.n_train,
            "validation_loss": loss,
            "validation_metric": metric,
            "seconds": progress.seconds,
            "compute_seconds": compute,
            "communication_seconds": communication,
            "wait_seconds": wait,
            "n_ranks": group.n_ranks,
        }
        diverged = not math.isfinite(row["loss"]) or not math.isfinite(loss)
        if diverged:
            row = {name: value and _finite(value) for name, value in row.items()}
        progress.epochs = [*progress.epochs, row]
        progress.done = (
            last
            or diverged
            or (options.patience is not None and progress.since_best >= options.patience)
            or (options.until_loss is not None and loss <= options.until_loss)
        )
        progress.epoch, progress.position = progress.epoch + 1, 0
        self._summed_loss.zero_()
        if equal or progress.done or options.sync == "never":
            self._keep()
            self._write_in_time()
        if own_state and not progress.done:
            model.load(own_state)
        # Measuring is not training: neither its collectives nor its seconds count.
        group.tally()
        self._began = time.perf_counter() - progress.seconds
        self._tell({"kind": "epoch", **row})

    def _keep(self) -> None:
        """Keep a copy of this point, at which all ranks are equal, in memory."""
        if self._strategy.always_equal:
            return  # if a sum fails in a step, the weights are still those before it
        state, progress = self._point()
        self._kept_point = (
            {name: tensor.clone() for name, tensor in state.items()},
            replace(progress),
        )

    def _point(self) -> tuple[dict[str, torch.Tensor], TrainingProgress]:
        """The tensors and the progress that a checkpoint has at this point."""
        self._progress.loss = float(self._summed_loss)
        return self._model.state() | self._best, self._progress

    def kept_bytes(self) -> bytes | None:
        """A checkpoint of the last point at which all ranks were equal."""
        for name, buffer in self._equal_buffers.items():
            self._model.buffers[name].copy_(buffer)
        return to_bytes(*(self._kept_point or self._point()))

    def _write_in_time(self) -> None:
        """Write a checkpoint if this is rank 0 and the last is old enough."""
        if time.monotonic() - self._last_write >= self._options.checkpoint_seconds:
            if self._group.rank == 0:
                self._write()
            self._last_write = time.monotonic()  # anew, as a write may take longer than the period

    def _write(self) -> None:
        write_checkpoint(Path(self._plan.checkpoint), *self._point())


def seeds_of(seed: int, step: int, rank: int) -> tuple[int, int]:
    """The seeds for a rank's augmentation, and for its network's own draws, in a step."""
    words = np.random.SeedSequence((seed, step, rank)).generate_state(2, np.uint64)
    augmentation, network = (words >> np.uint64(1)).tolist()
    return augmentation, network


def _finite(value: float) -> float | None:
    """The number if JSON can hold it; None for NaN and infinities."""
    return value if math.isfinite(value) else None
