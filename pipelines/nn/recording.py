"""Training steps recorded as CUDA graphs.

A step of small networks launches some dozens of kernels, and a GPU finishes them faster than Python
launches them: an H100 was busy for a fifth of the time of a step of eight CNNs for MNIST. Recorded
as a CUDA graph, a step is one launch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

STEPS_BEFORE = 3  # not recorded, as libraries choose their kernels and allocate memory in them


class RecordedStep:
    """A step that a GPU records and then replays as a whole.

    The first calls, and on a CPU all calls, run unrecorded. Results do not depend on whether the
    step is recorded.

    Parameters
    ----------
    step : function of tensors that returns a tensor or None
        Every call must launch the same kernels on tensors of the same shapes, and must not wait for
        the device.
    device : torch.device
    """

    def __init__(self, step: Callable[..., Any], device: torch.device) -> None:
        import torch

        self._step, self._n_calls = step, 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._stream: torch.cuda.Stream | None = None
        # A pluggable allocator, such as RMM's, cannot provide the private memory of a graph.
        if device.type == "cuda" and torch.cuda.get_allocator_backend() != "pluggable":
            self._stream = torch.cuda.Stream(device)

    def __call__(self, *arguments: torch.Tensor) -> Any:
        """Take the step; the next call overwrites the tensor that it returns."""
        if self._stream is None:
            return self._step(*arguments)
        self._n_calls += 1
        if self._n_calls <= STEPS_BEFORE:
            return self._beside(self._stream, arguments)
        if self._graph is None:
            self._graph = self._record(self._stream, arguments)
        for buffer, argument in zip(self._arguments, arguments, strict=True):
            buffer.copy_(argument)
        self._graph.replay()
        return self._result

    def _beside(self, stream: torch.cuda.Stream, arguments: tuple[torch.Tensor, ...]) -> Any:
        """Take the step on the recording stream, as torch demands before a recording."""
        import torch

        here = torch.cuda.current_stream()
        stream.wait_stream(here)
        with torch.cuda.stream(stream):
            result = self._step(*arguments)
        here.wait_stream(stream)
        return result

    def _record(
        self, stream: torch.cuda.Stream, arguments: tuple[torch.Tensor, ...]
    ) -> torch.cuda.CUDAGraph:
        import torch

        self._arguments = [argument.clone() for argument in arguments]
        graph = torch.cuda.CUDAGraph()
        # Other threads of the process may use the device meanwhile.
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            self._result = self._step(*self._arguments)
        return graph
