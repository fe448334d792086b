"""Replicas that the metadata assigns to a log directory of the node that is not in sight."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kdump.audit.findings import Finding
from kdump.cli.main import main
from kdump.storage.liveness import BrokerState
from kdump.ui import exits
from support.damaged import Recipe, batches
from support.forge import TOPIC_ID
from support.forge_metadata import change, log, partition, register, segment_name, topic
from support.pipeline import judge
from support.recipes_directory import DIRECTORY_ID, META, OTHER_ID, meta_properties

ALONE, SHARED = "replica-directory-missing-only", "replica-directory-missing"
UNASSIGNED, MIGRATING, LOST = 21 * "A" + "Q", 22 * "A", 21 * "A" + "g"
GONE_ID = "dGhlLXRvcGljLXRoYXQtZw"


def node(path: Path, *values: bytes) -> Path:
    """A node with a partition of the topic ``here``, whose metadata log has ``values`` too."""
    known = [topic("here", TOPIC_ID), partition(TOPIC_ID, directories=[DIRECTORY_ID]), *values]
    Recipe("here", [], batches(0), batches(100), top=META | {segment_name(): log(known)}).write(
        path
    )
    return path


def assigned(*directories: str, nodes: Sequence[int] = (1,), number: int = 0) -> list[bytes]:
    """The records of a partition that is not in the directory."""
    return [topic("gone", GONE_ID), partition(GONE_ID, number, nodes, directories)]


def of_replicas(found: Sequence[Finding]) -> list[str]:
    return [each.code.name for each in found if each.code.name in (ALONE, SHARED)]


CASES = [
    ("the only replica", assigned(OTHER_ID), [ALONE]),
    ("two replicas in sync", assigned(OTHER_ID, OTHER_ID, nodes=(1, 2)), [SHARED]),
    (
        "the only one in sync",
        [*assigned(OTHER_ID, OTHER_ID, nodes=(1, 2)), change(GONE_ID, 0, in_sync=[1])],
        [ALONE],
    ),
    (
        "another one in sync",
        [*assigned(OTHER_ID, OTHER_ID, nodes=(1, 2)), change(GONE_ID, 0, in_sync=[2])],
        [SHARED],
    ),
    (
        "none in sync, the only one eligible",
        [
            *assigned(OTHER_ID, OTHER_ID, nodes=(1, 2)),
            change(GONE_ID, 0, in_sync=[], eligible=[1]),
        ],
        [ALONE],
    ),
    (
        "none in sync, another one eligible",
        [
            *assigned(OTHER_ID, OTHER_ID, nodes=(1, 2)),
            change(GONE_ID, 0, in_sync=[], eligible=[1, 2]),
        ],
        [SHARED],
    ),
    ("of another node", assigned(OTHER_ID, nodes=(2,)), []),
    ("not assigned yet", assigned(UNASSIGNED), []),
    ("from before directory ids", assigned(MIGRATING), []),
    ("in an offline directory", assigned(LOST), [ALONE]),
    ("in this directory, and not yet created", assigned(DIRECTORY_ID), []),
]


@pytest.mark.parametrize(
    ("values", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_who_else_may_lead_decides(
    tmp_path: Path, values: list[bytes], expected: list[str]
) -> None:
    data = node(tmp_path / "data", *values)
    assert of_replicas(judge(data)) == expected
    assert of_replicas(judge(data, config={"log.dirs": str(data)})) == expected


def test_partitions_are_counted_and_named(tmp_path: Path) -> None:
    values = [record for number in range(5) for record in assigned(OTHER_ID, number=number)]
    data = node(tmp_path / "data", register(1, [DIRECTORY_ID, OTHER_ID]), *values)
    (finding,) = judge(data)
    assert finding.repeats == 4
    assert finding.detail is not None
    assert "gone-0, gone-1, gone-2 and 2 more of node 1" in finding.detail.expected
    assert "1 of its 2 registered directories" in finding.detail.found


def test_a_directory_in_sight_has_its_replicas(tmp_path: Path) -> None:
    data = node(tmp_path / "data", *assigned(OTHER_ID))
    other = tmp_path / "other"
    Recipe("gone", [], batches(0), batches(100)).write(other)
    (other / "gone-0/partition.metadata").write_text(f"version: 0\ntopic_id: {GONE_ID}")
    (other / "meta.properties").write_bytes(meta_properties(directory=OTHER_ID))
    assert of_replicas(judge(data)) == [ALONE]
    assert judge(data, other) == []
    assert judge(data, other, config={"log.dirs": f"{data},{other}"}) == []
    # A directory that was formatted again has another id, and no replica.
    (other / "gone-0").rename(tmp_path / "away")
    (other / "meta.properties").write_bytes(meta_properties(directory=GONE_ID))
    assert of_replicas(judge(data, other)) == [ALONE]


def test_beside_a_running_broker_only_the_configuration_tells(tmp_path: Path) -> None:
    data = node(tmp_path / "data", *assigned(OTHER_ID))
    assert of_replicas(judge(data, state=BrokerState.LIVE)) == []
    config = {"log.dirs": str(data)}
    assert of_replicas(judge(data, state=BrokerState.LIVE, config=config)) == [ALONE]


@pytest.mark.parametrize("command", ["verify", "next-start"])
def test_the_reports_say_it_first(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = node(tmp_path / "data", *assigned(OTHER_ID))
    assert main([command, str(data)]) == exits.PROBLEMS
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith(
        "DO NOT START If the broker starts now, it creates missing replicas again, empty"
    )
    assert ALONE in text
    shared = node(tmp_path / "shared", *assigned(OTHER_ID, OTHER_ID, nodes=(1, 2)))
    assert main([command, str(shared)]) == exits.OK
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("WARN" if command == "verify" else "NOT CHECKED")
    assert "fetches them from their leaders" in text


def test_a_configuration_beside_one_path_names_the_other_directories(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = node(tmp_path / "data", *assigned(OTHER_ID))
    other = tmp_path / "other"
    other.mkdir()
    (other / "meta.properties").write_bytes(meta_properties(directory=OTHER_ID))
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={data},{other}\n")
    assert main(["next-start", "--config", str(config), str(data)]) == exits.OK
    config.write_text(f"log.dirs={data}\n")
    assert main(["next-start", "--config", str(config), str(data)]) == exits.PROBLEMS
    capsys.readouterr()
