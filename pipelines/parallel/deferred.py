"""A network whose weights are made where they are asked for, each as if all had been made before.

It is built of torch's fake tensors, which have a shape and no memory. What would have been done to
each is kept, with the state of the generator of random numbers where it draws: so a part of the
network has, to the bit, the first weights that it has in the whole. (On torch's ``meta`` device
some of ``torch.nn.init`` draws nothing, and says nothing of it.)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    FakeTensor,
    FakeTensorMode,
    unset_fake_temporarily,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class UnknownWeightsError(ValueError):
    """A weight is made of others, or of numbers that a tensor without memory does not have."""


class DeferredStep(NamedTuple):
    """What is done to a tensor.

    Attributes
    ----------
    operator : one of torch's; None where it takes numbers of other fake tensors
    view : size, stride and offset of the part that is changed; None where the tensor is made
    state : of the generator before; None where nothing is drawn
    """

    operator: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    view: tuple[Any, Any, Any] | None
    state: torch.Tensor | None

    def __call__(self, tensor: torch.Tensor | None = None) -> torch.Tensor:
        """Do it on the host to what is there; return the tensor."""
        if self.state is not None:
            torch.set_rng_state(self.state)
        if self.view is None:
            return self.operator(*self.arguments, **self.keywords)
        assert tensor is not None
        self.operator(tensor.as_strided(*self.view), *self.arguments, **self.keywords)
        return tensor


class _Recorder(TorchDispatchMode):
    """Keeps the steps of fake tensors, and draws what each would draw."""

    def __init__(self) -> None:
        super().__init__()
        self._steps = dict[int, list[DeferredStep]]()
        self._storages = list[Any]()  # known by their addresses, so none may go

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        draws = torch.Tag.nondeterministic_seeded in operator.tags
        state = torch.get_rng_state() if draws else None
        result, keywords = operator(*args, **(kwargs or {})), dict(kwargs or {})
        if not isinstance(result, FakeTensor):
            return result
        is_change = operator._schema.is_mutable and isinstance(args[0], FakeTensor)
        leaves = tree_leaves([args[1:] if is_change else args, keywords])
        if any(isinstance(leaf, FakeTensor) for leaf in leaves):
            if is_change:
                self._steps_of(result).append(DeferredStep(None, (), {}, None, None))
            return result  # a view, whose steps are those of its storage, or what nobody can make
        view: tuple[Any, Any, Any] | None = None
        arguments, scratch = args, None
        if is_change:
            view, arguments = (result.size(), result.stride(), result.storage_offset()), args[1:]
        step = DeferredStep(operator, arguments, keywords, view, state)
        self._steps_of(result).append(step)
        if draws:  # a tensor of that shape, whose numbers are forgotten
            with unset_fake_temporarily():
                if is_change:
                    scratch = torch.empty_strided(result.size(), result.stride())
                    step = step._replace(view=(result.size(), result.stride(), 0))
                step(scratch)
        return result

    def _steps_of(self, tensor: torch.Tensor) -> list[DeferredStep]:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._steps:
            self._storages.append(storage)
        return self._steps.setdefault(storage._cdata, [])

    def materialise(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor on the host, as it would be after all its steps; a real one itself."""
        if not isinstance(tensor, FakeTensor):
            return tensor.detach()
        first, *changes = self._known_steps(tensor)
        full_tensor = first().clone()
        for change in changes:
            full_tensor = change(full_tensor)
        return full_tensor.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())

    def refuse_unknown(self, tensor: torch.Tensor) -> None:
        """Raise UnknownWeightsError for a tensor that cannot be made by itself."""
        if isinstance(tensor, FakeTensor):
            self._known_steps(tensor)

    def _known_steps(self, tensor: torch.Tensor) -> list[DeferredStep]:
        steps = self._steps.get(tensor.untyped_storage()._cdata, [])
        if not steps or steps[0].view is not None or None in [step.operator for step in steps]:
            raise UnknownWeightsError("a weight is made of others")
        return steps


class DeferredNetwork:
    """A network without memory for its weights, and what makes those of a part of it.

    Parameters
    ----------
    make : function that builds it, on the host by itself

    Attributes
    ----------
    network : of fake tensors; of real ones where weights are made of others, or of their numbers
    is_whole : whether it is of real ones
    """

    def __init__(self, make: Callable[[], nn.Module]) -> None:
        self._recorder, self._fakes = _Recorder(), FakeTensorMode(allow_non_fake_inputs=True)
        self.is_whole = False
        try:
            with self._fakes, self._recorder:
                self.network = make()
            for tensor in (*self.network.parameters(), *self.network.buffers()):
                self._recorder.refuse_unknown(tensor)
        except (UnknownWeightsError, DataDependentOutputException):
            self.network, self.is_whole = make(), True

    @contextmanager
    def without_numbers(self) -> Iterator[None]:
        """Whatever is computed in the block has shapes alone."""
        with self._fakes, torch.no_grad():
            log = logging.getLogger(fake_tensor.__name__)
            log.addFilter(_nothing)  # an error is raised, and need not be written, too
            try:
                yield
            finally:
                log.removeFilter(_nothing)

    def make(self, part: nn.Module) -> None:
        """Give a module of the network, in place, the weights and buffers that it would have."""
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            for module in part.modules():
                for name, tensor in tensors_of(module).items():
                    replace_tensor(module, name, tensor, self._recorder.materialise(tensor))


def tensors_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """The weights and buffers of a module, without those of its own modules."""
    weights = dict(module.named_parameters(recurse=False))
    return weights | dict(module.named_buffers(recurse=False))


def replace_tensor(module: nn.Module, name: str, old: torch.Tensor, new: torch.Tensor) -> None:
    """Give a module another tensor of a kind: weights for weights, a buffer for a buffer."""
    is_weight = isinstance(old, nn.Parameter)
    setattr(module, name, nn.Parameter(new, old.requires_grad) if is_weight else new)


def _nothing(record: logging.LogRecord) -> bool:
    return False
