"""The orders in which stages work through micro-batches: what each needs, and its ideal bubble.

The schedules themselves are torch's (``torch.distributed.pipelining``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.errors import InputError, opt

SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero-bubble")
STAGES_OF_A_RANK = {"gpipe": 1, "1f1b": 1, "interleaved": 2, "zero-bubble": 2}


@dataclass(frozen=True)
class Plan:
    """A schedule for so many ranks and micro-batches.

    Attributes
    ----------
    schedule : one of ``SCHEDULES``
    """

    schedule: str
    n_ranks: int
    n_micro: int

    @property
    def n_stages(self) -> int:
        return self.n_ranks * STAGES_OF_A_RANK[self.schedule]

    def stages_of(self, rank: int) -> list[int]:
        """Return stages of a rank: dealt in a circle, with zero-bubble there and back again."""
        if STAGES_OF_A_RANK[self.schedule] == 1:
            return [rank]
        if self.schedule == "zero-bubble":
            return [rank, self.n_stages - 1 - rank]
        return [rank, rank + self.n_ranks]

    @property
    def ideal_bubble(self) -> float:
        """Return the idle share of the ranks' time, where stages are equal and messages take none.

        With P ranks and M micro-batches (P-1)/(M+P-1), of GPipe (Huang et al. 2019) and 1F1B
        (Narayanan et al. 2019) alike; interleaved, with v stages on a rank, (P-1)/(vM+P-1)
        (Narayanan et al. 2021). ZB-V (Qi et al. 2024) fills all but its start, (P-1)/(6M+P-1),
        if forward and both halves of backward take equal time and M is at least 2P-1.
        """
        idle = self.n_ranks - 1
        if self.schedule == "interleaved":
            return idle / (2 * self.n_micro + idle)
        if self.schedule == "zero-bubble":
            return idle / (6 * self.n_micro + idle)
        return idle / (self.n_micro + idle)

    def refuse_impossible(self) -> None:
        """Refuse what torch's schedules cannot do.

        Raises
        ------
        InputError
        """
        n_ranks, n_micro = self.n_ranks, self.n_micro
        least = {"1f1b": n_ranks, "zero-bubble": 2 * n_ranks - 1}.get(self.schedule, 1)
        if n_micro < least:
            raise InputError(
                f"{opt('micro_batches')} must be at least {least} for "
                f"{opt('schedule', self.schedule)} on {n_ranks} stages, got {n_micro}; take more, "
                f"or {opt('schedule', 'gpipe')}"
            )
        rounds = max(1, n_micro // n_ranks)
        if self.schedule == "interleaved" and n_micro % rounds:
            raise InputError(
                f"{opt('micro_batches')} must be a multiple of {rounds}, its rounds of {n_ranks}, "
                f"for {opt('schedule', self.schedule)}, got {n_micro}; take "
                f"{n_micro // n_ranks * n_ranks}"
            )

    def among(self, n_ranks: int) -> Plan:
        """Return the plan for fewer ranks after a loss; gpipe if this schedule is impossible."""
        plan = Plan(self.schedule, n_ranks, self.n_micro)
        try:
            plan.refuse_impossible()
        except InputError:
            return Plan("gpipe", n_ranks, self.n_micro)
        return plan

    def make(self, stages: Sequence[Any], loss: Callable[[Any, Any], Any]) -> Any:
        """Return torch's schedule of a rank's stages; gradients are summed over micro-batches."""
        from torch.distributed import pipelining

        kinds = {
            "gpipe": pipelining.ScheduleGPipe,
            "1f1b": pipelining.Schedule1F1B,
            "interleaved": pipelining.ScheduleInterleaved1F1B,
            "zero-bubble": pipelining.ScheduleZBVZeroBubble,
        }
        mine: Any = stages[0] if STAGES_OF_A_RANK[self.schedule] == 1 else list(stages)
        kind: Any = kinds[self.schedule]
        return kind(mine, self.n_micro, loss_fn=loss, scale_grads=False)
