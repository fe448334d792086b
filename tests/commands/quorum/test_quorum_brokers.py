"""``kdump quorum`` on the disks of three real controllers, beside whom they elect when started."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from brokers.controllers import NODES, Controllers
from support import quorum_disks as disks
from support.commands import Ran, kdump

pytestmark = pytest.mark.broker

#: How long nobody may be elected where nobody can be; an election takes half a second.
QUIET_S = 4
#: How long an election may take, with other programs on all CPUs: then votes come too late.
ELECTION_S = 60


@dataclass(frozen=True)
class Stopped:
    """Controllers that were killed, the copy of their disks below ``base``, and the last leader."""

    controllers: Controllers
    base: Path
    leader: int

    def node(self, role: int) -> int:
        """The node of a role: 0 is the last leader, 1 and 2 are its followers."""
        followers = [node for node in NODES if node != self.leader]
        return [self.leader, *followers][role]


@pytest.fixture(scope="module")
def stopped(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stopped]:
    """Killed controllers of a release, whose voters are static, or in the metadata log."""
    version, voters = request.param
    top = tmp_path_factory.mktemp("quorum")
    with Controllers(version, top / "data", dynamic=voters == "dynamic") as controllers:
        controllers.format()
        assert controllers.start() == {}
        assert controllers.wait()
        time.sleep(1)  # records of an idle leader
        controllers.alter_configs({"num.io.threads": "2"})
        time.sleep(0.5)
        leader = controllers.elected()[-1].node
        controllers.kill()
        shutil.copytree(top / "data", top / "base")
        yield Stopped(controllers, top / "base", leader)


Scenarios = Mapping[str, Mapping[int, disks.Damage]]

#: Damage by role.
STATIC: Scenarios = {
    "torn, cut": {0: disks.tear_batch(8), 1: disks.cut_batches(14)},
    "flipped, flipped": {1: disks.flip_byte(12), 2: disks.flip_byte(9)},
    "empty quorum-state, no quorum-state": {
        0: disks.empty_quorum_state,
        1: disks.remove_quorum_state,
    },
    "no meta.properties, no log": {0: disks.remove_meta, 1: disks.remove_log},
    "other cluster, flipped": {1: disks.change_cluster, 2: disks.flip_byte(7)},
    "no meta.properties, garbled vote": {1: disks.remove_meta, 2: disks.garble_quorum_state},
    "leader without quorum-state, cut": {0: disks.remove_quorum_state, 1: disks.cut_batches(4)},
}
DYNAMIC: Scenarios = {
    "other directory, cut": {1: disks.change_directory_id, 2: disks.cut_batches(5)},
    "other directory, no log": {0: disks.change_directory_id, 1: disks.remove_log},
}


def scenarios(version: str, voters: str, named: Scenarios, *, often: int = 0) -> Iterator[object]:
    """Scenarios as parameters; those behind the first ``often`` run at night."""
    for number, (name, damages) in enumerate(named.items()):
        marks = () if number < often else pytest.mark.nightly
        yield pytest.param((version, voters), damages, id=f"{version}: {name}", marks=marks)


@pytest.mark.parametrize(
    ("stopped", "damages"),
    [
        *scenarios("4.3.1", "static", STATIC, often=1),
        *scenarios("4.3.1", "dynamic", DYNAMIC),
        *scenarios("3.9.1", "static", STATIC),
        *scenarios("3.9.1", "dynamic", DYNAMIC),
    ],
    indirect=["stopped"],
    scope="module",
)
def test_the_elected_node_is_one_that_was_named(
    stopped: Stopped, damages: Mapping[int, disks.Damage]
) -> None:
    controllers = stopped.controllers
    controllers.replace(stopped.base)
    for role, damage in damages.items():
        damage(controllers.directory(stopped.node(role)))
    ran = predict(controllers)
    (summary,) = ran.of("summary")
    copies = dict(zip(NODES, ran.of("copy"), strict=True))
    leaders = {leader["node_id"]: leader for leader in ran.of("leader")}
    at_risk = [
        NODES[each["copies"][0] - 1]
        for each in ran.of("problem")
        if each["kind"] in ("leadership-forgotten", "voters-unknown")
    ]
    # Where another leader would lose changes, the report names the nodes to start first.
    changes = {leader["lost_changes"] for leader in leaders.values()}
    first = set(summary["start_first"] if len(changes) > 1 else NODES)
    try:
        failed = dict(controllers.start(first))
        controllers.wait(ELECTION_S if leaders else QUIET_S)
        failed |= controllers.start(set(NODES) - first)
        time.sleep(1)  # until all have fetched
        elected = controllers.elected()
        assert set(failed) == {node for node, copy in copies.items() if not copy["starts"]}
        assert summary["can_lead"] == list(leaders)
        if any(map(controllers.stopped_for, NODES)):
            assert [node for node in NODES if controllers.stopped_for(node)] == at_risk
            return
        assert bool(elected) == bool(leaders)
        if leaders:
            check(elected[0], summary, copies, exact=len(changes) > 1)
        assert_losses(controllers, copies, leaders)
    finally:
        controllers.kill()
    assert not [each for each in predict(controllers).of("problem") if "content" in each["kind"]]


#: In a batch of one short record: the attributes of the record, which nothing reads.
_ATTRIBUTES = 62


@pytest.mark.nightly
@pytest.mark.parametrize("stopped", [("4.3.1", "static")], indirect=True, scope="module")
def test_the_advice_for_copies_that_diverge_heals(stopped: Stopped, tmp_path: Path) -> None:
    controllers, node = stopped.controllers, stopped.node(1)
    controllers.replace(stopped.base)
    assert diverging(controllers) == []
    disks.reseal_batch(2, _ATTRIBUTES)(controllers.directory(node))
    found = diverging(controllers)
    assert found
    run(controllers)
    assert diverging(controllers) == found  # no node notices
    shutil.move(controllers.directory(node) / disks.METADATA, tmp_path)
    run(controllers)
    assert diverging(controllers) == []


def diverging(controllers: Controllers) -> list[tuple[str, object]]:
    ran = kdump("verify", *(controllers.directory(node) for node in NODES), searching=False)
    return [
        (each["path"], each["offsets"]["first"])
        for each in ran.of("finding")
        if each["code"] == "metadata-diverges"
    ]


def run(controllers: Controllers) -> None:
    """Start all nodes, until all have fetched from the elected one, and kill them."""
    try:
        assert controllers.start() == {}
        assert controllers.wait()
        time.sleep(1)
    finally:
        controllers.kill()


def predict(controllers: Controllers) -> Ran:
    return kdump("quorum", *(controllers.directory(node) for node in NODES), searching=False)


def check(
    elected: Any, summary: dict[str, Any], copies: Mapping[int, dict[str, Any]], *, exact: bool
) -> None:
    """The first that was elected: where one node is to be started first, it is that one."""
    assert elected.node in (summary["start_first"][:1] if exact else summary["can_lead"])
    assert elected.start_offset == copies[elected.node]["log_end_offset"]
    assert elected.epoch > copies[elected.node]["last_epoch"]


def assert_losses(
    controllers: Controllers,
    copies: Mapping[int, dict[str, Any]],
    leaders: Mapping[int, dict[str, Any]],
) -> None:
    """The logs that leaders have cut are those that were to lose records, at these offsets."""
    elected = [each.node for each in controllers.elected()]
    expected = {
        (loss["node_id"], loss["first_offset"])
        for node in elected
        for loss in leaders[node]["losses"]
        # A copy that has lost its ids is of no node that starts.
        if loss["node_id"] and not loss["cut_at_start"] and copies[loss["node_id"]]["starts"]
    }
    # Cuts at or above the old end are of what a leader wrote that was replaced at once.
    found = {
        (node, offset)
        for node, offset in controllers.truncations()
        if offset < copies[node]["log_end_offset"]
    }
    if len(elected) == 1:
        assert found == expected
    # The first leader may have been replaced before all had fetched from it.
    assert found <= expected
