"""A network whose weights are materialised part by part, with the values they have in the whole.

It is built of torch's fake tensors, which have a shape and no memory. Every operation on them is
recorded, with the state of the random number generator where it draws. So a part of the network
gets, to the bit, the first weights that it has in the whole network. (On torch's ``meta`` device
some functions of ``torch.nn.init`` draw nothing, without saying so.)
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
    """The value of a weight depends on other weights, or on numbers that a fake tensor lacks."""


class DeferredStep(NamedTuple):
    """A recorded operation on a tensor.

    Attributes
    ----------
    operator : torch operator or None
        None if it reads other fake tensors, so that it cannot be replayed.
    arguments, keywords : tuple, dict
        The operator's arguments, without the tensor that is changed in place.
    view : tuple or None
        Size, stride and offset of the part that is changed; None for the step that creates the
        tensor.
    state : torch.Tensor or None
        State of the random number generator before the step; None if it draws nothing.
    """

    operator: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    view: tuple[Any, Any, Any] | None
    state: torch.Tensor | None

    def __call__(self, tensor: torch.Tensor | None = None) -> torch.Tensor:
        """Replay the step on a tensor on the host, in place; return the tensor."""
        if self.state is not None:
            torch.set_rng_state(self.state)
        if self.view is None:
            return self.operator(*self.arguments, **self.keywords)
        assert tensor is not None
        self.operator(tensor.as_strided(*self.view), *self.arguments, **self.keywords)
        return tensor


class _Recorder(TorchDispatchMode):
    """Records the steps of each fake tensor, and draws the random numbers that each step draws."""

    def __init__(self) -> None:
        super().__init__()
        self._steps = dict[int, list[DeferredStep]]()
        # Steps are found by the address of a storage, which must not be freed and used again.
        self._storages = list[Any]()

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
            return result  # a view, which has the steps of its storage, or a value of unknown ones
        view: tuple[Any, Any, Any] | None = None
        arguments, scratch = args, None
        if is_change:
            view, arguments = (result.size(), result.stride(), result.storage_offset()), args[1:]
        step = DeferredStep(operator, arguments, keywords, view, state)
        self._steps_of(result).append(step)
        if draws:  # on a real tensor, so that the generator is as far as without fake tensors
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
        """The tensor on the host after all its steps; a tensor that is not fake is returned."""
        if not isinstance(tensor, FakeTensor):
            return tensor.detach()
        first, *changes = self._known_steps(tensor)
        full_tensor = first().clone()
        for change in changes:
            full_tensor = change(full_tensor)
        return full_tensor.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())

    def refuse_unknown(self, tensor: torch.Tensor) -> None:
        """Raise UnknownWeightsError for a tensor that cannot be materialised by itself."""
        if isinstance(tensor, FakeTensor):
            self._known_steps(tensor)

    def _known_steps(self, tensor: torch.Tensor) -> list[DeferredStep]:
        steps = self._steps.get(tensor.untyped_storage()._cdata, [])
        if not steps or steps[0].view is not None or None in [step.operator for step in steps]:
            raise UnknownWeightsError("a weight is made of others")
        return steps


class DeferredNetwork:
    """A network that needs no memory for its weights until a part of it is materialised.

    Parameters
    ----------
    make : function
        Builds the network, on the host if called outside this class.

    Attributes
    ----------
    network : torch.nn.Module
        Holds fake tensors, or real ones if the initial weights depend on each other.
    is_whole : bool
        Whether the tensors are real: the whole network is in memory.
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
        """In this context the network computes shapes alone, and gives fake tensors."""
        with self._fakes, torch.no_grad():
            log = logging.getLogger(fake_tensor.__name__)
            log.addFilter(_nothing)  # what torch logs as an error is raised as well
            try:
                yield
            finally:
                log.removeFilter(_nothing)

    def make(self, part: nn.Module) -> None:
        """Materialise the weights and buffers of a module of the network, in place."""
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            for module in part.modules():
                for name, tensor in tensors_of(module).items():
                    replace_tensor(module, name, tensor, self._recorder.materialise(tensor))


def tensors_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """The weights and buffers of a module by name, without those of its submodules."""
    weights = dict(module.named_parameters(recurse=False))
    return weights | dict(module.named_buffers(recurse=False))


def replace_tensor(module: nn.Module, name: str, old: torch.Tensor, new: torch.Tensor) -> None:
    """Replace a weight or a buffer of a module; a weight stays a parameter.

    Parameters
    ----------
    module : torch.nn.Module
    name : str
        The name of the attribute.
    old, new : torch.Tensor
        The attribute and its new value.
    """
    is_weight = isinstance(old, nn.Parameter)
    setattr(module, name, nn.Parameter(new, old.requires_grad) if is_weight else new)


def _nothing(record: logging.LogRecord) -> bool:
    return False
