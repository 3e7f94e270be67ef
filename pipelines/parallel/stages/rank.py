"""One rank of a pipeline: its stages' part of every step."""

from __future__ import annotations

import copy
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pipelines.data.batches import Batch
from pipelines.parallel.flat import FlatModel, with_weights
from pipelines.parallel.problem import CLASSES, Problem
from pipelines.parallel.rank import Rank, Send, TrainingPlan
from pipelines.parallel.stages.bubble import (
    BACKWARD,
    BY_INPUTS,
    BY_WEIGHTS,
    FORWARD,
    WIDTH,
    Actions,
    most_kept,
    split,
)
from pipelines.parallel.stages.cuts import balanced, blocks_of, seconds_of
from pipelines.parallel.strategies import TrainingStep
from pipelines.process_group.group import Group, ProcessGroupError

if TYPE_CHECKING:
    import torch

STEPS_LOOKED_AT = 64  # the last of an epoch, whose actions are compared
NOBODY = -100  # the class of a row that fills up a micro-batch; a number is then not one


class StagedRank(Rank):
    """A rank that has some stages of the network; the ranks' stages together are all of it.

    A batch is cut into micro-batches of one size; the last of an epoch is filled up with rows
    that count nothing. Gradients are those of one process on the whole batch.
    """

    def __init__(self, problem: Problem, order: TrainingPlan, group: Group, send: Send) -> None:
        plan = order.options.pipeline()
        assert plan is not None
        self._plan = plan.among(group.n_ranks)
        self._in_micro = -(-order.options.batch_size // self._plan.n_micro)
        self._n_union, self._filled = 0, False
        self._steps: list[Actions] = []
        self._is_first_step = True
        self._whole_state: dict[str, torch.Tensor] | None = None
        super().__init__(problem, order, group, send)

    def train(self) -> bytes:
        with ExitStack() as stack:
            self._make_schedule(stack.enter_context(self._group.as_torch()))
            return super().train()

    def _place(self) -> tuple[int, int]:
        return 0, 1  # all ranks see all rows

    def _make_model(self, network: torch.nn.Module, optimizer: str) -> StagedModel:
        """Measure the layers, cut, and keep one's own."""
        plan, group, problem = self._plan, self._group, self._problem
        blocks = blocks_of(network, problem.network.name, plan.n_stages)
        tried: Any = copy.deepcopy(network)  # its running means are nobody's
        parts = [tried[block.start : block.stop] for block in blocks]
        some = np.arange(self._in_micro) % len(problem.validation["y"])
        rows = {name: self._torch.from_numpy(one[some]) for name, one in problem.validation.items()}
        prepared = problem.prepare(rows)
        self._example = prepared["X"]

        def loss(outputs: torch.Tensor) -> torch.Tensor:
            return problem.loss(outputs, prepared["y"])

        times, kind = seconds_of(parts, self._example, loss), self._torch.float64
        seconds = self._torch.tensor(times, dtype=kind)
        group.mean(seconds)
        of_stages = balanced(seconds.tolist(), plan.n_stages)
        self._stages = [
            range(blocks[some.start].start, blocks[some.stop - 1].stop) for some in of_stages
        ]
        self._expected = [sum(seconds[some.start : some.stop].tolist()) for some in of_stages]
        self._mine = plan.stages_of(group.rank)
        self._measure_activations(tried)
        return StagedModel(
            cast(Any, network), [self._stages[s] for s in self._mine], optimizer,
            self._options.momentum, group.device,
        )  # fmt: skip

    def _measure_activations(self, tried: Any) -> None:
        """Return the bytes that each stage keeps of a micro-batch, and those sent to the next."""
        self._between, self._n_bytes = [self._example], dict[int, float]()
        for s, layers in enumerate(self._stages):
            part = tried[layers.start : layers.stop]
            given = self._between[-1].detach()
            outputs, n_bytes = _kept_by(part, given.requires_grad_(s > 0))
            self._n_bytes[s] = float(n_bytes)
            self._between.append(outputs.detach().requires_grad_())

    def _make_schedule(self, torch_group: Any) -> None:
        from torch.distributed.pipelining import PipelineStage

        self._actions: list[tuple[int, int, int, float, float]] = []
        stages = []
        assert isinstance(self._model, StagedModel)
        for s, network in zip(self._mine, self._model.stages, strict=True):
            stage = PipelineStage(
                network, s, self._plan.n_stages, self._torch.device(self._group.device),
                input_args=self._between[s], output_args=self._between[s + 1], group=torch_group,
            )  # fmt: skip
            _record_actions(stage, self._actions)
            stages.append(stage)
        self._is_first = 0 in self._mine
        self._is_last = self._plan.n_stages - 1 in self._mine
        self._schedule = self._plan.make(stages, self._loss_of)

    def _loss_of(self, outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if self._filled:
            real = y >= 0 if self._problem.task == CLASSES else ~y.isnan()
            outputs, y = outputs[real], y[real]
        return self._problem.loss(outputs, y) / self._n_union

    def _make_equal(self) -> None:
        """Do nothing: each weight is in one rank only."""

    def _step(self, batch: Batch, now: TrainingStep) -> None:
        model = self._model
        self._write_if_due()
        model.shared.zero_()
        X, y = self._filled_up(batch)
        losses: list[torch.Tensor] = []
        given = (X,) if self._is_first else ()
        self._actions.clear()
        began = time.perf_counter()
        try:
            self._schedule.step(
                *given, target=y if self._is_last else None,
                losses=losses if self._is_last else None, return_outputs=False,
            )  # fmt: skip
        except RuntimeError as error:
            raise self._broken(error) from None
        if losses:
            self._loss += self._torch.stack(losses).detach().sum() * batch.n_union
        if not self._is_first_step:  # in which sockets open and buffers are made
            actions = np.array(self._actions).reshape(-1, WIDTH)
            actions[:, 3:] -= began
            self._steps = [*self._steps, actions][-STEPS_LOOKED_AT:]
        self._is_first_step = False
        model.step(self._options.rate(now.step, 1))

    def _broken(self, error: RuntimeError) -> Exception:
        """Turn a missing message into the loss of a rank; any other error is the work's."""
        text = str(error)
        if not any(word in text for word in ("gloo", "Connection", "Timed out", "timed out")):
            return error
        self._group.abort()
        return ProcessGroupError(text.splitlines()[0])

    def _filled_up(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a batch of as many rows as all micro-batches have."""
        X, y = batch.columns["X"], batch.columns["y"]
        missing = self._in_micro * self._plan.n_micro - len(y)
        self._n_union, self._filled = batch.n_union, missing > 0
        if missing:
            nobody = NOBODY if self._problem.task == CLASSES else float("nan")
            X = self._torch.cat([X, X[:1].expand(missing, *X.shape[1:])])
            y = self._torch.cat([y, y.new_full((missing,), nobody)])
        return X, y

    def _end_epoch(self, spent: float, communication: float, wait: float, equal: bool) -> None:
        steps = self._all_steps()
        if steps:
            found = split(steps, self._plan.ideal_bubble)
            communication = spent * max(0.0, found.communication)
            wait = max(0.0, spent * found.measured - communication)
            self._tell({"kind": "stages", **self._account(steps), **asdict(found)})
        super()._end_epoch(spent, communication, wait, equal)

    def _all_steps(self) -> list[list[Actions]]:
        """Return the actions of every rank, of the last steps."""
        import torch.distributed as dist

        of_ranks: list[Any] = [None] * self._group.n_ranks
        try:
            dist.all_gather_object(of_ranks, self._steps)
        except RuntimeError as error:
            raise self._broken(error) from None
        self._steps = []
        return [list(step) for step in zip(*of_ranks, strict=True)]

    def _account(self, steps: Sequence[Sequence[Actions]]) -> dict[str, Any]:
        """Return what the report shows beside idle time: cuts, memory, and one step's trace."""
        plan = self._plan
        names = [name for name, _ in self._network.named_children()]
        kept = [most_kept(one, self._n_bytes) for one in steps[-1]]
        lengths = [max(float(one[:, 4].max()) for one in step) for step in steps]
        usual = steps[int(np.argsort(lengths)[len(lengths) // 2])]
        return {
            "schedule": plan.schedule,
            "n_ranks": plan.n_ranks,
            "micro_batches": plan.n_micro,
            "rows_of_micro_batch": self._in_micro,
            "ideal": plan.ideal_bubble,
            "stages": [
                {"rank": r, "layers": f"{names[some.start]} to {names[some.stop - 1]}",
                 "seconds": self._expected[s], "activation_bytes": self._n_bytes[s]}
                for s, some in enumerate(self._stages)
                for r in range(plan.n_ranks) if s in plan.stages_of(r)
            ],
            "kept": [{"micro_batches": count, "bytes": n_bytes} for count, n_bytes in kept],
            "usual_step": [[[float(x) for x in row] for row in one] for one in usual],
        }  # fmt: skip

    def _measure(self, columns: dict[str, torch.Tensor]) -> tuple[float, float]:
        """Put the network together; each rank has a part of the rows."""
        assert isinstance(self._model, StagedModel)
        self._whole_state = self._model.whole(self._group)
        whole = with_weights(self._network, self._whole_state)
        return self._problem.measure(whole, columns, self._group)

    def _state(self) -> dict[str, torch.Tensor]:
        """Return the state of the whole network, as it was last put together."""
        assert self._whole_state is not None
        return self._whole_state

    def _keep(self) -> None:
        if self._whole_state is not None:
            self._kept = self._state() | self._best, replace(self._progress)

    def kept_bytes(self) -> bytes | None:
        """Return the whole network, as it was put together last; None before that."""
        return None if self._kept is None else super().kept_bytes()

    def _write_in_time(self) -> None:
        """Write nothing after a step: the whole network is in no rank."""

    def _write_if_due(self) -> None:
        """Begin a step together, and put the network together where rank 0 asks for it."""
        due = time.monotonic() - self._last_write >= self._options.checkpoint_seconds
        due_at_rank_0 = self._torch.tensor([float(due and self._group.rank == 0)])
        self._group.sum(due_at_rank_0)
        if not due_at_rank_0.item():
            return
        assert isinstance(self._model, StagedModel)
        self._add_up_loss()
        self._whole_state = self._model.whole(self._group)
        self._keep()
        self._write_if_first()
        self._group.sum(due_at_rank_0)  # rank 0 has written


def _record_actions(stage: Any, actions: list[tuple[int, int, int, float, float]]) -> None:
    """Have torch's stage record its actions in order: kind, stage, micro-batch, start, end."""

    def record(name: str, kind: int) -> None:
        method = getattr(stage, name)

        def timed(micro: int, *args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            found = method(micro, *args, **kwargs)
            # The backward of a zero-bubble schedule is cut in two: this is then its first half.
            half = kind == BACKWARD and not kwargs.get("full_backward", True)
            done = BY_INPUTS if half else kind
            actions.append((done, stage.stage_index, micro, began, time.perf_counter()))
            return found

        setattr(stage, name, timed)

    record("forward_one_chunk", FORWARD)
    record("backward_one_chunk", BACKWARD)
    record("backward_weight_one_chunk", BY_WEIGHTS)


class StagedModel(FlatModel):
    """The layers of a rank's stages, with the optimiser of their weights alone.

    Parameters
    ----------
    network : torch.nn.Sequential
        The whole; its other layers are left as they are.
    mine : layers of each of the rank's stages, by place
    optimizer, momentum, device : see ``FlatModel``

    Attributes
    ----------
    stages : the rank's stages as networks, in the order of ``mine``
    """

    def __init__(
        self, network: torch.nn.Sequential, mine: Sequence[range], optimizer: str,
        momentum: float, device: str,
    ) -> None:  # fmt: skip
        from torch import nn

        layers = list(network.named_children())
        own = OrderedDict(layers[i] for some in mine for i in some)
        super().__init__(nn.Sequential(own), optimizer, momentum, device)
        self.stages = [nn.Sequential(OrderedDict(layers[i] for i in some)) for some in mine]
        self._sizes = [sum(one.numel() for one in layer.parameters()) for _, layer in layers]
        self._mine = [i for some in mine for i in some]
        self._buffers_of_all = {
            f"buffer {name}": one
            for name, one in network.named_buffers()
            if one.is_floating_point()
        }

    @property
    def n_weights(self) -> int:
        """The number of weights of the whole network."""
        return sum(self._sizes)

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Load this rank's part of a whole network's state."""
        for name, one in self.state().items():
            if one.ndim == 0 or name.startswith("buffer"):
                one.copy_(state[name])
                continue
            for own, whole in self._layers_in(one, state[name]):
                own.copy_(whole)

    def whole(self, group: Group) -> dict[str, torch.Tensor]:
        """Return the state of the whole network, on every rank; raises as ``Group.sum``."""
        import torch

        mine, found = self.state(), dict[str, torch.Tensor]()
        for name, one in mine.items():
            if name.startswith("buffer"):
                continue
            if one.ndim == 0:  # a count of steps
                found[name] = one.clone()
                continue
            found[name] = torch.zeros(self.n_weights, dtype=one.dtype, device=one.device)
            for own, whole in self._layers_in(one, found[name]):
                whole.copy_(own)
            group.sum(found[name])
        for name, like in self._buffers_of_all.items():
            found[name] = mine[name].clone() if name in mine else torch.zeros_like(like)
            group.sum(found[name])
        return found

    def _layers_in(
        self, own: torch.Tensor, whole: torch.Tensor
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Return views of each layer of this rank: in its own vector, and in the whole one."""
        layers = whole.split(self._sizes)
        own_layers = own.split([self._sizes[i] for i in self._mine])
        return zip(own_layers, [layers[i] for i in self._mine], strict=True)


def _kept_by(part: torch.nn.Module, given: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Return a stage's output of a micro-batch, and the bytes kept for backward."""
    from torch.autograd.graph import saved_tensors_hooks

    weights = {one.untyped_storage().data_ptr() for one in part.parameters()}
    kept: dict[int, int] = {}

    def note(one: torch.Tensor) -> torch.Tensor:
        storage = one.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return one

    with saved_tensors_hooks(note, lambda one: one):
        outputs = part(given)
    return outputs, sum(kept.values())
