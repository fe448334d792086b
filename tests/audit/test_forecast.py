"""The forecast of small forged partitions; that brokers do the same is shown elsewhere."""

from __future__ import annotations

import os
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from kdump.audit.facts.small_files import (
    PartitionFacts,
    TopicSettings,
    read_directory,
    read_partition_facts,
)
from kdump.audit.startup.forecast import Forecast, forecast, forecast_by, forecast_directory
from kdump.audit.startup.inputs import read_log_facts, violations
from kdump.audit.startup.outcome import Outcome, RecoveryReason, Release
from kdump.audit.survey.log_end import lower_bound
from kdump.audit.survey.recovery import Records, Span
from kdump.audit.survey.survey import Survey, survey
from kdump.storage.liveness import BrokerState, Liveness
from kdump.storage.logdir import LogDirectory, open_path, read_partition
from kdump.storage.paths import as_local
from kdump.ui.verdicts.forecast_text import directory_sentences
from support import forge
from support.damaged import batches
from support.forged_starts import FORGED, INTERVAL, NEWER, NEWEST, OLDER, SOUND, Forged, name

RELEASES = {OLDER: Release.V3_9, NEWER: Release.V4_3, NEWEST: Release.V4_4}


def facts_of(forged: Forged, directory: Path) -> PartitionFacts:
    settings = TopicSettings(index_interval_bytes=INTERVAL, segment_index_bytes=forged.index_bytes)
    return replace(
        read_partition_facts(read_partition(directory), None, settings, stopped=True),
        in_log_directory=True,
        clean=forged.clean,
        log_start=forged.log_start,
        recovery_point=forged.recovery_point,
    )


def surveys(facts: PartitionFacts) -> list[Survey]:
    segments = facts.partition.segments
    return [
        survey(
            segment,
            lambda _: None,
            mapped=False,
            sealed=segment is not segments[-1],
            deep=False,
            settings=facts.settings,
        )
        for segment in segments
    ]


def forecast_of(forged: Forged, target: Path, version: str | None = None) -> Forecast:
    facts = facts_of(forged, forged.write(target))
    found = surveys(facts)
    wrong = violations(facts, found)
    known = read_log_facts(facts, found, wrong)
    if version is None:
        return forecast(facts, known, wrong)
    return forecast_by(RELEASES[version], facts, known, wrong)


def named(title: str) -> Forged:
    (found,) = [forged for forged in FORGED if forged.name == title]
    return found


@pytest.mark.parametrize("version", sorted(RELEASES))
@pytest.mark.parametrize("forged", FORGED, ids=lambda forged: forged.name)
def test_a_forged_partition_is_forecast(forged: Forged, version: str, tmp_path: Path) -> None:
    found, expected = forecast_of(forged, tmp_path, version), forged.by(version)
    assert found.exact
    if expected.end is None:
        outcome = Outcome.OFFLINE if expected.offline else Outcome.REFUSES
        assert (found.outcome, found.log_end_offset) == (outcome, None)
        (cause,) = found.causes
        assert (cause.outcome, cause.path.parent.name) == (outcome, f"{forged.name}-0")
        return
    assert (found.outcome, found.causes) == (Outcome.STARTS, ())
    assert found.log_start_offset == expected.start
    assert found.log_end_offset == expected.end
    assert found.segments == expected.left
    assert found.lost.sound.count == expected.lost
    assert found.lost.unreadable.count == expected.unreadable


def test_a_cut_says_where_and_what_is_lost(tmp_path: Path) -> None:
    found = forecast_of(named("bad-checksum"), tmp_path)
    sound = SOUND[0]
    (cut,) = found.cuts
    assert (cut.segment, cut.position, cut.offset) == (0, sum(map(len, sound[:4])), 40)
    assert found.deleted == (100, 200)
    size = sum(map(len, sound))
    assert found.read_bytes == size
    assert found.deleted_bytes == 3 * size - cut.position
    assert found.lost.sound == Span(250, 50, 299, forge.TIMESTAMP + 5000, forge.TIMESTAMP + 209_000)
    assert found.lost.unreadable == Span(10, 40, 49)
    assert found.release is None


def test_what_damage_at_the_end_of_a_segment_held_reaches_to_the_next(tmp_path: Path) -> None:
    assert forecast_of(named("torn-sealed"), tmp_path).lost.unreadable == Span(10, 90, 99)


def test_a_gap_is_a_cut_without_anything_deleted(tmp_path: Path) -> None:
    found = forecast_of(named("index-missing-and-damage"), tmp_path)
    assert [cut.offset for cut in found.cuts] == [40]
    assert found.deleted == ()


