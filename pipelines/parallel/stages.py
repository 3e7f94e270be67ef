"""A network as a chain of layers, cut into stages; a rank materialises only its own stages."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import methodcaller
from typing import Any

import torch
from torch import fx, nn

from pipelines.errors import InputError, opt
from pipelines.parallel.deferred import DeferredNetwork, replace_tensor, tensors_of
from pipelines.parallel.options import MICROBATCHES, Formation, TrainingOptions
from pipelines.parallel.training_problem import NetworkDescription
from pipelines.run.outcomes import describe

BYTES = 4  # of a float32 number
LIMIT = 0.8  # fraction of a worker's memory for a stage; the program and a batch need the rest


# The hooks of a module, which are called around its forward or backward pass. A module that has
# some is not taken apart: its layers alone would not call them.
HOOKS = (
    "_forward_pre_hooks",
    "_forward_hooks",
    "_backward_pre_hooks",
    "_backward_hooks",
)
# Modules of torch.nn, beside batch normalisation, whose output for a row may depend on other rows.
ROWS_MEET = (nn.MultiheadAttention, nn.RNNBase, nn.Transformer, nn.TransformerEncoderLayer)
BatchNorm = nn.modules.batchnorm._BatchNorm


class Function(nn.Module):
    """A function of one tensor between layers, as a layer.

    Parameters
    ----------
    function : function
        From a tensor of rows to another.
    """

    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, rows: torch.Tensor) -> Any:
        """Call the function."""
        return self._function(rows)


def chain_of(module: nn.Module) -> list[nn.Module]:
    """The layers whose composition is a module; if it is not a chain, the module itself.

    Modules of ``torch.nn`` other than ``Sequential`` stay whole, and so do modules with hooks. Of
    others the forward pass is traced, in training and in evaluation mode; if the two differ, the
    module also stays whole.
    """
    if any(getattr(module, hooks) for hooks in HOOKS):
        return [module]
    if type(module).forward is nn.Sequential.forward:
        return [layer for child in module.children() for layer in chain_of(child)]
    if type(module).__module__.startswith("torch.nn."):
        return [module]
    mode, traces = module.training, list[list[Any]]()
    try:
        traces += (_traced(module.train(training)) for training in (False, True))
    except Exception:  # a user's forward pass may raise anything on the proxy of a tensor
        return [module]
    finally:
        module.train(mode)
    steps = traces[1]
    if not steps or repr(traces[0]) != repr(steps):
        return [module]
    layers = list[nn.Module]()
    for op, target, arguments, keywords in steps:
        if op == "call_module":
            layers += chain_of(module.get_submodule(target))
        elif op == "call_method":
            layers.append(Function(methodcaller(target, *arguments, **keywords)))
        else:
            layers.append(Function(_of_first(target, arguments, keywords)))
    return layers


def _of_first(function: Callable[..., Any], arguments: Any, keywords: Any) -> Callable[..., Any]:
    return lambda rows: function(rows, *arguments, **keywords)


class _Children(fx.Tracer):
    """A tracer that does not descend into the submodules of the module it traces."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


def _traced(module: nn.Module) -> list[tuple[str, Any, tuple[Any, ...], dict[str, Any]]]:
    """Operation, target, arguments and keywords of each step; empty if it is not a chain."""
    first, *nodes = _Children().trace(module).nodes
    steps = []
    for previous, node in itertools.pairwise([first, *nodes]):
        is_next = node.all_input_nodes == [previous] and node.args and node.args[0] is previous
        if not is_next or len(previous.users) > 1:
            return []
        steps.append((node.op, node.target, node.args[1:], node.kwargs))
    return steps[:-1] if steps and steps[-1][0] == "output" else []


