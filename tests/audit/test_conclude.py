"""The passes retain of a verdict what reports show, and no more."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kdump.audit.codes import CODES
from kdump.audit.facts.small_files import read_directory
from kdump.audit.run.prescan import quick_pass
from kdump.audit.run.verify import verify
from kdump.audit.survey.events import Events
from kdump.audit.targets.context import Context, read_context
from kdump.audit.targets.target import Root, Target, assign
from kdump.audit.verdicts.next_start import add_forecast
from kdump.audit.verdicts.verdict import Verdict
from kdump.storage.liveness import BrokerState, Liveness
from kdump.storage.logdir import LogDirectory, open_path
from support import forge
from support.damaged import FIRST, LAST, Recipe, batches, name
from support.forge import TIMESTAMP


def opened(path: Path) -> tuple[list[Target], Context]:
    target, liveness = open_path(path), Liveness(BrokerState.STOPPED, "a test says so")
    assert isinstance(target, LogDirectory)
    root = Root(path, target, liveness, read_directory(target, liveness))
    assert root.directory is not None
    return [target.with_listing() for target in assign(root)], read_context(
        [root.directory], None, TIMESTAMP
    )


def made(path: Path, producers: int) -> Path:
    """A log directory with a damaged partition, whose last segment has so many producers."""
    entries = [(number, 0, 0, -1, 0, TIMESTAMP, 0, -1) for number in range(producers)]
    files = {name(LAST, ".snapshot"): forge.snapshot(entries)}
    last = [forge.flip(batches(LAST)[0], -1), *batches(LAST)[1:]]
    top = {"meta.properties": b"version=0\nbroker.id=1\n"}
    Recipe("topic", [], batches(FIRST), last, files, top=top).write(path)
    return path


def passes(path: Path, *, segments: bool) -> Iterator[Verdict]:
    targets, context = opened(path)
    conclude = partial(add_forecast, segments=segments)
    yield from quick_pass(targets, context, jobs=1, conclude=conclude)
    yield from verify(targets, deep=False, jobs=1, context=context, conclude=conclude)


def test_of_a_log_directorys_partition_what_stays_does_not_grow(tmp_path: Path) -> None:
    few = list(passes(made(tmp_path / "few", 1), segments=False))
    many = list(passes(made(tmp_path / "many", 3000), segments=False))
    for verdict, other in zip(few, many, strict=True):
        assert (other.surveys, other.facts) == ((), None)
        assert [finding.code for finding in verdict.findings] == [
            finding.code for finding in other.findings
        ]
        assert other.covered == verdict.covered
        assert other.forecast is not None
        sizes = [len(pickle.dumps((each.findings, each.forecast))) for each in (verdict, other)]
        assert abs(sizes[0] - sizes[1]) < 100


def test_of_a_partition_its_segments_stay(tmp_path: Path) -> None:
    for verdict in passes(made(tmp_path, 3000), segments=True):
        assert [survey.segment.base_offset for survey in verdict.surveys] == [FIRST, LAST]
        assert all(survey.events == Events() for survey in verdict.surveys)
        assert verdict.surveys[1].size
        assert verdict.facts is not None
        assert (verdict.facts.snapshots, verdict.facts.txn_indexes) == ({}, {})


def test_a_verdict_comes_back_with_the_requested_target(tmp_path: Path) -> None:
    targets, context = opened(made(tmp_path, 1))
    (verdict,) = quick_pass(targets, context, jobs=1)
    assert verdict.target is targets[0]


def test_a_target_that_was_listed_again_comes_back_as_it_is_now(tmp_path: Path) -> None:
    targets, context = opened(made(tmp_path, 1))
    (tmp_path / "topic-0" / name(FIRST, ".log")).unlink()
    (verdict,) = quick_pass(targets, context, jobs=1)
    assert [segment.base_offset for segment in verdict.target.segments] == [LAST]
    assert verdict.target.directory is targets[0].directory


@pytest.mark.parametrize("code", list(CODES.values()), ids=lambda code: code.name)
def test_a_code_stays_the_same_object_where_it_travels(code: object) -> None:
    assert pickle.loads(pickle.dumps(code)) is code
