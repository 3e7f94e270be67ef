"""The pictures that are no digits, and the page of the kept result."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from benchmarks.referral import kinds_of, page

KEPT = Path(__file__).parents[2] / "benchmarks" / "results"


def test_every_kind_is_drawn_as_images_and_again_from_the_seed() -> None:
    X = np.random.default_rng(0).integers(0, 256, (900, 784)).astype(np.uint8)
    y = np.arange(900) % 10
    kinds, again = (kinds_of(X, y, np.random.default_rng(1)) for _ in range(2))
    assert len(kinds) == 6
    for name, pictures in kinds.items():
        assert pictures.dtype == np.uint8, name
        assert pictures.shape == (2 if name == "photographs" else 300, 784)
        assert (pictures.max(axis=1) > 60).all(), name
        assert len(np.unique(pictures, axis=0)) > 0.9 * len(pictures), name
        np.testing.assert_array_equal(pictures, again[name])
    scrambled = np.sort(kinds["scrambled digits"], axis=1)
    np.testing.assert_array_equal(scrambled, np.sort(X[:300], axis=1))


def test_the_kept_page_is_that_of_the_kept_figures() -> None:
    (kept,) = KEPT.glob("*-referral-mnist-4000.json")
    assert page(json.loads(kept.read_text())) == kept.with_suffix(".md").read_text()