class StagedNetwork:
    """A network cut into stages, so that the largest stage is as small as possible.

    Parameters
    ----------
    make : function
        Builds the network.
    name : str
        The network's name, in errors.
    n_stages : int
    row : float32 tensor of shape (1, n_inputs)
        Any row; its values are not used.
    n_held : tuple of float
        How many numbers are held at once for each weight, and for each number of a layer's output
        for a row; see ``TrainingOptions.kept_at_once``.

    Attributes
    ----------
    layers : list of torch.nn.Module
        All layers, without memory for their weights.
    shapes : list of tuple of int
        The shape of a row before the first layer, and after each layer.
    n_weights : list of int
        The number of weights of each layer.
    stages : list of range
        The indices of the layers of each stage.
    n_bytes : list of float
        The bytes of each stage: its weights with all that is held for them, and the rows in flight.

    Raises
    ------
    InputError
        The network is not a chain, has too few layers with weights, or its layers share weights.
    """

    def __init__(
        self,
        make: Callable[[], nn.Module],
        name: str,
        n_stages: int,
        row: torch.Tensor,
        n_held: tuple[float, float],
    ) -> None:
        self._deferred = DeferredNetwork(make)
        network = self._deferred.network
        self.layers = chain_of(network)
        self._names = {id(module): path for path, module in network.named_modules()}
        with_weights = [i for i, layer in enumerate(self.layers) if list(layer.parameters())]
        if len(with_weights) < n_stages:
            raise InputError(
                f"{opt('stages')} must leave each stage a layer with weights, got {n_stages} of "
                f"{name}, whose forward pass is a chain of {len(with_weights)} such layers or "
                "blocks; take fewer, or a network in which each layer takes what the one before "
                "gives, and nothing else"
            )
        owners = [id(weight) for layer in self.layers for weight in layer.parameters()]
        if len(owners) > len(set(owners)):
            raise InputError(
                f"{opt('network')} must not share weights between layers to be cut into stages, "
                f"got {name}; leave {opt('stages')} out"
            )
        self.shapes = self._measured_shapes(row, name)
        self.n_weights = [
            sum(weight.numel() for weight in layer.parameters()) for layer in self.layers
        ]
        sizes = [
            n_held[0] * n_weights + n_held[1] * math.prod(shape)
            for n_weights, shape in zip(self.n_weights, self.shapes[1:], strict=True)
        ]
        # A block is a layer with weights and the layers without that follow it.
        starts = [0, *with_weights[1:], len(self.layers)]
        blocks = [sum(sizes[first:last]) for first, last in itertools.pairwise(starts)]
        cuts = [starts[index] for index in balanced(blocks, n_stages)]
        self.stages = [range(first, last) for first, last in itertools.pairwise(cuts)]
        self.n_bytes = [BYTES * sum(sizes[i] for i in layers) for layers in self.stages]

    def lines(self, formation: Formation) -> list[str]:
        """The lines that the terminal prints about the stages, with warnings."""
        n_weights = [sum(self.n_weights[i] for i in layers) for layers in self.stages]
        cuts = ", ".join(self._path(self.layers[layers.start]) for layers in self.stages[1:])
        lines = [
            f"stages     {len(self.stages)}, cut before {cuts}: "
            f"{', '.join(f'{n:,}' for n in n_weights)} weights; of a step at least "
            f"{100 * formation.bubble:.0f} % idle (1F1B, {formation.n_micro} micro-batches)"
        ]
        if self._deferred.is_whole:
            lines.append(
                "warning    --stages: each rank begins with the whole network in memory, since its "
                "first weights depend on each other"
            )
        if any(isinstance(layer, BatchNorm) for part in self.layers for layer in part.modules()):
            lines.append(
                f"note       batch normalisation goes by micro-batches, of {formation.n_rows} rows"
            )
        # Pairs and not a dict, as several layers may have one path: functions have none.
        mixes = [(self._path(layer), self._mixes_rows(i)) for i, layer in enumerate(self.layers)]
        if paths := ", ".join(path for path, is_mixing in mixes if is_mixing):
            lines.append(
                f"warning    --stages: what {paths} gives for a row depends on the others of its "
                f"micro-batch, of {formation.n_rows} rows; without stages, of its batch"
            )
        if paths := ", ".join(path for path, is_mixing in mixes if is_mixing is None):
            lines.append(
                f"warning    --stages: whether rows of a batch meet in {paths} could not be tried; "
                f"there they would be those of a micro-batch, {formation.n_rows}"
            )
        return lines

    def _mixes_rows(self, index: int) -> bool | None:
        """Whether a layer's output for a row depends on other rows; None if it cannot be tried.

        Batch normalisation is not counted: another line speaks of it. A layer of the user's is
        tried on random rows, all at once and in halves.
        """
        layer, shape = self.layers[index], self.shapes[index]
        parts = list(layer.modules())
        is_known = all(type(part).__module__.startswith("torch.nn.") for part in parts)
        if any(isinstance(part, BatchNorm) for part in parts) or (
            is_known and not any(isinstance(part, ROWS_MEET) for part in parts)
        ):
            return False
        self._deferred.make(layer)
        rows = torch.rand(4, *shape)
        try:
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                if not torch.equal(layer(rows), layer(rows)):  # it draws random numbers: dropout
                    layer.eval()
                halves = torch.cat([layer(half) for half in rows.split(2)])
                return not torch.allclose(layer(rows), halves, rtol=1e-3, atol=1e-5)
        except Exception:  # a user's layer may not take rows of random numbers
            return None

    def _path(self, layer: nn.Module) -> str:
        path = self._names.get(id(layer), "")
        return path or "a function"

    def _measured_shapes(self, row: torch.Tensor, name: str) -> list[tuple[int, ...]]:
        shapes = [tuple(row.shape[1:])]
        for layer in self.layers:
            training = layer.training
            try:
                with self._deferred.without_numbers():
                    row = layer.eval()(row)  # batch normalisation in training needs several rows
            except Exception as error:  # whatever a user's layer raises
                raise InputError(
                    f"{opt('network')} must take rows of shape {shapes[0]}, got "
                    f"{describe(error)}, in {self._path(layer)}; mend it"
                ) from None
            layer.train(training)
            if not isinstance(row, torch.Tensor) or row.shape[:1] != (1,):
                raise InputError(
                    f"{opt('network')} must give a tensor with a row for each of the batch after "
                    f"every layer to be cut into stages, {name} does not after "
                    f"{self._path(layer)}; leave {opt('stages')} out"
                )
            shapes.append(tuple(row.shape[1:]))
        return shapes

    def stage(self, number: int) -> nn.Sequential:
        """A stage with its first weights materialised, by its number."""
        stage = nn.Sequential(*(self.layers[i] for i in self.stages[number]))
        self._deferred.make(stage)
        return stage

    def names_of(self, stage: nn.Module) -> Iterator[tuple[str, str]]:
        """The names of each weight and buffer of a stage, in the stage and in the whole network."""
        for path, module in stage.named_modules():
            for name in tensors_of(module):
                in_stage, in_network = (
                    [prefix, name] for prefix in (path, self._names.get(id(module), ""))
                )
                yield ".".join(filter(None, in_stage)), ".".join(filter(None, in_network))


