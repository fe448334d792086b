"""The checks of log directories and small files: several directories, live ones, what is said."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kdump.audit.checks.file_names import check_log_sizes
from kdump.audit.checks.read_errors import check_unread_files
from kdump.audit.codes import CODES
from kdump.audit.facts.small_files import read_small
from kdump.audit.finding_code import Outcome, Severity
from kdump.audit.findings import Detail, Finding, Offsets
from kdump.format.snapshot import decode_snapshot
from kdump.storage.liveness import BrokerState
from support.damaged import Recipe, batches
from support.fixtures_loader import FIXTURES, copy_fixture
from support.forge import TOPIC_ID, checkpoint, flip
from support.forge_metadata import (
    METADATA,
    NO_OP,
    feature,
    log,
    partition,
    segment_name,
    snapshot,
    snapshot_name,
    topic,
)
from support.pipeline import evidence, judge
from support.recipes_directory import (
    CLEAN,
    CLUSTER_ID,
    DIRECTORY_ID,
    OTHER_ID,
    RECIPES,
    kraft,
    meta_properties,
)

Grown = Callable[[str], Path]


def recipe(title: str) -> Recipe:
    (found,) = [recipe for recipe in RECIPES if recipe.name == title]
    return found


def codes(found: list[Finding]) -> list[str]:
    return sorted(finding.code.name for finding in found)


def only(title: str, path: Path) -> Finding:
    recipe(title).write(path)
    (finding,) = judge(path)
    return finding


def test_names_of_recipes_are_unique() -> None:
    assert len({recipe.name for recipe in RECIPES}) == len(RECIPES) > 100


# --- what real brokers left


@pytest.mark.parametrize("state", [BrokerState.STOPPED, BrokerState.LIVE])
@pytest.mark.parametrize("name", FIXTURES)
def test_nothing_above_info_on_undamaged_fixtures(
    name: str, state: BrokerState, grown: Grown
) -> None:
    found = judge(grown(name), state=state)
    assert {finding.code.severity for finding in found} <= {Severity.INFO}
    expected = {"snapshot-stray", "timestamps-future", "segments-gap", "transaction-open"}
    if name.startswith("3.9"):
        expected |= {"segment-bytes-small"}
    if name.endswith("killed"):
        expected |= {"preallocated-tail"}
    if state is BrokerState.LIVE:
        expected = expected - {"snapshot-stray"} | {"clean-marker-live"}
    assert set(codes(found)) <= expected


@pytest.mark.parametrize("name", [fixture for fixture in FIXTURES if fixture.endswith("killed")])
def test_a_clean_marker_that_was_put_back_shows(name: str, tmp_path: Path) -> None:
    path = copy_fixture(name, tmp_path / "data")
    (path / ".kafka_cleanshutdown").touch()
    above = {
        finding.code.name for finding in judge(path) if finding.code.severity is not Severity.INFO
    }
    assert above == {"preallocated-tail-clean", "index-padded-clean", "timeindex-padded-clean"}


# --- several log directories


def two(tmp_path: Path, title: str, second: str, **changes: object) -> tuple[Path, Path]:
    """A node's directory with the recipe ``title``, and another one with the topic ``second``."""
    first, other = tmp_path / "a", tmp_path / "b"
    kraft(title).write(first)
    Recipe(second, [], batches(0), batches(100)).write(other)
    properties = meta_properties(**({"directory": OTHER_ID} | changes))  # type: ignore[arg-type]
    (other / "meta.properties").write_bytes(properties)
    return first, other


# --- what a node holds against its configuration, and reads first


@pytest.mark.parametrize("name", ["node.id", "broker.id"])
def test_another_node_id_in_the_configuration_is_refused(tmp_path: Path, name: str) -> None:
    kraft("other-node").write(tmp_path)
    (finding,) = judge(tmp_path, config={name: "2"})
    assert finding.code.name == "node-id-mismatch"
    assert finding.code.stops is Outcome.REFUSES
    assert finding.path == tmp_path / "meta.properties"
    assert finding.detail == Detail(f"node id 2, the {name} of the configuration", "1")
    assert judge(tmp_path, config={name: "1"}) == judge(tmp_path, config={}) == []


