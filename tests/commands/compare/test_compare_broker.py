"""``kdump compare`` beside real brokers: what followers truncate, and clusters at rest.

The brokers are started again on what was compared, one of them first, so that it leads; what the
others say in their logs is what must have been named.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.histories import NAMES, part, rest, wander
from brokers.replicas import CONTROLLER, NODES, Replicas
from commands.compare.comparisons import Cuts, compare, cuts_by, cuts_of, kept_outcomes, log_ends
from commands.compare.following import commands_of, follow, text_of
from support.fixtures_loader import REPLICAS, copy_fixture, few_first

pytestmark = pytest.mark.broker

VERSIONS = ("4.3.1", "3.9.1")
SAME = tuple(name for name in NAMES if name != "recreated")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return tmp_path / "nodes"


def led(cluster: Replicas, kept: Path, topics: list[str]) -> Cuts:
    """What followers do for each leader, with the directories below ``kept``."""
    told: Cuts = {}
    for leader in NODES:
        cluster.replace(kept)
        ends = {topic: log_ends(kept, topic) for topic in topics}
        outcomes = cluster.truncations(leader, topics)
        for topic, by_node in outcomes.items():
            assert {node: outcome.end for node, outcome in by_node.items()} == {
                node: end for node, end in ends[topic].items() if node != leader
            }
        told |= cuts_by(leader, outcomes)
    return told


@pytest.mark.parametrize(
    "leader", [*(pytest.param(node, marks=pytest.mark.nightly) for node in (1, 2)), 3]
)
@pytest.mark.parametrize("name", few_first(REPLICAS))
def test_a_broker_started_first_cuts_what_is_named(name: str, leader: int, top: Path) -> None:
    copy_fixture(name, top)
    ran = compare(top)
    with Replicas(name.split("/")[0], top) as cluster:
        outcomes = cluster.truncations(leader, NAMES)
        cluster.stop(*NODES, CONTROLLER)
    assert outcomes == kept_outcomes(name)[leader]
    told = cuts_by(leader, {topic: outcomes[topic] for topic in SAME})
    assert {key: cut for key, cut in cuts_of(ran, SAME).items() if key[1] == leader} == told
    # Now the others follow it.
    after = compare(top)
    assert list(after.of("difference")) == []
    lines = {line["topic"]: line for line in after.of("partition")}
    for topic in NAMES:
        # A log that was cut as a whole begins at the log start of its leader, another one stays.
        copies = (line for line in after.of("copy") if line["topic"] == topic)
        starts = {copy["log_start_offset"] for copy in copies}
        assert lines[topic]["state"] == ("equal" if len(starts) == 1 else "lagging"), topic


@pytest.mark.nightly
@pytest.mark.parametrize("name", few_first(REPLICAS))
def test_a_replica_in_sync_that_lost_its_end_leads_once_it_is_healed(name: str, top: Path) -> None:
    """The steps of the report to their end, on brokers that allow no unclean election."""
    copy_fixture(name, top)
    for path in (top / "2" / "behind-0").glob("00000000000000000041.*"):
        path.unlink()
    paths = [top / str(node) for node in NODES]
    after = follow(text_of("--topic", "behind", *paths))
    assert "start node 2 first" in after
    assert commands_of(after) == []
    clean = {"unclean.leader.election.enable": "false"}
    with Replicas(name.split("/")[0], top, dict.fromkeys((CONTROLLER, *NODES), clean)) as cluster:
        outcomes = cluster.truncations(2, ["behind"])
        cluster.stop(*NODES, CONTROLLER)
    assert {node: found.offset for node, found in outcomes["behind"].items()} == {1: None, 3: None}
    assert log_ends(top, "behind") == dict.fromkeys(NODES, 57)


@pytest.mark.nightly
@pytest.mark.parametrize("name", few_first(REPLICAS))
def test_an_unclean_election_by_a_client_cuts_the_same(name: str, top: Path) -> None:
    copy_fixture(name, top)
    clean = {"unclean.leader.election.enable": "false"}
    with Replicas(name.split("/")[0], top, dict.fromkeys((CONTROLLER, *NODES), clean)) as cluster:
        outcomes = cluster.truncations(3, NAMES, elect=True)
    assert outcomes == kept_outcomes(name)[3]


@pytest.mark.nightly
@pytest.mark.parametrize("version", VERSIONS)
def test_copies_that_have_parted(version: str, top: Path, tmp_path: Path) -> None:
    with Replicas(version, top) as cluster:
        part(cluster)
        ran = compare(top)
        told = led(cluster, cluster.copy(tmp_path / "kept"), list(SAME))
    assert cuts_of(ran, SAME) == told
    assert {cut.restart for cut in told.values()} == {False, True}


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("version", VERSIONS)
def test_copies_of_chance(version: str, seed: int, top: Path, tmp_path: Path) -> None:
    with Replicas(version, top) as cluster:
        names = wander(cluster, seed)
        ran = compare(top)
        told = led(cluster, cluster.copy(tmp_path / "kept"), names)
    assert cuts_of(ran, names) == told
    assert any(cut.offset is not None for cut in told.values())


@pytest.mark.nightly
@pytest.mark.parametrize(("version", "rounds"), [("4.3.1", 50), ("3.9.1", 2)])
def test_copies_at_rest_do_not_differ(version: str, rounds: int, top: Path) -> None:
    with Replicas(version, top) as cluster:
        for seed in range(rounds):
            names = rest(cluster, seed)
            ran = compare(top)
            assert list(ran.of("difference")) == []
            assert ran.code == 0
            states = {line["topic"]: line["state"] for line in ran.of("partition")}
            assert {states[name] for name in names} == {"equal"}
            assert {cut.offset for cut in cuts_of(ran, names).values()} == {None}
