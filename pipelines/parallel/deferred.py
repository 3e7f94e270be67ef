"""A network whose weights are made where they are asked for, each as if all had been made before.

It is built of torch's fake tensors, which have a shape and no memory. What would have been done to
each is kept, with the state of the generator of random numbers where it draws: so a part of the
network has, to the bit, the first weights that it has in the whole. (On torch's ``meta`` device
some of ``torch.nn.init`` draws nothing, and says nothing of it.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class UnknownWeightsError(ValueError):
    """A weight is made of others, or of numbers that a tensor without memory does not have."""


class Step(NamedTuple):
    """What is done to a tensor.

    Attributes
    ----------
    operator : one of torch's
    view : size, stride and offset of the part that is changed; None where the tensor is made
    state : of the generator before; None where nothing is drawn
    """

    operator: Any
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    view: tuple[Any, Any, int] | None
    state: torch.Tensor | None

    def __call__(self, tensor: torch.Tensor | None = None) -> torch.Tensor:
        """Do it on the host to what is there; return the tensor."""
        if self.state is not None:
            torch.set_rng_state(self.state)
        if self.view is None:
            return self.operator(*self.arguments, **self.named)  # type: ignore[no-any-return]
        assert tensor is not None
        self.operator(tensor.as_strided(*self.view), *self.arguments, **self.named)
        return tensor


def _refuse() -> torch.Tensor:
    raise UnknownWeightsError("a weight is made of others")


NOBODYS = Step(_refuse, (), {}, None, None)


class _Recorder(TorchDispatchMode):
    """Keeps the steps of fake tensors, and draws what each would draw."""

    def __init__(self) -> None:
        super().__init__()
        self._steps = dict[int, list[Step]]()
        self._storages = list[Any]()  # known by their addresses, so none may go

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        draws = torch.Tag.nondeterministic_seeded in operator.tags
        state = torch.get_rng_state() if draws else None
        result, named = operator(*args, **(kwargs or {})), dict(kwargs or {})
        if not isinstance(result, FakeTensor):
            return result
        is_change = operator._schema.is_mutable and isinstance(args[0], FakeTensor)
        others = tree_leaves([args[1:] if is_change else args, named])
        if any(isinstance(other, FakeTensor) for other in others):
            if is_change:
                self._steps_of(result).append(NOBODYS)
            return result  # a view, whose steps are those of its storage, or what nobody can make
        view, arguments, scratch = None, args, None
        if is_change:
            view, arguments = (result.size(), result.stride(), result.storage_offset()), args[1:]
        step = Step(operator, arguments, named, view, state)
        self._steps_of(result).append(step)
        if draws:  # a tensor of that shape, whose numbers are forgotten
            with unset_fake_temporarily():
                if is_change:
                    scratch = torch.empty_strided(result.size(), result.stride())
                    step = step._replace(view=(result.size(), result.stride(), 0))
                step(scratch)
        return result

    def _steps_of(self, tensor: torch.Tensor) -> list[Step]:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._steps:
            self._storages.append(storage)
        return self._steps.setdefault(storage._cdata, [])

    def made(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor on the host, as it would be after all its steps."""
        first, *changes = self._steps.get(tensor.untyped_storage()._cdata, [NOBODYS])
        if first.view is not None:
            first = NOBODYS
        whole = first().clone()
        for change in changes:
            whole = change(whole)
        return whole.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def deferred(make: Callable[[], nn.Module]) -> tuple[nn.Module, Callable[[nn.Module], None]]:
    """Build a network without memory for its weights.

    Parameters
    ----------
    make : builds it, on the host by itself

    Returns
    -------
    network : of fake tensors
    make_weights : gives a module of it, in place, the weights and buffers it would have; raises
        ``UnknownWeightsError``
    """
    recorder = _Recorder()
    with FakeTensorMode(allow_non_fake_inputs=True), recorder:
        network = make()

    def make_weights(part: nn.Module) -> None:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            for module in part.modules():
                for name, tensor in list(module.named_parameters(recurse=False)):
                    if isinstance(tensor, FakeTensor):
                        weights = nn.Parameter(recorder.made(tensor), tensor.requires_grad)
                        setattr(module, name, weights)
                for name, tensor in list(module.named_buffers(recurse=False)):
                    if isinstance(tensor, FakeTensor):
                        setattr(module, name, recorder.made(tensor))

    return network, make_weights
