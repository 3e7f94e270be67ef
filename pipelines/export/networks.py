"""An ensemble of networks as one ONNX graph: preparation, members and vote."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.bagging.reductions import reduce_members
from pipelines.errors import InputError, opt
from pipelines.export.check import Answers
from pipelines.export.graph import DOUBLE, FLOAT, INT64, OPSET, OnnxGraph, prepared
from pipelines.export.parts import Exported
from pipelines.nn.member import Ensemble, Member

if TYPE_CHECKING:
    import torch


class ExportedEnsemble(Exported):
    """The ensemble of a run of ``nn_bagging``; attributes are those of ``Exported``."""

    model: Ensemble

    @property
    def note(self) -> str:
        return (
            "the answers of all rows: whether to defer, prediction sets, intervals and novelty are "
            "of nn-bagging predict alone"
        )

    def answers(self, X: Any) -> Answers:
        outputs = self.model.member_proba(X)
        if self.model.members[0].inputs.is_regression:
            return Answers(None, {"prediction": outputs[:, :, 0].mean(axis=0)})
        reduction = reduce_members(outputs)
        return Answers.of_codes(
            self.model.classes_, reduction.vote, probabilities=reduction.mean, votes=reduction.votes
        )

    def graph(self) -> OnnxGraph:
        graph, members = OnnxGraph(), self.model.members
        rows = [
            graph.cast(
                prepared(graph, member.scaling, member.inputs.n_features, self.images), FLOAT
            )
            for member in members
        ]
        (outputs,) = graph.inline(_networks_to_onnx(members), *rows)
        add_vote(graph, outputs, self.model)
        return graph

    def plain(self, X: Any) -> tuple[Any, list[str]]:
        raise InputError(
            f"{opt('to')} must be onnx or safetensors for a run of nn-bagging, whose networks are "
            f"none of scikit-learn's; use {opt('to', 'onnx')}"
        )

    def write_arrays(self, path: Path, about: dict[str, Any]) -> None:
        how = (
            "arrays NUMBER.NAME of each member, whose layers and sizes are in members: rows are "
            "scaled, or prepared as skops's content says; softmax of the outputs; each member "
            "votes for its most certain class, ties go to the larger mean; or the mean of numbers"
        )
        self.model.save(path, how=how, **about)

    def read_arrays(self, path: Path) -> Exported:
        return ExportedEnsemble(Ensemble.load(path), self.record, self.images)


def add_vote(graph: OnnxGraph, outputs: str, ensemble: Ensemble) -> None:
    """Add the vote of an ensemble, as ``reduce_members`` counts it, and the graph's outputs.

    Parameters
    ----------
    graph : OnnxGraph
    outputs : str
        The members' outputs, of shape (n_members, n_rows, n_outputs).
    ensemble : Ensemble
    """
    members, n_classes = ensemble.members, len(ensemble.classes_)
    outputs, axes = graph.cast(outputs, DOUBLE), graph.constant([0], np.int64)
    if members[0].inputs.is_regression:
        scales, centres = (
            graph.constant([[[float(getattr(member.target, part))]] for member in members])
            for part in ("scale", "center")
        )
        outputs = graph.op("Add", graph.op("Mul", outputs, scales), centres)
        mean = graph.op("ReduceMean", outputs, axes, keepdims=0)
        flat = graph.op("Reshape", mean, graph.constant([-1], np.int64))
        graph.output(flat, "prediction", DOUBLE)
        return
    mean = graph.op("ReduceMean", outputs, axes, keepdims=0)
    favourite = graph.op("ArgMax", outputs, axis=2, keepdims=1)
    is_voted = graph.op("Equal", favourite, graph.constant(np.arange(n_classes)[None, None]))
    votes = graph.sum(graph.cast(is_voted, DOUBLE), 0)
    half = graph.op("Mul", mean, graph.constant(0.5))
    graph.label(graph.argmax(graph.op("Add", votes, half)), ensemble.classes_)
    graph.output(mean, "probabilities", DOUBLE, n_classes)
    graph.output(graph.cast(votes, INT64), "votes", INT64, n_classes)


def _networks_to_onnx(members: Sequence[Member]) -> Any:
    """Convert the networks of all members to one ONNX model.

    Its inputs are the scaled rows of each member. Its output, of shape
    (n_members, n_rows, n_outputs), has softmax probabilities, or scaled targets.
    """
    import torch
    from torch import nn

    from pipelines.nn.networks import as_network_takes, make_network

    for member in members:
        if ":" in (name := member.spec.network):
            raise InputError(
                f"RUN must hold networks of this program or of torchvision, got {name}, which is "
                "your own code; load it by pipelines.run.predict.load_model(RUN, network=...) and "
                "give its networks to torch.onnx.export"
            )

    class Networks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.networks = nn.ModuleList()
            for member in members:
                network = make_network(member.spec, member.inputs)
                weights = {name: torch.tensor(array) for name, array in member.weights.items()}
                # Not strict: the counters of batch normalisation are not stored.
                network.load_state_dict(weights, strict=False)
                self.networks.append(network.double() if _is_double(member) else network)

        def forward(self, *rows: torch.Tensor) -> torch.Tensor:
            outputs = []
            for member, network, inputs in zip(members, self.networks, rows, strict=True):
                inputs = inputs.double() if _is_double(member) else inputs
                answer = network(as_network_takes(inputs, member.inputs))
                if member.target is None:
                    answer = torch.log_softmax(answer.float(), 1).exp()
                outputs.append(answer.double().reshape(-1, member.inputs.n_outputs))
            return torch.stack(outputs)

    example_rows = tuple(torch.zeros(2, member.inputs.n_features) for member in members)
    batch = torch.export.Dim("n_rows")
    level = logging.getLogger("torch.onnx").level
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they concern the exporter's own code
            program = torch.onnx.export(
                Networks().eval(),
                example_rows,
                dynamo=True,
                verbose=False,
                opset_version=OPSET,
                dynamic_shapes=(tuple({0: batch} for _ in example_rows),),
            )
    finally:
        logging.getLogger("torch.onnx").setLevel(level)
    assert program is not None
    return program.model_proto


def _is_double(member: Member) -> bool:
    """Whether a member predicts in double precision, as in ``Member.predict``."""
    return member.target is not None and member.spec.network in ("mlp", "table")