_FEATURES = [feature("metadata.version", 21), feature("group.version", 1)]


@pytest.mark.parametrize(
    ("content", "refused"),
    [
        (snapshot(_FEATURES), False),
        (log(_FEATURES), False),
        (log(_FEATURES) + b"torn", False),
        (b"", True),
        (b"garbage" * 20, True),
        (bytes(300), True),
        (log(_FEATURES[1:]), True),
        (log(_FEATURES)[:-70], False),
        (log(_FEATURES[:1])[:-1], True),
        (log([b"\7" + _FEATURES[0][1:], _FEATURES[0]]), True),
        # A node does not compare the checksum there.
        (flip(log(_FEATURES), 20), False),
    ],
)
def test_a_bootstrap_checkpoint_is_read_as_a_node_reads_it(
    tmp_path: Path, content: bytes, refused: bool
) -> None:
    kraft("first-read", top={"bootstrap.checkpoint": content}).write(tmp_path)
    found = judge(tmp_path)
    assert codes(found) == ["bootstrap-malformed"] * refused
    assert all(finding.code.stops is Outcome.REFUSES for finding in found)


def test_only_the_bootstrap_checkpoint_beside_the_metadata_log_counts(tmp_path: Path) -> None:
    first, other = two(tmp_path, "beside", "elsewhere")
    (other / "bootstrap.checkpoint").write_bytes(b"garbage" * 20)
    assert "bootstrap-malformed" not in codes(judge(first, other, config={}))
    (first / "bootstrap.checkpoint").write_bytes(b"garbage" * 20)
    assert "bootstrap-malformed" in codes(judge(first, other, config={}))


def test_a_damaged_metadata_log_makes_strays(tmp_path: Path) -> None:
    known = [topic("cut", TOPIC_ID), partition(TOPIC_ID), *[NO_OP] * 3]
    whole = log(known)
    for index, expected in ((0, True), (1, True), (2, False), (4, False)):
        damaged = bytearray(whole)
        damaged[len(log(known[: index + 1])) - 1] ^= 1
        path = tmp_path / str(index)
        kraft("cut", top={segment_name(): bytes(damaged)}).write(path)
        found = [finding for finding in judge(path) if finding.path.parent.name == "cut-0"]
        assert codes(found) == ["partition-stray-cut"] * expected
        # Another controller led, and has the records.
        (path / METADATA / "quorum-state").write_text(
            '{"leaderId":2,"leaderEpoch":2,"votedId":-1,'
            '"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
        )
        assert [finding for finding in judge(path) if finding.path.parent.name == "cut-0"] == []


def test_a_snapshot_stays_when_the_metadata_log_is_cut(tmp_path: Path) -> None:
    known = [topic("cut", TOPIC_ID), partition(TOPIC_ID)]
    damaged = bytearray(log([*known, NO_OP, NO_OP]))
    damaged[100] ^= 1
    top = {segment_name(): bytes(damaged), snapshot_name(3): snapshot(known)}
    kraft("cut", top=top).write(tmp_path)
    assert [finding for finding in judge(tmp_path) if finding.path.parent.name == "cut-0"] == []


def test_two_directories_of_one_node_may_share_a_topic(tmp_path: Path) -> None:
    first, other = two(tmp_path, "shared", "shared")
    (other / "shared-0").rename(other / "shared-1")
    assert codes(judge(first, other, config={})) == [
        "partition-stray"
    ]  # the image knows one partition


@pytest.mark.parametrize("config", [{}, None])
def test_a_partition_in_two_directories_is_refused(
    tmp_path: Path, config: dict[str, str] | None
) -> None:
    first, other = two(tmp_path, "twice", "twice")
    (finding,) = judge(first, other, config=config)
    assert finding.code.name == "partition-twice"
    assert finding.path == other / "twice-0"
    assert finding.detail == Detail(
        "a single directory of twice-0", f"a second directory: {first / 'twice-0'}"
    )


def test_a_future_replica_may_be_beside_its_current_one(tmp_path: Path) -> None:
    first, other = two(tmp_path, "moved", "moved")
    (other / "moved-0").rename(other / f"moved-0.{'0' * 32}-future")
    assert codes(judge(first, other, config={})) == ["directory-future"]