def test_the_worse_of_two_releases_is_reported(tmp_path: Path) -> None:
    twice = forecast_of(named("twice-at-the-end"), tmp_path)
    assert (twice.log_end_offset, twice.release) == (200, Release.V4_3)
    wrapper = forecast_of(named("wrapper-unreadable"), tmp_path)
    assert (wrapper.outcome, wrapper.release) == (Outcome.REFUSES, Release.V4_3)
    version = forecast_of(named("txnindex-version-negative"), tmp_path)
    assert (version.outcome, version.release) == (Outcome.REFUSES, Release.V4_4)


def test_a_split_says_what_it_splits(tmp_path: Path) -> None:
    found = forecast_of(named("out-of-range-at-the-end"), tmp_path)
    assert (found.split, found.cuts, found.deleted) == ((100,), (), ())


def test_replaced_files_are_named(tmp_path: Path) -> None:
    found = forecast_of(named("swap-of-two"), tmp_path)
    replaced = {path.name for path in found.replaced}
    assert replaced == {
        name(base, kind) for base in (0, 100) for kind in (".log", ".index", ".timeindex")
    }
    assert forecast_of(named("swap-above-a-cleaned"), tmp_path).replaced == ()


def test_a_swap_that_a_clean_startup_replays_is_read(tmp_path: Path) -> None:
    files = {name(200, ".log.swap"): SOUND[200][0], name(100, ".snapshot"): forge.snapshot()}
    found = forecast_of(Forged("swap-replayed", files=files, clean=True, end=210), tmp_path)
    assert (found.exact, found.unread) == (True, ())
    assert found.log_end_offset == 210


def test_lost_snapshots_are_named(tmp_path: Path) -> None:
    taken = {name(offset, ".snapshot"): forge.snapshot() for offset in (100, 200, 290, 300)}
    clean = forecast_of(Forged("kept", files=taken, clean=True), tmp_path)
    assert clean.snapshots_lost == (290,)
    bad = named("bad-checksum")
    assert forecast_of(replace(bad, files={**bad.files, **taken}), tmp_path).snapshots_lost == (
        100,
        200,
        290,
        300,
    )
    # Those that recovery writes again are not lost.
    assert forecast_of(Forged("again", files=taken), tmp_path).snapshots_lost == (290,)


def test_a_damaged_snapshot_costs_a_replay(tmp_path: Path) -> None:
    size = len(forge.segment(SOUND[0]))
    sound = {name(offset, ".snapshot"): forge.snapshot() for offset in (200, 300)}
    damaged = {**sound, name(300, ".snapshot"): b"\0"}
    assert forecast_of(Forged("sound", files=sound, clean=True), tmp_path).read_bytes == 0
    assert forecast_of(Forged("damaged", files=damaged, clean=True), tmp_path).read_bytes == size


REASONS = [
    ("index-missing", {"recovery_point": 300}, {100: "index-missing", 200: "past-recovery-point"}),
    ("index-missing", {"clean": True}, {100: "index-missing"}),
    ("sound", {"recovery_point": 150}, {100: "past-recovery-point", 200: "past-recovery-point"}),
    ("sound-clean", {}, {}),
]


@pytest.mark.parametrize(("title", "fields", "expected"), REASONS)
def test_why_a_segment_is_recovered(
    title: str, fields: dict[str, object], expected: dict[int, str], tmp_path: Path
) -> None:
    found = forecast_of(replace(named(title), **fields), tmp_path)  # type: ignore[arg-type]
    reasons = dict(zip(found.recovered, found.recovery, strict=True))
    assert {base: reason.value for base, reason in reasons.items()} == expected


def test_a_transaction_index_and_a_missing_point_are_reasons(tmp_path: Path) -> None:
    forged = Forged("t", files={name(200, ".txnindex"): forge.txn_index([(7, 0, 9, 0)])})
    facts = replace(facts_of(forged, forged.write(tmp_path)), clean=True)
    found = forecast(facts, read_log_facts(facts, surveys(facts)))
    assert (found.recovered, found.recovery) == (
        (200,),
        (RecoveryReason.TRANSACTION_INDEX_CORRUPT,),
    )
    facts = replace(facts, clean=False, recovery_point=None)
    found = forecast(facts, read_log_facts(facts, surveys(facts)))
    missing = RecoveryReason.NO_RECOVERY_POINT
    assert found.recovery == (missing, missing, RecoveryReason.TRANSACTION_INDEX_CORRUPT)


