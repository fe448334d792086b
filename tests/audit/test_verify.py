"""verify(): what is verified together, in which order, and the findings of vanished files."""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kdump.audit.run.verification
import kdump.audit.run.verify
from kdump.audit.finding_code import Severity
from kdump.audit.run.verify import verify
from kdump.audit.survey.survey import Survey, survey
from kdump.audit.targets.target import Root, Target, assign, open_roots
from kdump.audit.verdicts.verdict import Coverage, Verdict
from kdump.errors import SourceError, UsageError
from kdump.storage.liveness import BrokerState
from kdump.storage.logdir import Segment
from kdump.storage.workers import WorkerBug
from support.children import children
from support.damaged import FIRST, LAST, RECIPES, Recipe, batches, name
from support.fixtures_loader import FIXTURES, copy_fixture
from support.runners import RUNNERS, by
from support.stand_in import stand_in

pytestmark = pytest.mark.forks


@pytest.fixture(params=RUNNERS)
def runner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    by(request.param, monkeypatch, __name__)
    return str(request.param)


all_runners = pytest.mark.usefixtures("runner")


def roots(*paths: Path) -> list[Root]:
    return list(open_roots(paths))


def verdict(*paths: Path, deep: bool = False, jobs: int = 2) -> list[Verdict]:
    targets = [
        target for root in roots(*paths) for target in map(Target.with_listing, assign(root))
    ]
    return list(verify(targets, deep=deep, jobs=jobs))


def found(*paths: Path, deep: bool = False) -> list[str]:
    return sorted(
        finding.code.name for one in verdict(*paths, deep=deep) for finding in one.findings
    )


def recipe(title: str) -> Recipe:
    (found,) = [recipe for recipe in RECIPES if recipe.name == title]
    return found


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    """A stopped log directory with no partition in it."""
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    return directory


@pytest.fixture
def beside_a_broker(log_directory: Path) -> Iterator[Path]:
    """The log directory while another process holds its lock."""
    with stand_in(log_directory):
        yield log_directory


@pytest.fixture
def instead(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Survey]], None]:
    """``instead(other)``: workers call ``other`` where they would call ``survey``."""
    return lambda other: monkeypatch.setattr(kdump.audit.run.verification, "survey", other)


@all_runners
def test_all_recipes_at_once(log_directory: Path) -> None:
    for recipe_ in RECIPES:
        recipe_.write(log_directory)
    results = verdict(log_directory)
    by_name = {
        each.target.path.name: sorted(finding.code.name for finding in each.findings)
        for each in results
    }
    assert by_name == {
        f"{recipe_.name}-0": [] if recipe_.deep else sorted(recipe_.expected) for recipe_ in RECIPES
    }
    assert [each.target.path.name for each in results] == sorted(by_name)


@all_runners
@pytest.mark.parametrize("fixture", FIXTURES)
def test_what_a_broker_wrote_has_nothing_wrong(fixture: str, tmp_path: Path) -> None:
    directory = copy_fixture(fixture, tmp_path / "data")
    results = verdict(directory, deep=True)
    worse = [
        finding
        for each in results
        for finding in each.findings
        if finding.code.severity is not Severity.INFO
    ]
    assert worse == []
    covered = sum((each.covered for each in results), Coverage())
    assert covered.partitions == sum(path.is_dir() for path in directory.iterdir())
    assert covered.read_bytes == covered.size
    assert covered.records > 500


@all_runners
def test_what_was_covered_is_counted(log_directory: Path) -> None:
    recipe("sound").write(log_directory)
    recipe("marker").write(log_directory)
    covered = sum((one.covered for one in verdict(log_directory)), Coverage())
    size = sum(path.stat().st_size for path in log_directory.glob("*/*.log"))
    assert covered == Coverage(
        partitions=2,
        segments=4,
        size=size,
        read_bytes=size,
        batches=40,
        control_batches=1,
        records=391,
    )


def test_progress_adds_up_to_the_total(log_directory: Path) -> None:
    recipe("sound").write(log_directory)
    (root,) = roots(log_directory)
    targets = [target.with_listing() for target in assign(root)]
    reports: list[int] = []
    assert list(verify(targets, deep=False, jobs=2, on_progress=reports.append))
    assert sum(reports) == sum(target.size for target in targets) > 0


