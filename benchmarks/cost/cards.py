"""Cards as arithmetic sees them; figures from NVIDIA's data sheets of the SXM boards."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Card:
    """A GPU.

    Attributes
    ----------
    name : str
    multiprocessors : int
    clock : float
        Boost clock, Hz.
    bandwidth : float
        Of its memory, bytes a second.
    float32 : float
        Products and sums a second, without tensor cores.
    """

    name: str
    multiprocessors: int
    clock: float
    bandwidth: float
    float32: float


CARDS = {
    card.name: card
    for card in (
        Card("A100", 108, 1.41e9, 2.04e12, 19.5e12),
        Card("H100", 132, 1.98e9, 3.35e12, 67e12),
        Card("H200", 132, 1.98e9, 4.8e12, 67e12),
    )
}
# The card for which the cost of an iteration is known, see ``benchmarks.cost.seconds``.
REFERENCE = CARDS["H200"]