def staged(
    network: NetworkDescription, options: TrainingOptions, formation: Formation, seed: int
) -> StagedNetwork:
    """Cut a network into the stages of a formation.

    Parameters
    ----------
    network : NetworkDescription
    options : TrainingOptions
        The optimiser and the batch decide what is held for weights and rows.
    formation : Formation
    seed : int
        Draws the first weights.
    """
    row = torch.zeros(1, network.n_inputs)
    n_held = options.kept_at_once(formation)
    return StagedNetwork(lambda: network.make(seed), network.name, formation.n_stages, row, n_held)


def stages_that_fit(
    network: NetworkDescription, options: TrainingOptions, n_bytes: float, n_workers: int
) -> int:
    """The least number of stages such that each fits into a worker's memory.

    Parameters
    ----------
    network : NetworkDescription
    options : TrainingOptions
        ``stages`` is not used.
    n_bytes : float
        Memory of a worker, or of its GPU.
    n_workers : int
        The most stages that can be chosen.

    Raises
    ------
    InputError
        A stage is too large even with the most stages.
    """
    n_micro, max_bytes = options.microbatches or MICROBATCHES, 0.0
    for n_stages in range(1, min(n_workers, n_micro) + 1):
        if options.stages_of_a_rank > 1 and n_micro % n_stages:
            continue
        formation = Formation.of(replace(options, stages=n_stages), n_stages)
        if n_stages == 1:
            formation = replace(formation, n_each=1)
        max_bytes = max(staged(network, options, formation, seed=0).n_bytes)
        if max_bytes <= LIMIT * n_bytes:
            return n_stages
    raise InputError(
        f"{opt('stages', 'auto')} must leave each worker a stage that fits into {LIMIT:.0%} of its "
        f"memory, {n_bytes / 1e9:.3g} GB, got {max_bytes / 1e9:.3g} GB on {n_workers} workers; "
        f"take more of them, or a smaller {opt('batch_size')}"
    )


def balanced(costs: Sequence[float], n_parts: int) -> list[int]:
    """Cut a sequence of costs so that the costliest part is as cheap as possible.

    This is exact, by dynamic programming over the position of the last cut.

    Parameters
    ----------
    costs : sequence of float
    n_parts : int
        At most ``len(costs)``; no part is empty.

    Returns
    -------
    list of int
        The n_parts + 1 bounds of the parts, from 0 to ``len(costs)``.

    Examples
    --------
    >>> balanced([4, 1, 1, 2], 2)
    [0, 1, 4]
    """
    sums = [0.0, *itertools.accumulate(costs)]
    # By the position of the last cut: the cost of the costliest part before it, and the cuts.
    best: dict[int, tuple[float, list[int]]] = {0: (0.0, [0])}
    for part in range(n_parts):
        n_left = n_parts - part - 1
        best = {
            last: min(
                (max(max_cost, sums[last] - sums[first]), [*cuts, last])
                for first, (max_cost, cuts) in best.items()
                if first < last
            )
            for last in range(part + 1, len(costs) - n_left + 1)
        }
    return best[len(costs)][1]


def network_from(stored: Mapping[str, torch.Tensor], make: Callable[[], nn.Module]) -> nn.Module:
    """A network whose weights and buffers are the stored tensors themselves, without copies.

    Parameters
    ----------
    stored : mapping of tensors by name
        May be mapped from disk.
    make : function
        Builds the network.
    """
    network = DeferredNetwork(make).network
    for path, module in network.named_modules():
        for name, tensor in tensors_of(module).items():
            replace_tensor(module, name, tensor, stored[".".join(filter(None, [path, name]))])
    return network.requires_grad_(False)
