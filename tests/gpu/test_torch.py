"""torch sees the device, and its arithmetic is right."""

import numpy as np

from benchmarks.gpu.device import gpus
from benchmarks.gpu.figures import note


def test_torch_sees_every_gpu():
    import torch

    assert torch.cuda.device_count() == len(gpus())
    note(f"torch {torch.__version__}")


def test_a_product_in_single_precision_is_right():
    import torch

    rng = np.random.default_rng(1)
    A, B = (rng.standard_normal(shape, dtype=np.float32) for shape in ((500, 784), (784, 300)))
    product = (torch.from_numpy(A).cuda() @ torch.from_numpy(B).cuda()).cpu().numpy()
    exact = A.astype(np.float64) @ B.astype(np.float64)
    assert np.abs(product - exact).max() < 1e-3