def test_partitions_come_in_order_however_workers_finish(
    log_directory: Path, instead: Callable[[Callable[..., Survey]], None]
) -> None:
    for number in range(6):
        Recipe(f"topic{number}", [], batches(FIRST), batches(LAST)).write(log_directory)

    def slow_at_first(segment: Segment, *args: object, **options: bool) -> Survey:
        time.sleep(0.2 if segment.log.parent.name == "topic0-0" else 0)
        return survey(segment, *args, **options)  # type: ignore[arg-type]

    instead(slow_at_first)
    names = [one.target.path.name for one in verdict(log_directory)]
    assert names == [f"topic{number}-0" for number in range(6)]


# --- what a path means


@all_runners
def test_a_lone_segment_knows_that_others_follow(tmp_path: Path) -> None:
    directory = recipe("torn-sealed").write(tmp_path)
    assert found(directory / name(FIRST, ".log")) == ["torn-tail-sealed"]
    assert found(directory / name(LAST, ".log")) == []


@all_runners
def test_a_lone_last_segment_is_the_last(tmp_path: Path) -> None:
    directory = recipe("torn-last").write(tmp_path)
    assert found(directory / name(LAST, ".log")) == ["torn-tail"]


@all_runners
def test_an_index_stands_for_its_segment(tmp_path: Path) -> None:
    directory = recipe("index-cut").write(tmp_path)
    (one,) = verdict(directory / name(FIRST, ".index"))
    assert one.target.path == directory / name(FIRST, ".log")
    assert [finding.code.name for finding in one.findings] == ["index-length"]


def test_another_file_is_refused(tmp_path: Path) -> None:
    directory = recipe("sound").write(tmp_path)
    with pytest.raises(UsageError, match="leader epoch checkpoint"):
        roots(directory / "leader-epoch-checkpoint")


@all_runners
def test_a_missing_path_is_a_finding_and_the_others_go_on(tmp_path: Path) -> None:
    directory = recipe("sound").write(tmp_path)
    missing, sound = verdict(tmp_path / "missing-0", directory)
    (finding,) = missing.findings
    assert finding.code.name == "vanished"
    assert finding.path == tmp_path / "missing-0"
    assert missing.covered.partitions == 0
    assert sound.covered.partitions == 1