def test_two_future_replicas_are_refused(tmp_path: Path) -> None:
    first, other = two(tmp_path, "futures", "futures")
    for path, unique in ((first, "1" * 32), (other, "2" * 32)):
        (path / "futures-0").rename(path / f"futures-0.{unique}-future")
    assert codes(judge(first, other, config={})) == [
        "directory-future",
        "directory-future",
        "partition-twice",
    ]


def test_a_stray_replica_is_set_aside_before_it_counts_twice(tmp_path: Path) -> None:
    first, other = two(tmp_path, "strays", "strays")
    assigned = partition(TOPIC_ID, directories=[DIRECTORY_ID])
    (first / segment_name()).write_bytes(log([topic("strays", TOPIC_ID), assigned]))
    assert codes(judge(first, other)) == ["partition-twice"]
    text = (first / "strays-0" / "partition.metadata").read_text()
    (other / "strays-0" / "partition.metadata").write_text(text.replace(TOPIC_ID, OTHER_ID))
    assert codes(judge(first, other)) == ["partition-stray"]
    (other / "strays-0" / "partition.metadata").unlink()
    assert codes(judge(first, other)) == ["topic-id-missing"]


@pytest.mark.parametrize(
    "changes",
    [{"node": 2}, {"cluster": OTHER_ID}, {"directory": meta_properties().decode()[-23:-1]}],
    ids=["node", "cluster", "copy"],
)
def test_directories_of_two_nodes_and_copies_are_not_held_together(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    first, other = two(tmp_path, "same", "same", **changes)
    assert judge(first, other) == []


def test_without_directory_ids_nothing_tells_a_copy(tmp_path: Path) -> None:
    first, other = two(tmp_path, "older", "older")
    for path in (first, other):
        meta = path / "meta.properties"
        lines = meta.read_text().splitlines()
        meta.write_text("\n".join(line for line in lines if "directory.id" not in line))
    assert judge(first, other) == []
    assert codes(judge(first, other, config={})) == ["partition-twice"]


@pytest.mark.parametrize("config", [{}, None])
def test_a_directory_with_two_names_is_one(tmp_path: Path, config: dict[str, str] | None) -> None:
    first, other = two(tmp_path, "named", "named")
    link = tmp_path / "link"
    link.symlink_to(first)
    assert judge(first, link, config=config) == []
    assert codes(judge(first, link, other, config=config)) == ["partition-twice"]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"node": 2}, "2"),
        ({"cluster": OTHER_ID}, OTHER_ID),
        ({"directory": meta_properties().decode()[-23:-1]}, meta_properties().decode()[-23:-1]),
    ],
    ids=["node", "cluster", "copy"],
)
def test_what_one_configuration_names_must_be_of_one_node(
    tmp_path: Path, changes: dict[str, object], found: str
) -> None:
    first, other = two(tmp_path, "one", "two", **changes)
    mismatch = [
        finding
        for finding in judge(first, other, config={})
        if finding.code.name == "meta-properties-mismatch"
    ]
    assert [(finding.path, finding.detail and finding.detail.found) for finding in mismatch] == [
        (other / "meta.properties", found)
    ]


def test_a_directory_of_a_kraft_node_must_be_formatted(tmp_path: Path) -> None:
    first, other = two(tmp_path, "formatted", "formatted-not")
    (other / "meta.properties").unlink()
    (other / "recovery-point-offset-checkpoint").touch()
    assert "meta-properties-missing" in codes(judge(first, other, config={}))
    assert "meta-properties-missing" not in codes(judge(first, other))


def test_a_second_metadata_log_is_refused(tmp_path: Path) -> None:
    first, other = two(tmp_path, "known", "known")
    (other / "known-0").rename(tmp_path / "gone")
    (other / METADATA).mkdir()
    (other / segment_name()).write_bytes(log([NO_OP]))
    assert codes(judge(first, other, config={})) == ["partition-twice"]


# --- beside a broker


