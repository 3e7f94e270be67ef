"""torch's stage of a pipeline, with a clock at each of its actions."""

from __future__ import annotations

import time
from typing import Any

from torch.distributed.pipelining import PipelineStage

from pipelines.parallel.stages.bubble import BACKWARD, BY_INPUTS, BY_WEIGHTS, FORWARD


class TimedStage(PipelineStage):
    """A stage that records its actions in order: kind, stage, micro-batch, start and end."""

    actions: list[tuple[int, int, int, float, float]]

    def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        outputs = super().forward_one_chunk(fwd_chunk_id, *args, **kwargs)
        self._note(FORWARD, fwd_chunk_id, began)
        return outputs

    def backward_one_chunk(
        self, bwd_chunk_id: int, loss: Any = None, full_backward: bool = True,
        last_backward: bool = False,
    ) -> Any:  # fmt: skip
        began = time.perf_counter()
        found = super().backward_one_chunk(bwd_chunk_id, loss, full_backward, last_backward)
        self._note(BACKWARD if full_backward else BY_INPUTS, bwd_chunk_id, began)
        return found

    def backward_weight_one_chunk(self, bwd_chunk_id: int, last_backward: bool = False) -> Any:
        began = time.perf_counter()
        found = super().backward_weight_one_chunk(bwd_chunk_id, last_backward)
        self._note(BY_WEIGHTS, bwd_chunk_id, began)
        return found

    def _note(self, kind: int, micro: int, began: float) -> None:
        self.actions.append((kind, self.stage_index, micro, began, time.perf_counter()))
