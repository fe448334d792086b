"""What brokers did to their copies of partitions, beside what ``kdump compare`` says of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from brokers.replicas import NODES, Outcome
from support.broker_files import in_segment
from support.commands import Ran, kdump
from support.fixtures_loader import ROOT


class Cut(NamedTuple):
    """The offset to which a follower truncates, None if it does not, and whether it drops all."""

    offset: int | None
    restart: bool


#: By topic, leader and follower, which are nodes.
Cuts = dict[tuple[str, int, int], Cut]


def compare(top: Path) -> Ran:
    """Compare the directories of three brokers below ``top``."""
    return kdump("compare", *(top / str(node) for node in NODES), searching=False)


def cuts_of(ran: Ran, topics: Iterable[str]) -> Cuts:
    """What a comparison says of the first partition of each topic."""
    nodes = {(line["topic"], line["copy"]): line["node_id"] for line in ran.of("copy")}
    wanted = set(topics)
    return {
        (topic, nodes[topic, line["copy"]], nodes[topic, cut["copy"]]): Cut(
            cut["offset"], cut["restart"]
        )
        for line in ran.of("leader")
        for topic in [line["topic"]]
        for cut in line["truncations"]
        if topic in wanted
    }


def cuts_by(leader: int, outcomes: Mapping[str, Mapping[int, Outcome]]) -> Cuts:
    """What brokers have done when a node led."""
    return {
        (topic, leader, node): Cut(outcome.offset, outcome.restart)
        for topic, by_node in outcomes.items()
        for node, outcome in by_node.items()
    }


def kept_outcomes(name: str) -> dict[int, dict[str, dict[int, Outcome]]]:
    """What brokers did with the copies of a fixture, by leader, topic and follower."""
    told = json.loads((ROOT / "brokers" / f"{name}.truncations.json").read_text())
    return {
        int(leader): {
            topic: {
                int(node): Outcome(**{**each, "answers": tuple(each["answers"])})
                for node, each in by_node.items()
            }
            for topic, by_node in topics.items()
        }
        for leader, topics in told.items()
    }


def log_ends(top: Path, topic: str) -> dict[int, int]:
    """The log end offsets of the copies, by node, as the batches of their last segments say."""
    ends = {}
    for node in NODES:
        last = max((top / str(node) / f"{topic}-0").glob("*.log"))
        ends[node] = max(
            (batch.last_offset + 1 for batch in in_segment(last)), default=int(last.stem)
        )
    return ends


def last_epochs(top: Path, topic: str) -> dict[int, int]:
    """The leader epochs of the last batches of the copies, by node; -1 without batches."""
    epochs = {}
    for node in NODES:
        logs = sorted((top / str(node) / f"{topic}-0").glob("*.log"))
        found = [batch.epoch for log in logs for batch in in_segment(log)]
        epochs[node] = found[-1] if found else -1
    return epochs