def test_more_than_the_logs_hold_is_read_only_again(tmp_path: Path) -> None:
    size = len(forge.segment(SOUND[0]))
    found = forecast_of(named("index-missing"), tmp_path)
    assert found.read_bytes - found.reread_bytes == 3 * size
    assert found.reread_bytes >= size  # without its index, and because it was not flushed
    for forged in FORGED:
        held = sum(sum(map(len, pieces)) for pieces in forged.segments.values())
        held += sum(len(data) for data in forged.files.values() if data is not None)
        start = forecast_of(forged, tmp_path / "all")
        assert 0 <= start.reread_bytes <= start.read_bytes <= start.reread_bytes + held


def test_what_is_replayed_unread_is_not_forecast_exactly(tmp_path: Path) -> None:
    files = {name(200, ".snapshot"): forge.snapshot(), name(300, ".snapshot"): b"\0"}
    forged = Forged("replayed", files=files, clean=True)
    facts = facts_of(forged, forged.write(tmp_path))
    found = forecast(facts, read_log_facts(facts, ()))
    assert (found.exact, found.unread, found.recovered) == (False, (200,), ())
    assert forecast(facts, read_log_facts(facts, surveys(facts))).exact


def test_without_surveys_the_forecast_is_not_exact(tmp_path: Path) -> None:
    facts = facts_of(Forged("unread"), Forged("unread").write(tmp_path))
    found = forecast(facts, read_log_facts(facts, ()))
    assert not found.exact
    assert (found.outcome, found.log_end_offset) == (Outcome.STARTS, None)
    assert found.segments == (0, 100, 200)
    assert found.unread == (0, 100, 200)
    assert (found.read_bytes, found.reread_bytes) == (3 * len(forge.segment(SOUND[0])), 0)


def test_a_clean_start_needs_no_surveys(tmp_path: Path) -> None:
    forged = Forged("unread", clean=True)
    facts = facts_of(forged, forged.write(tmp_path))
    found = forecast(facts, read_log_facts(facts, ()))
    assert found.exact
    assert (found.log_end_offset, found.read_bytes, found.deleted_bytes) == (300, 0, 0)


def test_a_log_that_cannot_be_read_is_not_forecast_exactly(tmp_path: Path) -> None:
    forged = Forged("locked", clean=True)
    facts = facts_of(forged, forged.write(tmp_path))
    log = facts.partition.segments[-1].log
    as_local(log).unlink()
    os.mkfifo(log)
    assert not forecast(facts, read_log_facts(facts, ())).exact


def test_a_segment_larger_than_it_may_be_is_refused(tmp_path: Path) -> None:
    facts = facts_of(Forged("large"), Forged("large").write(tmp_path))
    first, *rest = read_log_facts(facts, surveys(facts))
    largest = forecast(facts, [replace(first, size=2**31 - 1), *rest])
    assert largest.outcome is Outcome.STARTS
    found = forecast(facts, [replace(first, size=2**31), *rest])
    assert (found.outcome, found.causes[0].path) == (Outcome.REFUSES, first.segment.log)


def test_with_remote_storage_a_log_starts_where_its_checkpoint_says(tmp_path: Path) -> None:
    forged = replace(named("removed-first"), log_start=50)
    facts = facts_of(forged, forged.write(tmp_path))
    logs = read_log_facts(facts, surveys(facts))
    for remote, expected in ((None, 100), (False, 100), (True, 50)):
        settings = replace(facts.settings, remote_storage=remote)
        found = forecast(replace(facts, settings=settings), logs)
        assert found.log_start_offset == expected


@pytest.mark.parametrize("scanned", [True, False])
def test_the_end_of_a_log_wraps_after_the_largest_offset(tmp_path: Path, scanned: bool) -> None:
    base = 2**63 - 1
    pieces = [forge.batch(base, [forge.record()]) for _ in range(3)]
    forged = Forged("largest", segments={base: pieces}, clean=True)
    directory = forged.write(tmp_path)
    (directory / name(base, ".index")).write_bytes(struct.pack(">ii", 1, len(pieces[0])))
    facts = facts_of(forged, directory)
    found = forecast(facts, read_log_facts(facts, surveys(facts) if scanned else ()))
    # The end comes out below 0, and so below the log's start.
    assert (found.deleted, found.segments, found.log_end_offset) == ((base,), (0,), 0)


