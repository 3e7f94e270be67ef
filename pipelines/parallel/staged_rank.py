"""A rank that has some stages of a network; the ranks of a pipeline have the whole of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from pipelines.data.batches import Columns, RankBatch, rank_slice
from pipelines.parallel.checkpoint import (
    StoredStages,
    TrainingProgress,
    progress_of,
    stage_file,
    to_bytes,
    write_checkpoint,
)
from pipelines.parallel.flat import BEST
from pipelines.parallel.options import Formation
from pipelines.parallel.process_group.group import ProcessGroup, ProcessGroupError
from pipelines.parallel.rank import Rank, Send, TrainingPlan, seeds_of
from pipelines.parallel.stages import staged
from pipelines.parallel.training_problem import CLASSES, TrainingProblem

if TYPE_CHECKING:
    from torch.distributed.pipelining.schedules import _PipelineSchedule

FILES_KEPT = 2  # of each rank: other ranks may not have written the files of the last step yet
NOBODY = -100  # target of a row that fills a micro-batch; cross-entropy ignores this class
LOST = ("gloo", "nccl", "connection", "timed out")  # words of torch's errors when a rank is lost


class StagedRank(Rank):
    """A rank of a pipeline, and of its peers: the ranks with the same stages of other pipelines.

    Peers sum their gradients; the ranks of a pipeline pass activations and their gradients on.
    A batch is split into micro-batches, whose gradients add up to that of the batch. Parameters are
    those of ``Rank``.
    """

    def __init__(
        self, problem: TrainingProblem, plan: TrainingPlan, group: ProcessGroup, send: Send
    ) -> None:
        self._formation = Formation.of(plan.options, group.n_ranks)
        pipeline, position = divmod(group.rank, self._formation.n_in_pipeline)
        first = pipeline * self._formation.n_in_pipeline
        self._pipeline_number = pipeline
        self._pipeline = group.part(range(first, first + self._formation.n_in_pipeline))
        self._peers = group.part(range(position, group.n_ranks, self._formation.n_in_pipeline))
        self._stage_numbers = self._formation.stages_of(position)
        self._is_first = 0 in self._stage_numbers
        self._is_last = self._formation.n_stages - 1 in self._stage_numbers
        self._n_union, self._busy = 1, 0.0
        self._written = list[Path]()
        super().__init__(problem, plan, group, send)
        self._equal_ranks = self._peers

    @property
    def _part(self) -> tuple[int, int]:
        return self._pipeline_number, self._formation.n_pipelines

    def _make_network(self) -> nn.Module:
        network, options = self._problem.network, self._plan.options
        self._staged_network = staged(network, options, self._formation, self._plan.seed)
        self._stages = [self._staged_network.stage(number) for number in self._stage_numbers]
        return nn.ModuleList(self._stages)

    def _network_draws(self) -> bool:
        return True

    def train(self) -> bytes:
        with ExitStack() as stack:
            self._schedule = self._make_schedule(stack.enter_context(self._pipeline.as_torch()))
            return super().train()

    def _make_schedule(self, torch_group: Any) -> _PipelineSchedule:
        from torch.distributed.pipelining import (
            PipelineStage,
            Schedule1F1B,
            ScheduleInterleaved1F1B,
        )

        n_rows, device = self._formation.n_rows, torch.device(self._group.device)
        stages: Any = []
        for number, network in zip(self._stage_numbers, self._stages, strict=True):
            layers = self._staged_network.stages[number]
            # With the shapes at both ends torch need not infer them by messages in the first step.
            ends = [
                torch.empty(n_rows, *self._staged_network.shapes[index], device="meta")
                for index in (layers.start, layers.stop)
            ]
            ends[0].requires_grad_(number > 0)
            ends[1].requires_grad_()
            stage = PipelineStage(
                network,
                number,
                self._formation.n_stages,
                device,
                input_args=(ends[0],),
                output_args=(ends[1],),
                group=torch_group,
            )
            self._time(stage)
            stages.append(stage)
        schedule_class = Schedule1F1B if len(stages) == 1 else ScheduleInterleaved1F1B
        return schedule_class(
            stages[0] if len(stages) == 1 else stages,
            self._formation.n_micro,
            loss_fn=self._loss_of,
            scale_grads=False,  # ``_loss_of`` divides by the rows of the union batch
        )

    def _time(self, stage: Any) -> None:
        """Count the seconds in which a stage computes; a pipeline's rank waits in all others."""

        def timed(method: Any, *args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            result = method(*args, **kwargs)
            self._busy += time.perf_counter() - began
            return result

        for name in ("forward_one_chunk", "backward_one_chunk"):
            setattr(stage, name, partial(timed, getattr(stage, name)))

    def _loss_of(self, outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        real = y != NOBODY if self._problem.task == CLASSES else ~y.isnan()
        return self._problem.loss(outputs[real].float(), y[real]) / self._n_union

    def _step(self, batch: RankBatch, step: int) -> None:
        model, losses = self._model, list[torch.Tensor]()
        self._group.check()
        model.shared.zero_()
        self._n_union = batch.n_union
        image_seed, _ = seeds_of(self._plan.seed, step, self._pipeline_number)
        _, network_seed = seeds_of(self._plan.seed, step, self._group.rank)
        columns = batch.columns
        if self._is_first and self._options.augment != "none" and len(batch.rows):
            X = self._problem.augmented(columns["X"], self._options.augment, image_seed)
            columns = {**columns, "X": X}
        with self._drawing_from(network_seed, self._group.device):
            for X, y, _ in self._rounds(columns):
                self._run(self._schedule.step, X, y, losses)
        if losses:
            model.loss.copy_(torch.stack(losses).detach().sum() * batch.n_union)
        model.put_statistics()
        self._peers.sum(model.shared)
        model.take_statistics(self._peers.n_ranks)
        self._count(model.loss)
        began = time.perf_counter()
        model.step(self._options.rate(step, self._formation.n_pipelines))
        self._busy += time.perf_counter() - began

    def _rounds(self, columns: Columns) -> Any:
        """Rows and targets for one run of the schedule each, and how many of the rows are real.

        torch's schedules need micro-batches of equal size. So a last run is filled up with rows
        that repeat, whose targets the loss ignores.
        """
        n_rows = self._formation.n_rows * self._formation.n_micro
        if not len(columns["y"]):
            return
        fill_target = NOBODY if self._problem.task == CLASSES else float("nan")
        for X, y in zip(columns["X"].split(n_rows), columns["y"].split(n_rows), strict=True):
            n_real = len(y)
            if n_real < n_rows:
                X = X[torch.arange(n_rows, device=X.device) % n_real]
                y = torch.cat([y, y.new_full((n_rows - n_real,), fill_target)])
            yield X, y, n_real

    def _run(self, run: Any, X: torch.Tensor, y: torch.Tensor, losses: list[torch.Tensor]) -> Any:
        try:
            return run(
                *((X,) if self._is_first else ()),
                target=y if self._is_last else None,
                losses=losses if self._is_last else None,
            )
        except RuntimeError as error:
            if not any(word in str(error).lower() for word in LOST):
                raise
            self._group.abort()
            raise ProcessGroupError(str(error).splitlines()[0]) from None

    def _share_loss(self) -> None:
        self._pipeline.sum(self._summed_loss)  # only the rank of the last stage has it

    def _measured(self, columns: Columns) -> tuple[float, float]:
        problem, group = self._problem, self._group
        n_rows, sums = len(columns["y"]), torch.zeros(2, device=group.device)
        part = rank_slice(n_rows, *self._part)
        self._network.eval()
        with torch.no_grad():
            rows = problem.prepare({name: column[part].clone() for name, column in columns.items()})
            for X, y, n_real in self._rounds(rows):
                outputs = self._run(self._schedule.eval, X, y, [])
                if self._is_last:
                    sums += problem.sums(outputs[:n_real], y[:n_real])
        self._network.train()
        group.sum(sums)
        loss, metric = (sums / max(1, n_rows)).tolist()
        return loss, metric

    def _tested(self) -> tuple[float, float]:
        model, state = self._model, self._model.state()
        best = {name[len(BEST) :]: tensor for name, tensor in self._best.items()}
        last = {name: state[name].clone() for name in best}
        model.load(state | best)
        tested = self._measured(self._test)
        model.load(state | last)
        return tested

    # torch does not tell messages from waiting: all that a rank does not compute counts as waiting.
    def _end_epoch(
        self, epoch_seconds: float, communication: float, wait: float, equal: bool
    ) -> None:
        busy, self._busy = self._busy, 0.0
        super()._end_epoch(epoch_seconds, 0.0, max(0.0, epoch_seconds - busy), equal)

    def _start(self, content: bytes) -> tuple[dict[str, torch.Tensor], TrainingProgress]:
        stored, progress = StoredStages(Path(self._plan.checkpoint)), progress_of(content)
        state = {name: tensor.clone() for name, tensor in self._model.state().items()}
        if progress.best is not None:
            state |= {
                f"{BEST}{name}": tensor.clone()
                for name, tensor in state.items()
                if name == "weights" or name.startswith("buffer ")  # none of the optimiser's
            }
        for name, view in self._by_name(state):
            view.copy_(stored[name])
        if not self._is_last:  # the losses of all ranks of the pipeline are summed
            progress.loss = 0.0
        return state, progress

    def _by_name(self, state: Mapping[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
        """The tensors of a state, each weight under the name that it has in the whole network.

        With these names another formation can read the files: after a loss, ranks have other
        stages.
        """
        names = dict(self._staged_network.names_of(self._network))
        parameters = dict(self._network.named_parameters())
        for key, tensor in state.items():
            prefix, _, local = key.rpartition("buffer ")
            if local in names and prefix != key:
                yield f"{prefix}buffer {names[local]}", tensor
            elif tensor.ndim:
                pieces = tensor.split([parameter.numel() for parameter in parameters.values()])
                for name, piece in zip(parameters, pieces, strict=True):
                    yield f"{key} {names[name]}", piece.view_as(parameters[name])
            else:
                yield key, tensor

    def kept_bytes(self) -> None:
        """Return None: the next process group continues from the files of the stages."""

    def _write_in_time(self) -> None:
        if self._pipeline_number:
            return
        # The first rank decides for all: a checkpoint needs files of all ranks from the same step.
        seconds = self._options.checkpoint_seconds
        due = torch.tensor([float(time.monotonic() - self._last_write >= seconds)])
        self._pipeline.broadcast(due.to(self._group.device))
        if due.item():
            self._write()
            self._last_write = time.monotonic()

    def _ended(self) -> bytes:
        self._write()
        return to_bytes({}, self._progress)

    def _write(self) -> None:
        """Write the file of this rank's stages; only the first pipeline does, as all are equal."""
        if self._pipeline_number:
            return
        state, progress = self._point()
        path = Path(self._plan.checkpoint)
        file = stage_file(path, progress.step, self._pipeline.rank, self._pipeline.n_ranks)
        write_checkpoint(file, dict(self._by_name(state)), progress)
        # The other ranks may not have written theirs yet, so the file before is still needed.
        self._written = [*(old_file for old_file in self._written if old_file != file), file]
        while len(self._written) > FILES_KEPT:
            self._written.pop(0).unlink(missing_ok=True)
