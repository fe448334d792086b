"""``kdump compare`` on the copies of three real brokers, and what each of them did as a leader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from brokers.histories import NAMES
from brokers.replicas import NODES
from commands.compare.comparisons import (
    Cuts,
    compare,
    cuts_by,
    cuts_of,
    kept_outcomes,
    last_epochs,
    log_ends,
)
from support.commands import Ran
from support.fixtures_loader import REPLICAS, copy_fixture, few_first

pytestmark = pytest.mark.once

#: A topic that two of the brokers have under an id that is no more.
RECREATED = "recreated"
SAME = tuple(name for name in NAMES if name != RECREATED)
STATES = {
    "same": "equal",
    "empty": "equal",
    "cleaned": "equal",
    "behind": "lagging",
    "outrun": "lagging",
    "parted": "different",
    "within": "different",
    "in-turn": "different",
    "restored": "different",
    "recreated": "different",
}


@pytest.fixture(scope="module", params=few_first(REPLICAS))
def name(request: pytest.FixtureRequest) -> str:
    """The name of a fixture."""
    return str(request.param)


@pytest.fixture(scope="module")
def nodes(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directories of the brokers of the fixture."""
    return copy_fixture(name, tmp_path_factory.mktemp("nodes") / "top")


@pytest.fixture(scope="module")
def ran(nodes: Path) -> Ran:
    return compare(nodes)


def of(ran: Ran, kind: str, topic: str) -> list[dict[str, Any]]:
    """The lines of one type about a topic."""
    return [line for line in ran.of(kind) if line["topic"] == topic]


def test_followers_truncated_to_the_offsets_that_are_named(name: str, ran: Ran) -> None:
    told: Cuts = {}
    for leader, outcomes in kept_outcomes(name).items():
        told |= cuts_by(leader, {topic: outcomes[topic] for topic in SAME})
    assert len(told) == 6 * len(SAME)
    assert cuts_of(ran, SAME) == told


def test_the_fixture_has_truncations_in_several_rounds(name: str) -> None:
    rounds = {
        topic: max(
            len(outcomes[topic][node].answers)
            for outcomes in kept_outcomes(name).values()
            for node in outcomes[topic]
        )
        for topic in SAME
    }
    assert rounds["in-turn"] == 3
    assert rounds["parted"] == rounds["within"] == 1


@pytest.mark.parametrize("topic", NAMES)
def test_the_state_is_what_became_of_the_topic(topic: str, ran: Ran) -> None:
    (line,) = of(ran, "partition", topic)
    assert line["state"] == STATES[topic]
    assert ran.code == 4


@pytest.mark.parametrize("topic", NAMES)
def test_ends_are_those_of_the_batches(topic: str, ran: Ran, nodes: Path) -> None:
    copies = of(ran, "copy", topic)
    ends = {line["node_id"]: line["log_end_offset"] for line in copies}
    assert ends == log_ends(nodes, topic)
    found = [each["reason"] for line in copies for each in line["damages"]]
    # The backup is older than the checkpoint beside it.
    assert found == (["end-missing"] if topic == "restored" else [])


@pytest.mark.parametrize("topic", SAME)
def test_preference_is_the_last_epoch_then_the_end(topic: str, ran: Ran, nodes: Path) -> None:
    copies = sorted(of(ran, "copy", topic), key=lambda line: line["preference"])
    epochs, ends = last_epochs(nodes, topic), log_ends(nodes, topic)
    ranks = [(epochs[line["node_id"]], ends[line["node_id"]]) for line in copies]
    assert ranks == sorted(ranks, reverse=True)


@pytest.mark.parametrize("topic", ["behind", "outrun"])
def test_the_first_choice_cuts_nothing_where_copies_lag(topic: str, ran: Ran) -> None:
    (first,) = (line["copy"] for line in of(ran, "copy", topic) if line["preference"] == 1)
    (leader,) = (line for line in of(ran, "leader", topic) if line["copy"] == first)
    assert all(cut["restart"] or cut["offset"] is None for cut in leader["truncations"])


@pytest.mark.parametrize("topic", ["behind", "within", "restored", "outrun"])
def test_records_that_are_lost_are_those_from_the_offset_on(
    name: str, topic: str, ran: Ran
) -> None:
    copies = {line["copy"]: line for line in of(ran, "copy", topic)}
    for line in of(ran, "leader", topic):
        outcomes = kept_outcomes(name)[copies[line["copy"]]["node_id"]][topic]
        for cut in line["truncations"]:
            copy = copies[cut["copy"]]
            outcome = outcomes[copy["node_id"]]
            if outcome.offset is None:
                assert (cut["records"], cut["first_offset"], cut["last_offset"]) == (0, None, None)
                continue
            # Each has a record at every offset.
            start, end = copy["log_start_offset"], outcome.end
            assert end is not None
            first = start if outcome.restart else max(outcome.offset, start)
            assert (cut["first_offset"], cut["last_offset"]) == (first, end - 1)
            assert cut["records"] == end - first


def test_a_recreated_topic_is_told_apart(ran: Ran) -> None:
    ids = {line["node_id"]: line["topic_id"] for line in of(ran, "copy", RECREATED)}
    assert ids[1] == ids[3] != ids[2]
    kinds = [(line["kind"], line["copies"]) for line in of(ran, "difference", RECREATED)]
    assert kinds == [("recreated", [1, 2]), ("recreated", [2, 3])]
    # The brokers of the old one begin anew when 2 leads, and it truncates for none of them.
    assert {(key[1], key[2]) for key in cuts_of(ran, [RECREATED])} == {(1, 3), (3, 1)}
    (line,) = of(ran, "partition", RECREATED)
    assert (line["first"], line["unclean"]) == (2, False)


@pytest.mark.parametrize(
    ("topic", "parts"),
    [
        ("same", {}),
        ("cleaned", {}),
        ("behind", {}),
        ("parted", {(1, 2)}),
        ("within", {(1, 2)}),
        ("in-turn", {(1, 2), (1, 3), (2, 3)}),
        ("restored", {(1, 3), (2, 3)}),
    ],
)
def test_lineages_part_between_these(topic: str, parts: set[tuple[int, int]], ran: Ran) -> None:
    found = of(ran, "difference", topic)
    assert {tuple(line["copies"]) for line in found} == set(parts)
    assert {line["kind"] for line in found} <= {"epochs"}


def test_those_in_sync_are_what_the_metadata_log_says(ran: Ran) -> None:
    for topic in NAMES:
        in_sync = {line["node_id"] for line in of(ran, "copy", topic) if line["in_sync"]}
        # The last that ran leads all.
        assert in_sync == {2}
        assert {line["node_id"] for line in of(ran, "copy", topic)} == set(NODES)