def test_an_unreadable_partition_is_a_finding(
    log_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe("sound").write(log_directory)
    recipe("gaps").write(log_directory)
    (root,) = roots(log_directory)
    real = os.scandir

    def refuse(path: Path) -> Iterator[os.DirEntry[str]]:
        if Path(path).name == "gaps-0":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    first, second = verify(assign(root), deep=False, jobs=1)
    assert [finding.code.name for finding in first.findings] == ["unreadable"]
    assert second.findings == ()


@all_runners
def test_a_log_that_goes_while_listing_has_no_size(
    log_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe("sound").write(log_directory)
    (root,) = roots(log_directory)
    real = Path.stat

    def gone(path: Path, **options: bool) -> os.stat_result:
        if path.name == name(FIRST, ".log"):
            raise FileNotFoundError(2, "No such file or directory")
        return real(path, **options)

    monkeypatch.setattr(Path, "stat", gone)
    (target,) = assign(root)
    assert target.with_listing().size == sum(map(len, batches(LAST)))


@all_runners
def test_no_groups_need_no_workers() -> None:
    assert list(verify([], deep=False, jobs=2)) == []


@all_runners
def test_a_partition_without_segments_comes_out(log_directory: Path) -> None:
    (log_directory / "empty-0").mkdir()
    recipe("sound").write(log_directory)
    empty, sound = verdict(log_directory)
    assert (empty.surveys, empty.findings) == ((), ())
    assert len(sound.surveys) == 2


# --- beside a broker


@all_runners
def test_beside_a_broker_a_torn_tail_is_a_note(beside_a_broker: Path) -> None:
    recipe("torn-last").write(beside_a_broker)
    recipe("torn-sealed").write(beside_a_broker)
    (root,) = roots(beside_a_broker)
    assert root.liveness is not None
    assert root.liveness.state is BrokerState.LIVE
    assert found(beside_a_broker) == ["torn-tail-live", "torn-tail-sealed"]


@all_runners
def test_beside_a_broker_nothing_is_mapped(
    beside_a_broker: Path, instead: Callable[[Callable[..., Survey]], None]
) -> None:
    recipe("sound").write(beside_a_broker)

    def refuse_maps(*args: object, mapped: bool, **options: bool) -> Survey:
        assert not mapped
        return survey(*args, mapped=mapped, **options)  # type: ignore[arg-type]

    instead(refuse_maps)
    assert len(verdict(beside_a_broker)[0].surveys) == 2


@all_runners
@pytest.mark.parametrize("extension", [".log", ".index"])
def test_beside_a_broker_a_vanished_file_is_a_note(
    beside_a_broker: Path, extension: str, runner: str
) -> None:
    directory = recipe("sound").write(beside_a_broker)
    (root,) = roots(beside_a_broker)
    targets = [target.with_listing() for target in assign(root)]
    (directory / name(FIRST, extension)).unlink()
    (verdict,) = verify(targets, deep=False, jobs=1)
    if runner != "workers" and extension == ".log":  # listed again since: retention took it
        assert verdict.findings == ()
        return
    assert "vanished-live" in [finding.code.name for finding in verdict.findings]
    assert {finding.code.severity for finding in verdict.findings} == {Severity.INFO}


@all_runners
def test_a_vanished_file_of_a_stopped_directory_is_incomplete(log_directory: Path) -> None:
    directory = recipe("sound").write(log_directory)
    (root,) = roots(log_directory)
    targets = [target.with_listing() for target in assign(root)]
    (directory / name(FIRST, ".log")).unlink()
    (verdict,) = verify(targets, deep=False, jobs=1)
    (finding,) = verdict.findings
    assert finding.code.name == "vanished"
    assert finding.remedy == ("kdump", "verify", str(directory))
    assert verdict.covered.segments == 1


@all_runners
def test_a_missing_path_beside_a_broker_is_still_missing(beside_a_broker: Path) -> None:
    assert found(beside_a_broker / "missing-0") == ["vanished"]


# --- workers


def test_a_segment_is_read_again_after_sigbus(
    log_directory: Path, instead: Callable[[Callable[..., Survey]], None]
) -> None:
    recipe("crc-sealed").write(log_directory)

    def cut_while_mapped(*args: object, mapped: bool, **options: bool) -> Survey:
        if mapped:
            faulthandler.disable()  # pytest's would print a traceback
            os.kill(os.getpid(), signal.SIGBUS)
        return survey(*args, mapped=mapped, **options)  # type: ignore[arg-type]

    instead(cut_while_mapped)
    (one,) = verdict(log_directory)
    assert [finding.code.name for finding in one.findings] == ["batch-crc-mismatch"]
    assert len(one.surveys) == 2


def test_a_worker_that_is_killed_leaves_a_finding(
    log_directory: Path, instead: Callable[[Callable[..., Survey]], None]
) -> None:
    directory = recipe("sound").write(log_directory)

    def killed(segment: Segment, *args: object, **options: bool) -> Survey:
        if segment.base_offset == FIRST:
            os.kill(os.getpid(), signal.SIGKILL)
        return survey(segment, *args, **options)  # type: ignore[arg-type]

    instead(killed)
    (one,) = verdict(log_directory)
    (finding,) = one.findings
    assert finding.code.name == "unreadable"
    assert finding.path == directory / name(FIRST, ".log")
    assert "SIGKILL" in str(finding.detail)
    assert [survey.segment.base_offset for survey in one.surveys] == [LAST]


def test_an_error_of_our_own_is_no_finding(
    log_directory: Path, instead: Callable[[Callable[..., Survey]], None]
) -> None:
    recipe("sound").write(log_directory)

    def broken(*_: object, **__: bool) -> Survey:
        raise ZeroDivisionError("on purpose")

    instead(broken)
    with pytest.raises(WorkerBug, match="on purpose"):
        verdict(log_directory)


def test_leaving_early_leaves_no_child(log_directory: Path) -> None:
    for number in range(5):
        Recipe(f"topic{number}", [], batches(FIRST), batches(LAST)).write(log_directory)
    targets = [
        target for root in roots(log_directory) for target in map(Target.with_listing, assign(root))
    ]
    before = children()
    results = verify(targets, deep=False, jobs=2)
    next(results)
    assert children() > before
    results.close()
    assert children() == before


@all_runners
def test_an_error_group_says_what_it_could_not_list(tmp_path: Path) -> None:
    error = SourceError(tmp_path / "x", "cannot be read: on purpose")
    target = Target(tmp_path / "x", (), None, stopped=True, size=0, error=error)
    (verdict,) = verify([target], deep=False, jobs=1)
    assert "on purpose" in str(verdict.findings[0].detail)
