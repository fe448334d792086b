"""A second read before any error: what moved between is not an error, what remains is one."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import kdump.audit.run.reconcile
import kdump.audit.run.verification
import kdump.audit.run.verify
from kdump.audit.checks.batches import SEGMENTS_OVERLAP
from kdump.audit.checks.indexes import INDEX_ORDER
from kdump.audit.checks.read_errors import CHANGED_WHILE_READ
from kdump.audit.checks.swap_files import SWAP_OVERLAPS
from kdump.audit.checks.txn_indexes import TXNINDEX_MISSING_ENTRY
from kdump.audit.findings import Finding
from kdump.audit.run import recheck
from kdump.audit.run.recheck import Inspection, reconcile_findings, suspects
from kdump.audit.run.verify import verify
from kdump.audit.survey.survey import Survey, survey
from kdump.audit.targets.context import read_context
from kdump.audit.targets.target import Target, assign, open_roots
from kdump.audit.verdicts.verdict import Verdict
from kdump.storage.liveness import BrokerState, Liveness
from kdump.storage.logdir import Segment, read_partition
from kdump.storage.paths import as_local
from support.damaged import FIRST, LAST, RECIPES, Recipe, batches, name
from support.fixtures_loader import copy_fixture
from support.forge import batch, flip, record
from support.pipeline import NOW_MS
from support.runners import RUNNERS, by

STANDING = (
    *("crc-sealed", "crc-last", "size-large", "torn-sealed", "zeros-sealed", "below", "twice"),
    *("overlap", "several", "index-swapped", "times-zeros"),
)


@pytest.fixture(autouse=True, params=RUNNERS)
def runner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    by(request.param, monkeypatch, __name__)
    return str(request.param)


def recipe(title: str) -> Recipe:
    (found,) = [recipe for recipe in RECIPES if recipe.name == title]
    return found


def targets(path: Path, state: BrokerState) -> tuple[Target, ...]:
    (root,) = open_roots([path])
    changed = type(root)(root.path, root.content, Liveness(state, "as the test says"))
    return assign(changed)


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Verdict]:
    """``between(path, act)``: beside a broker, of which ``act`` runs between the two reads."""

    def run(path: Path, act: Callable[[], object] = lambda: None, *, deep: bool = False) -> Verdict:
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            act()

        monkeypatch.setattr(time, "sleep", pause)
        (verdict,) = verify(targets(path, BrokerState.LIVE), deep=deep, jobs=1)
        assert len(pauses) <= 1
        return verdict

    return run


def names(verdict: Verdict) -> list[str]:
    return sorted(finding.code.name for finding in verdict.findings)


def sound_log(directory: Path, base: int) -> None:
    """Write the log of one segment again in place, whole and sound."""
    (directory / name(base, ".log")).write_bytes(b"".join(batches(base)))


# --- what stands


@pytest.mark.parametrize("title", STANDING)
def test_errors_of_files_that_do_not_change_remain(
    title: str, tmp_path: Path, between: Callable[..., Verdict]
) -> None:
    found = recipe(title)
    expected = ["torn-tail-live" if name == "torn-tail" else name for name in found.expected]
    assert names(between(found.write(tmp_path))) == expected


def test_records_are_read_again(tmp_path: Path, between: Callable[..., Verdict]) -> None:
    assert names(between(recipe("fewer").write(tmp_path), deep=True)) == ["records-unreadable"]


def test_an_error_in_a_segment_that_grows_remains(
    tmp_path: Path, between: Callable[..., Verdict]
) -> None:
    recipe = Recipe("grows", [], batches(FIRST), [flip(batches(LAST)[0], -1), *batches(LAST)[1:]])
    directory = recipe.write(tmp_path)

    def append() -> None:
        with (directory / name(LAST, ".log")).open("ab") as file:
            file.write(batch(LAST + 100, [record()]))

    verdict = between(directory, append)
    assert names(verdict) == ["batch-crc-mismatch"]
    assert verdict.surveys[1].last_offset == LAST + 100


def test_an_error_in_a_sealed_segment_remains_while_others_come_and_go(
    tmp_path: Path, between: Callable[..., Verdict]
) -> None:
    recipe = Recipe("rolls", [], batches(FIRST), [flip(batches(LAST)[0], -1), *batches(LAST)[1:]])
    directory = recipe.write(tmp_path)

    def roll() -> None:
        (directory / name(LAST + 100, ".log")).write_bytes(b"")
        (directory / name(FIRST, ".log")).unlink()

    verdict = between(directory, roll)
    assert names(verdict) == ["batch-crc-mismatch"]
    assert [survey.segment.base_offset for survey in verdict.surveys] == [LAST]
    assert verdict.target.next_base == LAST + 100


def test_an_error_of_no_segment_remains_if_it_is_seen_twice() -> None:
    for path in (Path(), Path("leader-epoch-checkpoint"), Path("x/partition.metadata")):
        found = Finding(SEGMENTS_OVERLAP, path)
        inspection = Inspection((), (found,))
        assert list(reconcile_findings(inspection, inspection)) == [found]
        assert [finding.code for finding in reconcile_findings(inspection, Inspection((), ()))] == [
            CHANGED_WHILE_READ
        ]
        assert [finding.code for finding in reconcile_findings(Inspection((), ()), inspection)] == [
            CHANGED_WHILE_READ
        ]


def test_an_error_of_a_swap_file_remains_only_beside_the_same_segments(tmp_path: Path) -> None:
    directory = recipe("sound").write(tmp_path)
    found = Finding(SWAP_OVERLAPS, directory / name(FIRST + 50, ".log.swap"))

    def inspection() -> Inspection:
        surveys = [
            survey(segment, lambda _: None, mapped=False, sealed=True, deep=False)
            for segment in read_partition(directory).segments
        ]
        return Inspection(tuple(surveys), (found,))

    before = inspection()
    assert list(reconcile_findings(before, inspection())) == [found]
    sound_log(directory, LAST)
    assert [finding.code for finding in reconcile_findings(before, inspection())] == [
        CHANGED_WHILE_READ
    ]


def test_a_segment_is_read_again_for_a_companion_that_is_missing_or_new(tmp_path: Path) -> None:
    directory = recipe("sound").write(tmp_path)
    before = read_partition(directory).segments
    surveys = tuple(
        survey(segment, lambda _: None, mapped=False, sealed=True, deep=False) for segment in before
    )
    logs = {survey.segment.base_offset: survey.identity for survey in surveys if survey.identity}
    assert suspects(Inspection(surveys, ()), before, logs) == (before[1],)
    missing = Finding(INDEX_ORDER, directory / name(FIRST, ".txnindex"))
    assert suspects(Inspection(surveys, (missing,)), before, logs) == before
    as_local(missing.path).touch()
    now = read_partition(directory).segments
    assert suspects(Inspection(surveys, ()), now, logs) == now


# --- what does not


@pytest.mark.parametrize("title", ["crc-last", "twice", "torn-sealed"])
def test_an_error_that_the_second_read_lacks_is_a_note(
    title: str, tmp_path: Path, between: Callable[..., Verdict]
) -> None:
    directory = recipe(title).write(tmp_path)

    def healed() -> None:
        sound_log(directory, FIRST)
        sound_log(directory, LAST)

    verdict = between(directory, healed)
    # The indexes are still those of the log as it was: of these too only one read can be true.
    assert set(names(verdict)) == {"changed-while-read"}
    assert any(recipe(title).expected[0] in str(finding.detail) for finding in verdict.findings)
    assert sum(survey.batches for survey in verdict.surveys) == 20


def test_the_same_error_in_another_file_does_not_remain(
    tmp_path: Path, between: Callable[..., Verdict]
) -> None:
    directory = recipe("crc-sealed").write(tmp_path)
    log = directory / name(FIRST, ".log")

    def replaced() -> None:
        shutil.copy(log, directory / "new")
        os.replace(directory / "new", log)

    verdict = between(directory, replaced)
    assert set(names(verdict)) == {"changed-while-read"}


def test_an_overlap_with_a_segment_that_was_merged_is_a_note(
    tmp_path: Path, between: Callable[..., Verdict]
) -> None:
    recipe = Recipe("merged", [], [*batches(FIRST), *batches(LAST)], batches(LAST))
    directory = recipe.write(tmp_path)
    verdict = between(directory, (directory / name(LAST, ".log")).unlink)
    assert names(verdict) == ["changed-while-read"]
    assert "segments-overlap" in str(verdict.findings[0].detail)


def test_a_segment_that_has_become_the_last_is_checked_as_such(
    tmp_path: Path, between: Callable[..., Verdict]
) -> None:
    directory = recipe("torn-sealed").write(tmp_path)
    verdict = between(directory, (directory / name(LAST, ".log")).unlink)
    assert names(verdict) == ["changed-while-read", "torn-tail-live"]


def test_a_partition_that_is_deleted_is_a_note(
    tmp_path: Path, between: Callable[..., Verdict]
) -> None:
    directory = recipe("crc-sealed").write(tmp_path)
    renamed = directory.with_name(f"crc-sealed-0.{'a' * 32}-delete")
    verdict = between(directory, lambda: directory.rename(renamed))
    assert names(verdict) == ["changed-while-read", "vanished-live"]
    assert directory in {finding.path for finding in verdict.findings}


def test_a_lone_segment_is_read_again_alone(
    tmp_path: Path, between: Callable[..., Verdict]
) -> None:
    directory = recipe("crc-sealed").write(tmp_path)
    log = directory / name(FIRST, ".log")
    assert names(between(log)) == ["batch-crc-mismatch"]
    verdict = between(log, lambda: sound_log(directory, FIRST))
    assert names(verdict) == ["changed-while-read"]
    assert [survey.segment.base_offset for survey in verdict.surveys] == [FIRST]
    log.write_bytes(flip(log.read_bytes(), -1))
    assert names(between(log, log.unlink)) == ["changed-while-read"]


# --- beside a broker: what vanishes, and what is half written


def test_what_was_replaced_while_it_was_read_is_read_after_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = recipe("sound").write(tmp_path)
    found = targets(directory, BrokerState.LIVE)
    log, swap = directory / name(FIRST, ".log"), directory / name(FIRST, ".log.swap")
    log.rename(swap)
    monkeypatch.setattr(time, "sleep", lambda _: swap.rename(log))
    (verdict,) = verify(found, deep=False, jobs=1)
    assert names(verdict) == []
    assert verdict.covered.segments == 2


def test_what_is_gone_stays_a_note(tmp_path: Path, runner: str) -> None:
    """Where targets are listed long before, as for executors, it is retention that took it."""
    directory = recipe("sound").write(tmp_path)
    found = targets(directory, BrokerState.LIVE)
    (directory / name(FIRST, ".log")).unlink()
    (verdict,) = verify(found, deep=False, jobs=1)
    assert names(verdict) == (["vanished-live"] if runner == "workers" else [])


@pytest.mark.parametrize("written", [8, 12, 17, 40, 61, 90, -5])
def test_a_batch_that_is_half_in_a_preallocated_segment_is_a_torn_tail(
    written: int, tmp_path: Path, between: Callable[..., Verdict]
) -> None:
    tail = batches(LAST)[-1][:written].ljust(5_000, b"\0")
    recipe = Recipe("half", [], batches(FIRST), [*batches(LAST)[:-1], tail])
    directory = recipe.write(tmp_path)
    assert names(between(directory)) == ["torn-tail-live"]
    (stopped,) = verify(targets(directory, BrokerState.STOPPED), deep=False, jobs=1)
    assert set(names(stopped)) & {"batch-crc-mismatch", "batch-size-impossible"}


def test_a_bad_checksum_before_sound_batches_of_a_preallocated_segment_remains(
    tmp_path: Path, between: Callable[..., Verdict]
) -> None:
    sound = batches(LAST)
    last = [*sound[:3], flip(sound[3], -1), *sound[4:], bytes(5_000)]
    verdict = between(Recipe("middle", [], batches(FIRST), last).write(tmp_path))
    assert names(verdict) == ["batch-crc-mismatch", "preallocated-tail"]


# --- believed stopped


def test_without_errors_nothing_is_read_twice(
    tmp_path: Path, between: Callable[..., Verdict], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise AssertionError(f"listed {path} again")

    found = targets(recipe("torn-last").write(tmp_path), BrokerState.LIVE)
    monkeypatch.setattr(kdump.audit.run.reconcile, "read_partition", refuse)
    (verdict,) = verify(found, deep=False, jobs=1)
    assert names(verdict) == ["torn-tail-live"]


def test_errors_of_a_stopped_partition_are_reported_without_a_second_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = targets(recipe("crc-sealed").write(tmp_path), BrokerState.STOPPED)
    monkeypatch.setattr(recheck, "suspects", None)
    (verdict,) = verify(found, deep=False, jobs=1)
    assert names(verdict) == ["batch-crc-mismatch"]


def test_errors_of_files_that_changed_though_believed_stopped_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = recipe("crc-sealed").write(tmp_path)

    def healed_behind(segment: Segment, *args: object, **options: bool) -> Survey:
        found = survey(segment, *args, **options)  # type: ignore[arg-type]
        sound_log(directory, segment.base_offset)
        assert options["mapped"] or segment.base_offset == LAST or not found.gaps
        return found

    monkeypatch.setattr(kdump.audit.run.verification, "survey", healed_behind)
    (verdict,) = verify(targets(directory, BrokerState.STOPPED), deep=False, jobs=1)
    assert names(verdict) == ["changed-while-read"]


def test_a_swap_file_that_is_gone_though_believed_stopped_is_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = recipe("sound").write(tmp_path / "data")
    (tmp_path / "data/meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    swap = directory / name(FIRST + 10, ".log.swap")
    swap.write_bytes(b"".join(batches(FIRST)[1:]))

    def discard(segment: Segment, *args: object, **options: bool) -> Survey:
        swap.unlink(missing_ok=True)
        return survey(segment, *args, **options)  # type: ignore[arg-type]

    def verdict() -> Verdict:
        (root,) = open_roots([directory])
        assert root.directory is not None
        context = read_context([root.directory], None, NOW_MS)
        (found,) = verify(
            targets(directory, BrokerState.STOPPED), deep=False, jobs=1, context=context
        )
        return found

    assert "swap-overlaps" in names(verdict())
    monkeypatch.setattr(kdump.audit.run.verification, "survey", discard)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    assert names(verdict()) == ["changed-while-read"]


def test_what_changes_though_believed_stopped_has_time_to_finish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cleaner renames a log before it removes the indexes: the segment is then not missing."""
    partition = copy_fixture("4.3.1/clean", tmp_path / "data") / "transactions-0"
    bases = [segment.base_offset for segment in read_partition(partition).segments]
    doomed, last = bases[1], bases[-1]
    (partition / name(doomed, ".log")).unlink()

    def append(segment: Segment, *args: object, **options: bool) -> Survey:
        found = survey(segment, *args, **options)  # type: ignore[arg-type]
        with (partition / name(last, ".log")).open("ab") as file:
            file.write(b"\0")
        return found

    def finish(_: float) -> None:
        for path in partition.glob(f"{doomed:020}.*"):
            path.unlink()

    monkeypatch.setattr(kdump.audit.run.verification, "survey", append)
    monkeypatch.setattr(time, "sleep", finish)
    (root,) = open_roots([partition])
    assert root.directory is not None
    context = read_context([root.directory], None, NOW_MS)
    (verdict,) = verify(
        targets(partition, BrokerState.STOPPED), deep=False, jobs=1, context=context
    )
    assert "segment-missing" not in names(verdict)


# --- small files


@pytest.mark.parametrize("comes", [True, False])
def test_a_file_that_comes_while_logs_are_read_again(
    comes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = copy_fixture("4.3.1/clean", tmp_path / "data") / "transactions-0"
    index = next(path for path in sorted(partition.glob("*.txnindex")) if path.stat().st_size)
    aside = index.rename(tmp_path / "kept")
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)

    def read(segment: Segment, *args: object, **options: bool) -> Survey:
        if pauses and comes and aside.exists():
            aside.rename(index)
        return survey(segment, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(kdump.audit.run.verification, "survey", read)
    (root,) = open_roots([partition])
    assert root.directory is not None
    (verdict,) = verify(
        targets(partition, BrokerState.LIVE),
        deep=False,
        jobs=1,
        context=read_context([root.directory], None, NOW_MS),
    )
    assert len(pauses) == 1
    stands = [finding for finding in verdict.findings if finding.code is TXNINDEX_MISSING_ENTRY]
    assert bool(stands) is not comes
