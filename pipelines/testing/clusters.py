"""The contract of clusters: what a run relies on, wherever the workers are."""

from __future__ import annotations

import os
import re
from contextlib import suppress

import psutil
import pytest

from cluster_setup import ClusterOptions, open_cluster, render, resolve_kind

KEPT_BY_PYTHON = re.compile(r"multiprocessing\.(resource_tracker|forkserver)")


class ClusterKindContract:
    """Tests of a kind of cluster; a subclass defines the fixture ``options``.

    The workers that were asked for come, carry out tasks on data that were scattered to them, and
    hand an error back as it was raised; when the block ends, whether in order or by an error, no
    process that was started for it remains.
    """

    @pytest.fixture
    def options(self) -> ClusterOptions:
        """Options of the kind with ``workers`` set, as ``open_cluster`` takes them."""
        raise NotImplementedError("define the fixture options in the subclass")

    def test_its_name_is_known(self, options: ClusterOptions) -> None:
        assert resolve_kind(options.kind, options.profile) == options.kind

    def test_tasks_are_carried_out_by_the_workers_asked_for(self, options: ClusterOptions) -> None:
        children = _children()
        with open_cluster(options) as client:
            assert options.workers is not None
            client.wait_for_workers(options.workers)
            assert len(client.scheduler_info(n_workers=-1)["workers"]) == options.workers
            data = client.scatter(list(range(10)), hash=False)
            assert client.submit(sum, client.gather(data), pure=False).result() == 45
            future = client.submit(_refuse, "as it was raised", pure=False)
            with pytest.raises(ValueError, match=r"^as it was raised$"):
                future.result()
            assert client.submit(os.getpid, pure=False).result() > 0  # the worker lives on
        assert client.status == "closed"
        assert _children() <= children

    def test_an_error_in_the_block_closes_it(self, options: ClusterOptions) -> None:
        children = _children()
        with pytest.raises(KeyError, match="of the caller"), open_cluster(options) as client:
            raise KeyError("of the caller")
        assert client.status == "closed"
        assert _children() <= children

    def test_a_job_script_is_text_or_there_is_none(self, options: ClusterOptions) -> None:
        script = render(options)
        assert script is None or script.startswith("#!")


def _refuse(message: str) -> None:
    raise ValueError(message)


def _children() -> set[int]:
    """Processes that this one has started, but for those that multiprocessing keeps for later."""
    pids = set()
    for child in psutil.Process().children():
        with suppress(psutil.Error):  # it has ended in the meantime
            if not KEPT_BY_PYTHON.search(" ".join(child.cmdline())):
                pids.add(child.pid)
    return pids
