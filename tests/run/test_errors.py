from __future__ import annotations

from types import SimpleNamespace

import pytest
from distributed.comm import CommClosedError

from pipelines.run.errors import RunStopped, stop_if_lost


@pytest.mark.parametrize("error", [CommClosedError("closed"), TimeoutError()])
def test_a_scheduler_that_is_gone_before_its_client_notices_is_lost(error):
    def raise_error(*_, **__):
        raise error

    client = SimpleNamespace(
        status="running", sync=raise_error, scheduler=SimpleNamespace(identity=None)
    )
    with pytest.raises(RunStopped, match=r"^the scheduler at tcp://there no longer responds$"):
        stop_if_lost(client, "tcp://there")


def test_a_scheduler_that_answers_is_not_lost(one_worker):
    stop_if_lost(one_worker, one_worker.scheduler.address)
