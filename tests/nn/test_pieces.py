"""A long layer's products, in pieces, as a GPU is given them."""

from __future__ import annotations

import pytest
import torch

from pipelines.nn.by_hand import MOST_PIECES, by_inputs_of, hidden_of, pieces_of


def test_pieces_give_the_sums_of_the_whole():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(3, 10, 4_608, generator=generator)
    weight, bias = torch.randn(3, 4_608, 7, generator=generator), torch.randn(3, 1, 7)
    whole = hidden_of(X, weight, bias, 1)
    assert pieces_of(4_608) == 32
    for n_pieces in (2, 32):
        torch.testing.assert_close(
            hidden_of(X, weight, bias, n_pieces), whole, rtol=1e-4, atol=1e-3
        )


def test_gradients_by_the_inputs_of_a_long_layer_are_the_same():
    generator = torch.Generator().manual_seed(1)
    by_hidden = torch.randn(3, 10, 7, generator=generator)
    weight = torch.randn(3, 96, 7, generator=generator)
    gradient = by_inputs_of(by_hidden, weight, 32)
    assert gradient.is_contiguous()
    torch.testing.assert_close(gradient, by_inputs_of(by_hidden, weight, 1))


@pytest.mark.parametrize(("n_inputs", "n_pieces"), [(784, 1), (4_096, 32), (997 * 529, 23)])
def test_pieces_are_of_one_size(n_inputs, n_pieces):
    assert pieces_of(n_inputs) == n_pieces <= MOST_PIECES
    assert n_inputs % n_pieces == 0
