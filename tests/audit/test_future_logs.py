"""Future logs in two directories of a node: what a start makes of each, and the records that go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from support import forge, pipeline
from support.commands import kdump
from support.damaged import FIRST, LAST
from support.forge import TOPIC_ID
from support.future_logs import FUTURE, TOPIC, log, node
from support.recipes_directory import DIRECTORY_ID, OTHER_ID


def found(*paths: Path) -> dict[str, str]:
    return {
        finding.code.name: finding.path.name
        for finding in pipeline.judge(*paths, config={})
        if finding.code.name.startswith("future-")
    }


def empty(future: Path) -> None:
    future.mkdir()
    (future / "partition.metadata").write_bytes(forge.partition_metadata(TOPIC_ID))


def test_a_move_that_the_cluster_knows_ends_at_the_start(tmp_path: Path) -> None:
    first, second = node(tmp_path, DIRECTORY_ID)
    log(second, f"{TOPIC}-0")
    log(first, FUTURE)
    assert found(first, second) == {"future-replaces": f"{TOPIC}-0"}
    ran = kdump("next-start", first, second)
    assert ran.code == 0


@pytest.mark.parametrize("mode", [("next-start",), ("verify",), ("verify", "--quick")])
@pytest.mark.parametrize("clean", [True, False])
def test_a_shorter_future_log_takes_records_with_it(
    mode: Sequence[str], clean: bool, tmp_path: Path
) -> None:
    first, second = node(tmp_path, DIRECTORY_ID)
    log(second, f"{TOPIC}-0")
    log(first, FUTURE, whole=False)
    if not clean:
        for path in (first, second):
            (path / ".kafka_cleanshutdown").unlink()
    assert found(first, second) == {"future-shorter": f"{TOPIC}-0"}
    ran = kdump(*mode, first, second)
    lost = [line["lost"] for line in ran.of("forecast") if line["lost"]["sound"]]
    assert ran.code == 4
    assert [(each["sound"], each["first_offset"], each["last_offset"]) for each in lost] == [
        (100, 100, 199)
    ]


def beheaded(future: Path) -> None:
    for file in future.glob(f"{FIRST:020}.*"):
        file.unlink()


KEPT = {"retention.ms": "-1"}
MODES = [("next-start",), ("next-start", "--scan"), ("verify",), ("verify", "--quick")]


@pytest.mark.parametrize("mode", MODES)
def test_a_future_log_without_its_first_segment_takes_records_with_it(
    mode: Sequence[str], tmp_path: Path
) -> None:
    first, second = node(tmp_path, DIRECTORY_ID, configs=KEPT)
    log(second, f"{TOPIC}-0")
    log(first, FUTURE)
    beheaded(first / FUTURE)
    assert found(first, second) == {"future-starts-later": f"{TOPIC}-0"}
    ran = kdump(*mode, first, second)
    lost = [line["lost"] for line in ran.of("forecast") if line["lost"]["sound"]]
    assert ran.code == 4
    assert [(each["sound"], each["first_offset"], each["last_offset"]) for each in lost] == [
        (100, 0, 99)
    ]


def test_a_future_log_of_neither_beginning_nor_end(tmp_path: Path) -> None:
    first, second = node(tmp_path, DIRECTORY_ID, configs=KEPT)
    log(second, f"{TOPIC}-0")
    log(first, FUTURE)
    beheaded(first / FUTURE)
    (first / FUTURE / f"{LAST:020}.log").write_bytes(b"")
    ran = kdump("next-start", first, second)
    (lost,) = (line["lost"] for line in ran.of("forecast") if line["lost"]["sound"])
    assert (lost["sound"], lost["first_offset"], lost["last_offset"]) == (200, 0, 199)


def test_the_first_segment_of_a_future_log_without_a_current_one(tmp_path: Path) -> None:
    first, second = node(tmp_path, DIRECTORY_ID, configs=KEPT)
    log(first, FUTURE)
    beheaded(first / FUTURE)
    for mode in MODES:
        ran = kdump(*mode, first, second)
        assert ran.code == 4
        assert "first-segment-missing" in {line["code"] for line in ran.of("finding")}


def retained(_first: Path, _second: Path) -> None:
    """Retention of the default: the records are old."""


def begins_there(first: Path, second: Path) -> None:
    """DeleteRecords moves the first line of the leader epochs too."""
    (first / FUTURE / "leader-epoch-checkpoint").write_text("0\n1\n0 100\n")


def both(first: Path, second: Path) -> None:
    """The checkpoint of the current log has its start: the records below it are deleted."""
    (second / "log-start-offset-checkpoint").write_text(f"0\n1\n{TOPIC} 0 100\n")


def checkpointed(first: Path, second: Path) -> None:
    (first / "log-start-offset-checkpoint").write_text(f"0\n1\n{TOPIC} 0 100\n")


@pytest.mark.parametrize(
    ("known", "explain", "code"),
    [
        ({}, retained, "future-replaces"),
        (KEPT, begins_there, "future-start-unexplained"),
        (KEPT, both, "future-replaces"),
        (KEPT, checkpointed, "future-replaces"),
    ],
)
def test_what_a_deletion_explains_is_no_loss(
    known: dict[str, str], explain: Callable[[Path, Path], None], code: str, tmp_path: Path
) -> None:
    first, second = node(tmp_path, DIRECTORY_ID, configs=known)
    log(second, f"{TOPIC}-0")
    log(first, FUTURE)
    beheaded(first / FUTURE)
    explain(first, second)
    assert found(first, second) == {code: f"{TOPIC}-0"}
    assert kdump("next-start", first, second).code == 0


#: What an empty future log may hold: nothing, an empty segment, an index alone.
EMPTY: dict[str, Callable[[Path], object]] = {
    "nothing": lambda _: None,
    "segment": lambda future: (future / f"{FIRST:020}.log").touch(),
    "index": lambda future: (future / f"{FIRST:020}.index").touch(),
    "deleted": lambda future: (future / f"{FIRST:020}.index.deleted").touch(),
}


@pytest.mark.parametrize("mode", [("next-start",), ("verify",), ("verify", "--quick")])
@pytest.mark.parametrize("content", EMPTY)
def test_an_empty_future_log_takes_all_records_with_it(
    content: str, mode: Sequence[str], tmp_path: Path
) -> None:
    first, second = node(tmp_path, DIRECTORY_ID)
    log(second, f"{TOPIC}-0")
    empty(first / FUTURE)
    EMPTY[content](first / FUTURE)
    assert found(first, second) == {"future-shorter": f"{TOPIC}-0"}
    ran = kdump(*mode, first, second)
    lost = [line["lost"] for line in ran.of("forecast") if line["lost"]["sound"]]
    assert ran.code == 4
    assert [(each["first_offset"], each["last_offset"]) for each in lost] == [(0, 199)]


def test_a_torn_future_log_takes_records_with_it(tmp_path: Path) -> None:
    first, second = node(tmp_path, DIRECTORY_ID)
    log(second, f"{TOPIC}-0")
    log(first, FUTURE)
    last = first / FUTURE / f"{LAST:020}.log"
    last.write_bytes(last.read_bytes()[:-1])
    assert found(first, second) == {"future-shorter": f"{TOPIC}-0"}


def test_an_empty_future_log_begins_at_its_checkpointed_start(tmp_path: Path) -> None:
    """All records of the current log were deleted, and its move is complete."""
    first, second = node(tmp_path, DIRECTORY_ID)
    log(second, f"{TOPIC}-0")
    empty(first / FUTURE)
    for path in (first, second):
        (path / "log-start-offset-checkpoint").write_text(f"0\n1\n{TOPIC} 0 200\n")
    assert found(first, second) == {"future-replaces": f"{TOPIC}-0"}


@pytest.mark.parametrize("content", [None, *EMPTY])
@pytest.mark.parametrize(
    ("checkpoint", "code"),
    [
        ("recovery-point-offset-checkpoint", "recovery-point-beyond-end"),
        ("replication-offset-checkpoint", "high-watermark-beyond-end"),
    ],
)
def test_a_future_log_alone_is_held_to_its_checkpoints(
    content: str | None, checkpoint: str, code: str, tmp_path: Path
) -> None:
    """None is a future log without its last segment."""
    first, second = node(tmp_path, DIRECTORY_ID)
    if content is None:
        log(first, FUTURE, whole=False)
    else:
        empty(first / FUTURE)
        EMPTY[content](first / FUTURE)
    (first / checkpoint).write_text(f"0\n1\n{TOPIC} 0 200\n")
    for mode in (("verify",), ("verify", "--quick")):
        ran = kdump(*mode, first, second)
        assert (ran.code, code in {line["code"] for line in ran.of("finding")}) == (4, True)
    # What the start does not make the current log may be behind: the move goes on.
    log(second, f"{TOPIC}-0")
    (first / FUTURE).rename(tmp_path / "aside")
    log(second, FUTURE.replace("moved", "other"), whole=False)
    (second / checkpoint).write_text("0\n1\nother 0 200\n")
    assert code not in {finding.code.name for finding in pipeline.judge(first, second)}


def test_a_future_log_alone_that_is_whole_has_no_finding_above_info(tmp_path: Path) -> None:
    first, second = node(tmp_path, DIRECTORY_ID)
    log(first, FUTURE)
    for checkpoint in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (first / checkpoint).write_text(f"0\n1\n{TOPIC} 0 200\n")
    assert kdump("verify", first, second).code == 0


def test_without_its_current_log_a_future_log_is_promoted_or_emptied(tmp_path: Path) -> None:
    first, second = node(tmp_path, OTHER_ID)
    log(second, FUTURE)
    assert found(first, second) == {}
    (second / FUTURE).rename(first / FUTURE)
    assert found(first, second) == {"future-alone": FUTURE}
    assert kdump("next-start", first, second).code == 4
    # The assigned directory is not in sight: the current log may be there.
    (second / "meta.properties").unlink()
    assert "future-alone" not in {line.code.name for line in pipeline.judge(first)}


@pytest.mark.parametrize("named", [True, False])
def test_a_future_log_of_nothing_that_the_node_has_is_a_stray(named: bool, tmp_path: Path) -> None:
    first, second = node(tmp_path, DIRECTORY_ID, nodes=(1,) if not named else (2, 3))
    log(second, FUTURE, named=named)
    code = "future-stray" if named else "future-alone"
    assert found(first, second) == {code: FUTURE}


def test_a_current_log_that_is_set_aside_makes_room(tmp_path: Path) -> None:
    first, second = node(tmp_path, DIRECTORY_ID)
    log(first, f"{TOPIC}-0", named=False)
    log(first, FUTURE)
    assert found(first, second) == {}
    # With a topic id it would stay.
    (first / f"{TOPIC}-0" / "partition.metadata").write_bytes(forge.partition_metadata(TOPIC_ID))
    assert found(first, second) == {"future-beside-current": FUTURE}
