"""The idle class of the CPU scheduler."""

from __future__ import annotations

import os
import sys

import pytest

from kdump.storage import workers
from kdump.storage.throttle import use_idle_cpu

#: The call itself, which other tests do without.
SET_SCHEDULER = getattr(os, "sched_setscheduler", None)


@pytest.mark.skipif(sys.platform != "linux", reason="the scheduler is that of Linux")
def test_a_worker_goes_into_the_idle_class_and_its_parent_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_setscheduler", SET_SCHEDULER)

    def work(_: int, __: object) -> int:
        use_idle_cpu()
        use_idle_cpu()
        return os.sched_getscheduler(0)

    (result,) = workers.run(work, [0], 1)
    assert result.value == os.SCHED_IDLE
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