def test_checkpoints_of_another_moment_contradict_nothing(tmp_path: Path) -> None:
    title = "moments"
    rows = checkpoint([(title, 0, 999)])
    names = ("log-start", "recovery-point", "replication", "cleaner")
    top = {f"{name}-offset-checkpoint": rows for name in names} | {
        "replication-offset-checkpoint": rows,
        "recovery-point-offset-checkpoint.tmp": b"",
    }
    kraft(
        title,
        files={"partition.metadata": None, "00000000000000000050.snapshot": b""},
        top=top,
    ).write(tmp_path)
    assert len(judge(tmp_path)) > 6
    assert codes(judge(tmp_path, state=BrokerState.LIVE)) == ["snapshot-unreadable"]
    assert codes(judge(tmp_path, state=BrokerState.UNKNOWN)) == ["snapshot-unreadable"]


def test_a_marker_beside_a_running_broker_is_a_note(tmp_path: Path) -> None:
    kraft("marker", top=CLEAN).write(tmp_path)
    assert codes(judge(tmp_path, state=BrokerState.LIVE)) == ["clean-marker-live"]
    assert judge(tmp_path, state=BrokerState.UNKNOWN) == []


# --- what findings say


def test_a_log_start_beyond_the_end_says_what_is_deleted(tmp_path: Path) -> None:
    finding = only("start-beyond", tmp_path)
    assert finding.offsets == Offsets(0, 199)
    assert finding.detail == Detail("a log start up to 200, where the log ends", "201")
    assert finding.remedy == ("kdump", "reindex", str(finding.path.parent / "start-beyond-0"))


def test_a_gap_names_the_missing_offsets(tmp_path: Path) -> None:
    finding = only("hole", tmp_path)
    assert finding.offsets == Offsets(80, 99)


def test_a_segment_that_holds_others_back_counts_them(tmp_path: Path) -> None:
    finding = only("held", tmp_path)
    assert finding.detail == Detail(
        "no timestamp above 2026-11-18T11:06:40.000Z, the present",
        "2030-03-17T17:46:40.000Z, before 1 segments that are due",
    )


def test_a_stray_partition_says_both_topic_ids(tmp_path: Path) -> None:
    finding = only("id-unknown", tmp_path)
    assert finding.detail == Detail(f"the topic id {TOPIC_ID}", OTHER_ID)


def test_a_replica_that_moved_away_says_where(tmp_path: Path) -> None:
    assert only("moved-away", tmp_path).detail == Detail("node 1 as a replica", "nodes 2, 3")


def test_a_swap_names_the_records_that_no_file_holds(tmp_path: Path) -> None:
    assert only("swap-short", tmp_path).offsets == Offsets(50, 99)


def test_a_directory_that_was_set_aside_says_its_size(tmp_path: Path) -> None:
    recipe("set-aside").write(tmp_path)
    (stray,) = tmp_path.glob("*-stray")
    (stray / "00000000000000000000.log").write_bytes(batches(0)[0])
    (finding,) = [finding for finding in judge(tmp_path) if finding.code.name == "directory-stray"]
    assert (finding.path, finding.size) == (stray, len(batches(0)[0]))


def test_a_log_of_more_than_2_gib_is_refused(tmp_path: Path) -> None:
    given = evidence(Recipe("large", [], batches(0), batches(100)).write(tmp_path))
    first, last = given.surveys
    sizes = replace(first, size=2**31 - 1), replace(last, size=2**31)
    (finding,) = check_log_sizes(replace(given, surveys=sizes))
    assert (finding.code.name, finding.path) == ("log-too-large", last.segment.log)


def test_small_files_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "bad").write_bytes(b"x")
    names = ("fifo", "gone", "bad")
    reads = dict(enumerate(read_small(tmp_path / name, decode_snapshot) for name in names))
    directory = Recipe("unread", [], batches(0), batches(100)).write(tmp_path)
    for live, expected in ((False, "vanished"), (True, "vanished-live")):
        given = evidence(directory, live=live)
        assert given.facts is not None
        facts = replace(given.facts, epochs=None, snapshots=reads)
        found = check_unread_files(replace(given, facts=facts))
        assert codes(list(found)) == ["unreadable", expected]


def test_the_cluster_id_of_recipes_is_a_uuid() -> None:
    assert len(CLUSTER_ID) == len(OTHER_ID) == 22
    assert CODES["partition-stray"].severity is Severity.WARNING
