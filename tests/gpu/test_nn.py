"""Stacked training on a real GPU: the CPU's numbers, memory as predicted."""

import gc
from unittest.mock import patch

import numpy as np

from benchmarks.gpu.figures import note
from pipelines.data.load import load_dataset
from pipelines.data.placement import FoldedData
from pipelines.nn import recording
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import TrainingSettings
from pipelines.nn.space import NetworkSpec
from tests.nn.one_member import refitted, rows_of_folds

DIGITS = Inputs(64, 10, (8, 8))
CONV = NetworkSpec("conv", 60, 0.02, 0.5, n_conv_layer=20, kernel_size=3)
CNN = NetworkSpec("cnn", 0, 0.02, 0.9, n_conv_layer=8)
MLP = NetworkSpec("mlp", 60, 0.02, 0.5)
WIDE = NetworkSpec("conv", 600, 0.02, 0.3, n_conv_layer=200, kernel_size=3)


def digits():
    dataset = load_dataset("digits")
    return FoldedData(
        dataset.X_train, dataset.y_train, dataset.X_test, dataset.y_test, (), dataset.scaling
    )


def rows_of(data, spec, device, **training):
    return rows_of_folds(data, spec, DIGITS, TrainingSettings(device=device, **training))


def agrees_with_the_cpu(spec):
    data = digits()
    for gpu, cpu in zip(
        *(rows_of(data, spec, device, max_epochs=4) for device in ("gpu", "cpu")), strict=True
    ):
        assert gpu["status"] == cpu["status"] == "ok"
        assert gpu["n_iterations"] == cpu["n_iterations"]
        np.testing.assert_allclose(gpu["loss"], cpu["loss"], rtol=0.01)
        assert abs(gpu["n_errors"] - cpu["n_errors"]) <= 3


def test_a_convolution_agrees_with_the_cpu():
    agrees_with_the_cpu(CONV)


def test_a_network_without_one_agrees_with_the_cpu():
    agrees_with_the_cpu(MLP)


def test_the_same_seed_gives_the_same_errors():
    data = digits()
    rows, other = (rows_of(data, CONV, "gpu", max_epochs=3) for _ in range(2))
    assert [row["n_errors"] for row in rows] == [row["n_errors"] for row in other]


def test_a_wide_hidden_layer_agrees_with_the_cpu():
    agrees_with_the_cpu(WIDE)


def test_recorded_steps_are_those_launched_one_by_one():
    settings = TrainingSettings(device="gpu", max_epochs=3)
    recorded_agrees(CONV, settings)
    recorded_agrees(WIDE, settings)


def test_recorded_steps_of_a_module_are_those_launched_one_by_one():
    for options in ({}, {"schedule": "cosine"}, {"optimizer": "adamw"}, {"precision": "bf16"}):
        recorded_agrees(
            CNN, TrainingSettings.of("cnn", 1_000, device="gpu", max_epochs=2, **options)
        )


def recorded_agrees(spec, training):
    data = digits()
    recorded = rows_of_folds(data, spec, DIGITS, training)
    with patch.object(recording, "STEPS_BEFORE", 10**9):
        launched = rows_of_folds(data, spec, DIGITS, training)
    for first, second in zip(recorded, launched, strict=True):
        np.testing.assert_allclose(first["loss"], second["loss"], rtol=0.02)
        assert abs(first["n_errors"] - second["n_errors"]) <= 3
    seconds = [sum(row["fit_seconds"] for row in rows) for rows in (recorded, launched)]
    note(f"{spec.network}: recorded in {seconds[0]:.2f} s, launched in {seconds[1]:.2f} s")


def test_memory_is_within_the_prediction():
    import torch

    from pipelines.nn.size import training_bytes

    data, large = digits(), NetworkSpec("conv", 1999, 1e-3, 0.1, n_conv_layer=999, kernel_size=2)
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    rows_of(data, large, "gpu", max_epochs=1)
    used = torch.cuda.max_memory_allocated() - before
    predicted = training_bytes(large, DIGITS, 3, 10, len(data.y))
    note(f"{used / 2**30:.2f} GiB of {predicted / 2**30:.2f} GiB predicted")
    assert used <= predicted


def test_a_refit_answers_as_the_cpus():
    data = digits()
    (_, gpu), (_, cpu) = (
        refitted(data, CONV, DIGITS, TrainingSettings(device=device, max_epochs=3))
        for device in ("gpu", "cpu")
    )
    np.testing.assert_allclose(gpu.test.outputs, cpu.test.outputs, atol=0.02)
