"""Steps that a GPU repeats without being told each of their kernels anew.

A step of small networks is some dozens of kernels, which a GPU is done with long before Python has
launched them: of the time of a step of eight CNNs for MNIST an H100 was busy for a fifth. Recorded
as a CUDA graph, a step is one launch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

STEPS_BEFORE = 3  # in which libraries choose kernels and take what memory they want


class RecordedStep:
    """A step that is recorded on a GPU, and repeated as a whole.

    Its first calls are made as they are, and so are all of them on a CPU. What it computes does
    not depend on whether it is recorded.

    Parameters
    ----------
    step : function of tensors that gives a tensor or None
        It must do the same at every call but for what tensors hold, whose shapes stay, and wait
        for nothing that the device computes.
    device : where it computes
    """

    def __init__(self, step: Callable[..., Any], device: torch.device) -> None:
        import torch

        self._step, self._n_calls = step, 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._stream: torch.cuda.Stream | None = None
        # An allocator of another library, such as RMM's, has no memory for graphs.
        if device.type == "cuda" and torch.cuda.get_allocator_backend() != "pluggable":
            self._stream = torch.cuda.Stream(device)

    def __call__(self, *arguments: torch.Tensor) -> Any:
        """Make the step; a tensor that it gives is overwritten by the next one."""
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
        """Make the step on the stream that it is recorded on, as torch asks of what is recorded."""
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
