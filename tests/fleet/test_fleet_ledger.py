"""The ledger: what it says of a survey, and what it takes for unproved."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from kdump.audit.run.target_tasks import LedgerLine
from kdump.audit.survey.survey import survey
from kdump.audit.targets.inventory import Inventory
from kdump.audit.targets.target import assign, open_roots
from kdump.fleet.verify.ledger import coverage_findings
from support.damaged import FIRST, LAST, RECIPES

pytestmark = pytest.mark.once


def test_each_log_has_just_one_line(tmp_path: Path) -> None:
    path = RECIPES[0].write(tmp_path)
    (root,) = open_roots([path])
    (target,) = assign(root)
    taken = Inventory.of(target)
    surveys = [
        survey(one, lambda _: None, mapped=False, sealed=False, deep=False)
        for one in target.segments
    ]
    first, last = lines = [LedgerLine.from_survey(one, "host") for one in surveys]
    assert [line.path.name for line in lines] == [f"{base:020d}.log" for base in (FIRST, LAST)]
    assert last.bytes == last.path.stat().st_size
    assert (last.host, last.batches) == ("host", surveys[1].batches)
    assert (last.first_offset, last.last_offset) == (LAST, surveys[1].last_offset)

    assert not list(coverage_findings(target, taken, lines, []))
    assert not list(coverage_findings(target, taken, [first], [last.path]))
    (missing,) = coverage_findings(target, taken, [last], [])
    assert (missing.code.name, missing.path) == ("unreadable", first.path)
    (twice,) = coverage_findings(target, taken, [first, last, last], [])
    assert twice.path == last.path
    assert twice.detail is not None
    assert twice.detail.found == "2 lines of the ledger"


@pytest.mark.parametrize("name", ["", "gone", f"{FIRST:020d}.log"])
def test_an_inventory_gives_back_what_was_listed(tmp_path: Path, name: str) -> None:
    path = RECIPES[0].write(tmp_path)
    (root,) = open_roots([path / name])
    (target,) = assign(root)
    taken = pickle.loads(pickle.dumps(Inventory.of(target)))
    opened = taken.open(target.without_listing())
    assert str(opened.error) == str(target.error)
    assert replace(opened, error=target.error) == target
    logs = {segment.log: segment.log.stat().st_size for segment in target.segments}
    assert {taken.folder / name: size for name, size in taken.logs.items()} == logs
