"""Who is gone: nobody whom one look misses."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.gang import members


class Client:
    """What it says of its workers changes from look to look."""

    def __init__(self, *looks: list[str]) -> None:
        self._looks = iter(looks)

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        assert n_workers == -1
        return {"workers": dict.fromkeys(next(self._looks))}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "SECONDS_TO_LOOK_AGAIN", 0)


def test_an_old_answer_ends_no_gang() -> None:
    client: Any = Client(["b"], ["a", "b"])
    assert members.gone_of(client, ["a", "b"]) == []


def test_a_worker_that_two_looks_miss_is_gone() -> None:
    client: Any = Client(["b"], ["b"])
    assert members.gone_of(client, ["a", "b"]) == ["a"]
