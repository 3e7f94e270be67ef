"""Augmentation: each image by itself, equal generators alike, and never a mirrored digit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pipelines.errors import InputError
from pipelines.nn.augment import AUGMENTATION, AUTOMATIC, LIGHT, augment_images, choose_augmentation

CPU = torch.device("cpu")


def generators(*seeds):
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def arrows(n=60, channels=1):
    """Images with their ink left of the middle."""
    images = torch.zeros(2, n, channels, 28, 28)
    images[..., 8:20, 6:10] = 255.0
    return images


def darker(images, generator):
    return images * torch.rand(len(images), 1, 1, 1, generator=generator)


def cut(images, generator):
    return images[..., :-1]


@pytest.mark.parametrize("name", [*LIGHT, *AUTOMATIC, f"{__name__}:darker"])
def test_each_image_has_draws_of_its_own(name):
    if name in AUTOMATIC:
        pytest.importorskip("torchvision")
    images = arrows(12)
    copies = augment_images(images, name, generators(1, 2), 255.0)
    assert copies.shape == images.shape
    assert copies.dtype == torch.float32
    assert len({image.numpy().tobytes() for image in copies.flatten(0, 1)}) > 6
    assert torch.equal(copies, augment_images(images, name, generators(1, 2), 255.0))
    # A network's images do not depend on those beside them.
    alone = augment_images(images[1:], name, generators(2), 255.0)
    torch.testing.assert_close(alone[0], copies[1])
    assert copies.min() >= -1e-3
    assert copies.max() <= 255.001


def test_digits_are_moved_and_never_mirrored():
    """By a few pixels; photographs are mirrored in every second case."""
    columns = torch.arange(28.0)
    for name, mirrored in (("digits", 0.0), ("photographs", 0.5)):
        copies = augment_images(arrows(200), name, generators(3, 4), 255.0)
        centre = (copies.sum((2, 3)) * columns).sum(-1) / copies.sum((2, 3, 4))
        assert float((centre > 14).float().mean()) == pytest.approx(mirrored, abs=0.1)
        left_centres = centre[centre < 14]
        assert 0.3 < float(left_centres.std()) < 3
        assert float(left_centres.mean()) == pytest.approx(7.5, abs=0.5)


def test_light_goes_by_the_data():
    assert choose_augmentation("light", True, True) == "digits"
    assert choose_augmentation("light", True, False) == "photographs"
    assert choose_augmentation("none", False, False) == "none"
    assert choose_augmentation("augmix", True, False) == "augmix"
    with pytest.raises(InputError, match=r"augment.*needs images"):
        choose_augmentation("light", False, False)
    with pytest.raises(InputError, match="can be imported"):
        choose_augmentation("nowhere:change", True, True)
    assert AUGMENTATION.check("light") is None
    assert AUGMENTATION.check("heavy") == (
        "one of none, light, randaugment, trivialaugment, augmix, or module:function"
    )


def test_a_function_that_changes_the_size_is_refused():
    with pytest.raises(InputError, match="images of the shape it is given"):
        augment_images(arrows(2), f"{__name__}:cut", generators(1, 2), 255.0)


def test_the_automatic_ones_leave_the_generator_of_torch_alone():
    pytest.importorskip("torchvision")
    before = torch.get_rng_state()
    augment_images(arrows(2), "randaugment", generators(1, 2), 255.0)
    np.testing.assert_array_equal(before.numpy(), torch.get_rng_state().numpy())
