"""``verify`` on executors in other JVMs, and over Connect: the same result as in this process."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from fleet import fleet_work
from fleet.spark_cluster import cluster
from fleet.spark_sessions import through
from kdump.fleet.session.session import Cluster, open_session
from support.fleet_reports import Verified, assert_equal, fleet_broker, verified

pytestmark = pytest.mark.spark
__all__ = ["verified"]  # a fixture


def test_over_connect(tmp_path: Path, verified: Verified, monkeypatch: pytest.MonkeyPatch) -> None:
    top = fleet_broker(tmp_path / "broker", 5)
    here = verified(top)
    with open_session(Cluster(remote="local[2]")) as session:
        through(session, monkeypatch)
        assert_equal(here, verified("--remote", "local[2]", top))
        assert_equal(verified("--quick", top), verified("--remote", "local[2]", "--quick", top))


@pytest.mark.nightly
def test_on_a_cluster_whose_executor_is_killed(
    tmp_path: Path, verified: Verified, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = fleet_broker(tmp_path / "broker", 5)
    here = verified(top)
    flag = tmp_path / "flag"
    with cluster(tmp_path, monkeypatch) as session:
        through(session, monkeypatch)
        assert_equal(here, verified("--master", "local[2]", top))
        with fleet_work.by_value():
            killed = partial(fleet_work.work_without_executor, flag=flag)
            monkeypatch.setattr("kdump.fleet.verify.verify.run_task", killed)
            assert_equal(here, verified("--master", "local[2]", top))
    assert flag.read_text() != str(os.getpid())
