"""A builder for ONNX graphs, and the inputs and outputs that all exported models have."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, compose, helper, inliner, numpy_helper

from pipelines.data.preparation import Fitted
from pipelines.data.scaling import FittedScaling
from pipelines.errors import InputError, opt

# ONNX Runtime has these since 1.14, of 2023; torch writes no lower version.
OPSET, OPSET_ML, IR_VERSION = 18, 3, 8
FLOAT, DOUBLE, INT64 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64
BOOL, STRING = TensorProto.BOOL, TensorProto.STRING
MOST_BYTES = 2**31 - 2**20  # of constants: a protocol buffer has at most 2 GiB
OUTPUTS = ("label", "probabilities", "decision", "votes", "prediction")


class OnnxGraph:
    """Nodes, constants, inputs and outputs of an ONNX graph; ``model`` assembles them.

    Methods that add an operator return the name of its output, which others take as an input.
    """

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.opsets = {"": OPSET, "ai.onnx.ml": OPSET_ML}
        self._n_names = 0

    def _name(self) -> str:
        self._n_names += 1
        return f"pleasingly.{self._n_names}"

    def constant(self, values: Any, dtype: Any = None) -> str:
        """Add an array as a constant; return its name."""
        name = self._name()
        array = np.ascontiguousarray(np.asarray(values, dtype))
        if array.dtype.kind == "U":
            array = array.astype(object)
        array = array.reshape(np.shape(values))
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def op(self, op_type: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add an operator with one output; return the name of the output.

        Parameters
        ----------
        op_type : str
            ONNX's name of the operator.
        *inputs : str
            Names of its inputs.
        domain : str, default ""
            ONNX's standard operators by default.
        **attributes
            Attributes of the operator.
        """
        name = self._name()
        self.nodes.append(helper.make_node(op_type, inputs, [name], domain=domain, **attributes))
        return name

    def cast(self, name: str, dtype: int) -> str:
        """Add a cast to an ONNX type, such as ``DOUBLE``; return the name of its output."""
        return self.op("Cast", name, to=dtype)

    def sum(self, name: str, axis: int, keep: bool = False) -> str:
        """Add a sum along an axis, kept with length 1 if asked; return the name of its output."""
        return self.op("ReduceSum", name, self.constant([axis], np.int64), keepdims=int(keep))

    def argmax(self, name: str) -> str:
        """Add the int64 index of the largest value along the last axis; of equal ones the first."""
        return self.op("ArgMax", name, axis=-1, keepdims=0)

    def input(self, name: str, dtype: int, width: int) -> str:
        """Add an input of shape (n_rows, width); return its name, see ``input_name``."""
        name = input_name(name)
        self.inputs.append(helper.make_tensor_value_info(name, dtype, ["n_rows", width]))
        return name

    def output(self, source: str, name: str, dtype: int, *shape: int) -> None:
        """Make the tensor ``source`` an output of the graph, of shape (n_rows, \\*shape)."""
        self.nodes.append(helper.make_node("Identity", [source], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, dtype, ["n_rows", *shape]))

    def label(self, codes: str, classes: np.ndarray) -> None:
        """Add the output ``label`` by class codes: int64 if labels are integers, else text."""
        labels = labels_of(classes)
        dtype = INT64 if labels.dtype.kind == "i" else STRING
        self.output(self.op("Gather", self.constant(labels), codes), "label", dtype)

    def inline(self, model: Any, *sources: str) -> list[str]:
        """Add the graph of another model, with these tensors as inputs; return its output names."""
        model = inliner.inline_local_functions(model)
        prefix = f"{self._name()}."
        graph = compose.add_prefix(model, prefix).graph
        for source, graph_input in zip(sources, graph.input, strict=True):
            self.nodes.append(helper.make_node("Identity", [source], [graph_input.name]))
        self.nodes += graph.node
        self.constants += graph.initializer
        for opset in model.opset_import:
            self.opsets.setdefault(opset.domain, opset.version)
        return [output.name for output in graph.output]

    def model(self, about: Mapping[str, Any]) -> bytes:
        """The checked model as the content of a file.

        Parameters
        ----------
        about : mapping
            Metadata properties of the model; values that are not text become JSON.

        Raises
        ------
        InputError
            It is larger than an ONNX file may be.
        """
        n_bytes = sum(constant.ByteSize() for constant in self.constants)
        if n_bytes > MOST_BYTES:
            raise InputError(
                f"{opt('to', 'onnx')} must be a model of at most 2 GiB, got {n_bytes / 2**30:.1f} "
                f"GiB; use {opt('to', 'safetensors')}"
            )
        graph = helper.make_graph(
            self.nodes, "pleasingly", self.inputs, self.outputs, self.constants
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(*opset) for opset in self.opsets.items()],
            ir_version=IR_VERSION,
            producer_name="pleasingly",
            producer_version=str(about["versions"].get("pleasingly", "")),
        )
        texts = {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in about.items()
        }
        helper.set_model_props(model, texts)
        onnx.checker.check_model(model)
        content: bytes = model.SerializeToString()
        return content


def input_name(column: str) -> str:
    """The name of the input for a table's column: the column's name, unless an output has it."""
    return f"column {column}" if column in OUTPUTS else column


def labels_of(classes: np.ndarray) -> np.ndarray:
    """Labels in a type that ONNX has: int64 or text."""
    if classes.dtype.kind in "iu":
        return classes.astype(np.int64)
    return np.array([str(label) for label in classes], dtype=str)


