"""The quick pass: it reads small partitions completely, with the verdict of the full pass."""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import kdump.audit.run.prescan
import kdump.audit.run.verification
from kdump.audit.facts.small_files import read_directory
from kdump.audit.run.gather import gather
from kdump.audit.run.prescan import Small, quick_pass
from kdump.audit.run.quick_survey import quick_survey
from kdump.audit.run.verify import verify
from kdump.audit.survey.survey import Survey, survey
from kdump.audit.targets.context import Context, read_context
from kdump.audit.targets.target import Root, Target, assign
from kdump.audit.verdicts.next_start import add_forecast
from kdump.storage.liveness import BrokerState, Liveness
from kdump.storage.logdir import LogDirectory, Segment, open_path
from kdump.storage.paths import as_local
from support import damaged, recipes_directory
from support.damaged import FIRST, name
from support.pipeline import NOW_MS


def opened(path: Path, state: BrokerState = BrokerState.STOPPED) -> tuple[list[Target], Context]:
    target, liveness = open_path(path), Liveness(state, "a test says so")
    assert isinstance(target, LogDirectory)
    root = Root(path, target, liveness, read_directory(target, liveness))
    assert root.directory is not None
    return [target.with_listing() for target in assign(root)], read_context(
        [root.directory], None, NOW_MS
    )


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log directory with a partition for each recipe."""
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    for recipe in damaged.RECIPES:
        recipe.write(tmp_path)
    return tmp_path


@pytest.fixture
def sound(tmp_path: Path) -> tuple[list[Target], Context]:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    (recipe,) = [recipe for recipe in damaged.RECIPES if recipe.name == "sound"]
    recipe.write(tmp_path)
    return opened(tmp_path)


@pytest.mark.parametrize("deep", [False, True])
def test_a_small_partition_has_the_verdict_of_the_full_pass(directory: Path, deep: bool) -> None:
    targets, context = opened(directory)
    conclude = partial(add_forecast, segments=True)
    small = Small.RECORDS if deep else Small.HEADERS
    at_once = list(quick_pass(targets, context, jobs=2, small=small, conclude=conclude))
    later = list(verify(targets, deep=deep, jobs=2, context=context, conclude=conclude))
    assert len(at_once) == len(damaged.RECIPES)
    for verdict, other in zip(at_once, later, strict=True):
        assert not verdict.quick
        assert verdict == other


def test_a_small_metadata_log_is_replayed_as_in_the_full_pass(tmp_path: Path) -> None:
    (recipe,) = [each for each in recipes_directory.RECIPES if each.name == "metadata-unknown"]
    recipe.write(tmp_path)
    targets, context = opened(tmp_path)
    at_once = list(quick_pass(targets, context, jobs=1, small=Small.RECORDS))
    assert at_once == list(verify(targets, deep=True, jobs=1, context=context))
    findings = [finding for verdict in at_once for finding in verdict.findings]
    assert "metadata-unreplayable" in {finding.code.name for finding in findings}


def test_ends_alone_are_read_where_nothing_else_was_asked_for(directory: Path) -> None:
    targets, context = opened(directory)
    assert all(verdict.quick for verdict in quick_pass(targets, context, jobs=1))


def test_ends_alone_are_read_of_what_is_large(
    sound: tuple[list[Target], Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    targets, context = sound
    monkeypatch.setattr(kdump.audit.run.prescan, "_SMALL_BYTES", targets[0].size - 1)
    (verdict,) = quick_pass(targets, context, jobs=1, small=Small.HEADERS)
    assert verdict.quick
    assert verdict.covered.read_bytes < verdict.covered.size


def test_beside_a_broker_ends_alone_are_read_and_nothing_is_mapped(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unmapped(*args: object, mapped: bool, **options: bool) -> Survey:
        assert not mapped
        return quick_survey(*args, mapped=mapped, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(kdump.audit.run.prescan, "quick_survey", unmapped)
    monkeypatch.setattr("kdump.audit.run.reconcile._RECHECK_SECONDS", 0)
    targets, context = opened(directory, BrokerState.LIVE)
    found = list(quick_pass(targets[:20], context, jobs=1, small=Small.HEADERS))
    assert len(found) == 20
    assert all(verdict.quick for verdict in found)


@pytest.mark.parametrize("small", [Small.ENDS, Small.HEADERS])
def test_after_a_file_is_cut_the_ends_are_read_unmapped(
    small: Small, sound: tuple[list[Target], Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_while_mapped(plain: Callable[..., Survey]) -> Callable[..., Survey]:
        def instead(*args: object, mapped: bool, **options: bool) -> Survey:
            if mapped:
                faulthandler.disable()  # pytest's would print a traceback
                os.kill(os.getpid(), signal.SIGBUS)
            return plain(*args, mapped=mapped, **options)

        return instead

    for plain in (survey, quick_survey):
        monkeypatch.setattr(kdump.audit.run.prescan, plain.__name__, cut_while_mapped(plain))
    targets, context = sound
    (verdict,) = quick_pass(targets, context, jobs=1, small=small)
    assert verdict.quick
    assert (verdict.findings, len(verdict.surveys)) == ((), 2)


def killed(*_: object, **__: bool) -> Survey:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_a_target_that_kills_a_worker_is_read_alone(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets, context = opened(directory)
    number = next(n for n, target in enumerate(targets) if target.path.name == "sound-0")

    def deadly(segment: Segment, **options: Any) -> Survey:
        if segment.log.parent == targets[number].path:
            killed()
        return quick_survey(segment, **options)

    monkeypatch.setattr(kdump.audit.run.prescan, "quick_survey", deadly)
    found = list(quick_pass(targets, context, jobs=1))
    assert [verdict.target for verdict in found] == targets
    named_findings = [
        (verdict.target.path.name, finding) for verdict in found for finding in verdict.findings
    ]
    unreadable = [name for name, finding in named_findings if finding.code.name == "unreadable"]
    assert unreadable == ["sound-0"]
    assert len(found[number - 1].surveys) == len(targets[number - 1].segments)


def test_a_worker_that_is_killed_leaves_it_to_the_full_pass(
    sound: tuple[list[Target], Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kdump.audit.run.prescan, "survey", killed)
    monkeypatch.setattr(kdump.audit.run.prescan, "quick_survey", killed)
    targets, context = sound
    (verdict,) = quick_pass(targets, context, jobs=1, small=Small.HEADERS)
    assert verdict.quick
    assert [finding.code.name for finding in verdict.findings] == ["unreadable"]
    (again,) = verify(targets, deep=False, jobs=1, context=context)
    assert again.findings == ()


def test_what_is_known_is_not_read_again(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    targets, context = opened(directory)
    known = dict(enumerate(quick_pass(targets, context, jobs=1, small=Small.HEADERS)))
    left = next(
        number for number, verdict in known.items() if verdict.target.path.name == "sound-0"
    )
    del known[left]
    read: list[Path] = []

    def note(
        plain: Callable[..., object], target: Target, context: Context, *, deep: bool
    ) -> object:
        read.append(as_local(target.path))
        return plain(target, context, deep=deep)

    monkeypatch.setattr(kdump.audit.run.verification, "gather", partial(note, gather))
    found = list(verify(targets, deep=False, jobs=1, context=context, known=known))
    assert read == [targets[left].path]
    assert [verdict.target for verdict in found] == targets
    assert all(found[number] is verdict for number, verdict in known.items())
    assert found[left].surveys[0].segment.base_offset == FIRST
    assert found[left].surveys[0].segment.log.name == name(FIRST, ".log")