def test_what_is_to_be_deleted_is_only_opened(tmp_path: Path) -> None:
    forged = named("bad-checksum")
    directory = forged.write(tmp_path)
    doomed = directory.rename(tmp_path / f"bad-checksum-0.{'0' * 32}-delete")
    facts = facts_of(forged, doomed)
    found = forecast(facts, read_log_facts(facts, surveys(facts)))
    assert (found.outcome, found.read_bytes, found.cuts) == (Outcome.STARTS, 0, ())
    (doomed / name(0, ".index")).unlink()
    facts = facts_of(forged, doomed)
    found = forecast(facts, read_log_facts(facts, surveys(facts)))
    assert (found.read_bytes > 0, found.lost) == (True, Records())


@pytest.mark.parametrize("title", ["epochs-malformed", "metadata-empty", "no-offset-in-a-name"])
def test_even_what_is_to_be_deleted_can_stop_a_broker(tmp_path: Path, title: str) -> None:
    directory = named(title).write(tmp_path)
    doomed = directory.rename(tmp_path / f"{title}-0.{'0' * 32}-delete")
    facts = facts_of(named(title), doomed)
    assert forecast(facts, read_log_facts(facts, surveys(facts))).outcome is not Outcome.STARTS


def test_the_metadata_log_is_recovered_after_every_stop(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").touch()
    (tmp_path / ".kafka_cleanshutdown").touch()
    target = open_path(tmp_path)
    assert isinstance(target, LogDirectory)
    directory = read_directory(target, Liveness(BrokerState.STOPPED, "no process has it open"))
    clean = {}
    for title in ("t", "__cluster_metadata"):
        partition = read_partition(Forged(title).write(tmp_path))
        facts = read_partition_facts(partition, directory, TopicSettings(), stopped=True)
        clean[title] = facts.clean
    assert clean == {"t": True, "__cluster_metadata": False}


def test_a_directory_adds_up_its_partitions_and_all_reasons(tmp_path: Path) -> None:
    chosen = [named(title) for title in ("bad-checksum", "epochs-malformed", "metadata-empty")]
    alone = [forecast_of(forged_, tmp_path) for forged_ in chosen]
    found = forecast_directory(alone, total=3)
    assert found.outcome is Outcome.REFUSES
    assert [cause.path.name for cause in found.causes] == [
        "partition.metadata",
        "leader-epoch-checkpoint",
    ]
    assert (found.partitions, found.exact, found.whole) == (3, 3, True)
    assert found.lost.sound.count == 250
    assert found.read_bytes == sum(forecast_.read_bytes for forecast_ in alone)
    assert found.recovery_seconds == found.read_bytes / (250 << 20)


@pytest.mark.parametrize(
    ("threads", "read", "expected"),
    [
        (1, [3, 1, 1, 1], 6),
        (2, [3, 1, 1, 1], 3),
        (2, [5, 1], 5),
        (8, [1, 1], 1),
    ],
)
def test_threads_share_the_logs_but_not_a_log(
    tmp_path: Path, threads: int, read: list[int], expected: int
) -> None:
    sound = forecast_of(named("sound"), tmp_path)
    logs = [replace(sound, read_bytes=count * (250 << 20)) for count in read]
    found = forecast_directory(logs, total=len(logs), threads=threads)
    assert found.recovery_seconds == expected
    (text,) = (text for text in directory_sentences(found) if text.startswith("recovery"))
    each = "1 thread at 250 MiB/s" if threads == 1 else f"{threads} threads at 250 MiB/s each"
    assert text.endswith(f", about {expected:.1f} s with {each}")


def test_a_directory_has_a_whole_forecast_if_all_its_partitions_have(tmp_path: Path) -> None:
    exact = forecast_of(named("sound"), tmp_path)
    vague = replace(exact, exact=False)
    assert forecast_directory([exact, exact], total=2).whole
    assert not forecast_directory([exact], total=2).whole
    assert not forecast_directory([exact, vague], total=2).whole


def test_the_forged_segments_are_those_of_the_recipes() -> None:
    assert SOUND[100] == batches(100)


@pytest.mark.parametrize("entries", [1, 2, 5, 1024, 1025, 1026, 3000])
def test_in_an_index_that_rises_a_lookup_finds_the_last_entry_not_above(entries: int) -> None:
    keys = [3 * number + 5 for number in range(entries)]
    for target in (0, 4, 5, 6, 3 * entries // 2, 3 * entries + 1, 3 * entries + 2, 9999):
        below = [number for number, key in enumerate(keys) if key <= target]
        assert lower_bound(keys.__getitem__, entries, target) == (below[-1] if below else None)
