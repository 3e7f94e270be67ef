"""torch's stage of a pipeline, with a clock at each of its actions."""

from __future__ import annotations

import time
from typing import Any

from torch.distributed.pipelining import PipelineStage

from pipelines.parallel.stages.bubble import BACKWARD, BY_INPUTS, BY_WEIGHTS, FORWARD


class StageTrace:
    """The actions of a rank in order: kind, stage, micro-batch, start and end."""

    def __init__(self) -> None:
        self.open()

    def open(self) -> None:
        """Begin a step now."""
        self.rows: list[tuple[int, int, int, float, float]] = []
        self._zero = time.perf_counter()

    def enter(self, kind: int, stage: int, micro: int, began: float) -> None:
        """Record the end of an action."""
        now = time.perf_counter() - self._zero
        self.rows.append((kind, stage, micro, began - self._zero, now))


class TimedStage(PipelineStage):
    """A stage that writes a diary."""

    diary: StageTrace

    def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        outputs = super().forward_one_chunk(fwd_chunk_id, *args, **kwargs)
        self.diary.enter(FORWARD, self.stage_index, fwd_chunk_id, began)
        return outputs

    def backward_one_chunk(
        self, bwd_chunk_id: int, loss: Any = None, full_backward: bool = True,
        last_backward: bool = False,
    ) -> Any:  # fmt: skip
        began = time.perf_counter()
        found = super().backward_one_chunk(bwd_chunk_id, loss, full_backward, last_backward)
        kind = BACKWARD if full_backward else BY_INPUTS
        self.diary.enter(kind, self.stage_index, bwd_chunk_id, began)
        return found

    def backward_weight_one_chunk(self, bwd_chunk_id: int, last_backward: bool = False) -> Any:
        began = time.perf_counter()
        found = super().backward_weight_one_chunk(bwd_chunk_id, last_backward)
        self.diary.enter(BY_WEIGHTS, self.stage_index, bwd_chunk_id, began)
        return found