def prepared(graph: OnnxGraph, scaling: Fitted | None, n_features: int, images: bool) -> str:
    """Add the inputs of a graph and their scaling, as ``scaling.transform`` does it.

    A table with categories or missing cells has an input of shape (n_rows, 1) for each column.
    Others have the input ``X`` of shape (n_rows, n_features): float32 for images, float64 for
    numbers. Members of an ensemble share the inputs.

    Parameters
    ----------
    graph : OnnxGraph
    scaling : Fitted or None
        The fitted scaling or preparation.
    n_features : int
    images : bool
        Whether rows are pixels.

    Returns
    -------
    str
        The name of the scaled rows.
    """
    if scaling is not None and not isinstance(scaling, FittedScaling):
        return _table(graph, scaling)
    is_there = any(info.name == "X" for info in graph.inputs)  # an earlier member added it
    rows = "X" if is_there else graph.input("X", FLOAT if images else DOUBLE, n_features)
    if scaling is None:
        return rows
    # As in numpy: images are scaled by a float in single precision, by an array in double.
    parts = scaling.center, scaling.scale
    single = images and all(isinstance(part, float) for part in parts)
    for op_type, part in zip(("Sub", "Div"), parts, strict=True):
        values = np.atleast_1d(part).astype(np.float32 if single else np.float64)
        rows = rows if single else graph.cast(rows, DOUBLE)
        rows = graph.op(op_type, rows, graph.constant(values))
        rows = graph.cast(rows, FLOAT) if images and not single else rows
    return rows


def _table(graph: OnnxGraph, preparation: Any) -> str:
    """Add the steps of a fitted ``TablePreprocessor``; return the name of its float32 output.

    It imputes and standardises numbers, marks missing cells, and encodes categories one-hot. The
    output has the shape (n_rows, n_columns_out).
    """
    kinds, fitted = preparation.kinds, preparation.columns_.named_transformers_
    input_names = {info.name for info in graph.inputs}  # the inputs that an earlier member added
    parts = []

    def column(name: str, dtype: int) -> str:
        return input_name(name) if input_name(name) in input_names else graph.input(name, dtype, 1)

    if kinds.numbers:
        columns = [column(name, DOUBLE) for name in kinds.numbers]
        numbers = graph.op("Concat", *columns, axis=1)
        is_missing = graph.op("IsNaN", numbers)
        steps = fitted["numbers"].named_steps
        if (imputer := steps["impute"]) != "passthrough":
            medians = graph.constant(np.nan_to_num(imputer.statistics_), np.float64)
            numbers = graph.op("Where", is_missing, medians, numbers)
        if (scaler := steps["scale"]) != "passthrough":
            numbers = graph.op("Sub", numbers, graph.constant(scaler.mean_))
            numbers = graph.op("Div", numbers, graph.constant(scaler.scale_))
        parts.append(graph.cast(numbers, FLOAT))
        if "missing" in fitted and len(gaps := fitted["missing"].features_):
            places = graph.constant(gaps, np.int64)
            parts.append(graph.cast(graph.op("Gather", is_missing, places, axis=1), FLOAT))
    levels_of = fitted["categories"].categories_ if kinds.categories else []
    for name, levels in zip(kinds.categories, levels_of, strict=True):
        about: dict[str, Any] = {
            "keys_strings": ["" if level is None or level != level else level for level in levels],
            "values_int64s": list(range(len(levels))),
            "default_int64": -1,
        }
        codes = graph.op("LabelEncoder", column(name, STRING), domain="ai.onnx.ml", **about)
        is_level = graph.op("Equal", codes, graph.constant(np.arange(len(levels))[None]))
        parts.append(graph.cast(is_level, FLOAT))
    rows, names = graph.op("Concat", *parts, axis=1), preparation._names()
    columns = list(preparation.layout or ())
    if columns in ([], names):
        return rows
    # A column of the layout that this member's training rows lacked is 0 in every row.
    zeros = graph.op(
        "Mul",
        graph.op("Slice", rows, *map(graph.constant, ([0], [1], [1]))),
        graph.constant([0], np.float32),
    )
    rows = graph.op("Concat", rows, zeros, axis=1)
    order = [names.index(name) if name in names else len(names) for name in columns]
    return graph.op("Gather", rows, graph.constant(order, np.int64), axis=1)


def feed(X: Any, names: Sequence[str], images: bool) -> dict[str, np.ndarray]:
    """The inputs of an exported model for rows as a run reads them.

    A missing number is NaN, a missing category is empty text.

    Parameters
    ----------
    X : array or frame
    names : sequence of str
        The names of the model's inputs.
    images : bool
        Whether rows are pixels.

    Returns
    -------
    dict
        An array for each input.
    """
    if [*names] == ["X"] and not hasattr(X, "columns"):
        return {"X": np.asarray(X, np.float32 if images else np.float64)}
    inputs = {}
    for name in X.columns:
        if (column_input := input_name(str(name))) not in names:
            continue
        cells = X[name]
        if cells.dtype.kind in "biuf":
            inputs[column_input] = cells.to_numpy(np.float64)[:, None]
        else:
            texts = [
                "" if gap else str(cell) for cell, gap in zip(cells, cells.isna(), strict=True)
            ]
            inputs[column_input] = np.array(texts, dtype=object)[:, None]
    return inputs
