"""A stack's step, on a GPU recorded once as a CUDA graph and replayed.

A small network's step is some twenty kernels of a few microseconds each; launched
one by one they wait for Python. The recording replays them in one launch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.nn.by_hand import StackedWeights

if TYPE_CHECKING:
    import torch

EAGER_STEPS = 3  # before recording: libraries choose and set up their kernels in them


class Stepper:
    """Steps of one stack on full batches."""

    def __init__(self, stack: StackedWeights, batch_size: int) -> None:
        import torch

        self._stack = stack
        self._graph: torch.cuda.CUDAGraph | None = None
        self._on_gpu = stack.loss.is_cuda
        self._steps = 0
        if self._on_gpu:
            self._batch = torch.zeros(
                stack.n_slots, batch_size, dtype=torch.int64, device=stack.loss.device
            )
            self._stream = torch.cuda.Stream(stack.loss.device)

    def step(self, batch: torch.Tensor) -> None:
        """Make one step; see ``StackedWeights.step``."""
        if not self._on_gpu:
            self._stack.step(batch)
        elif self._graph is None:
            self._begin(batch)
        else:
            self._batch.copy_(batch)
            self._graph.replay()
            self._stack.count_step()

    def _begin(self, batch: torch.Tensor) -> None:
        """Make a first step on the recording stream, then record the graph."""
        import torch

        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            self._batch.copy_(batch)
            self._stack.step(self._batch)
        torch.cuda.current_stream().wait_stream(self._stream)
        self._steps += 1
        if self._steps == EAGER_STEPS:
            graph = torch.cuda.CUDAGraph()
            # Recording computes nothing, so that no step is done twice. What other threads
            # of a worker ask of the driver meanwhile, memory say, is no fault of this one.
            recording = torch.cuda.graph(
                graph, stream=self._stream, capture_error_mode="thread_local"
            )
            with recording:
                self._stack.compute(self._batch)
            self._graph = graph
