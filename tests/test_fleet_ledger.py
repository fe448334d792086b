"""The ledger: what it says of a survey, and what it takes for unproved."""

from __future__ import annotations

from pathlib import Path

from damaged import FIRST, LAST, RECIPES

from kdump.audit.groups import assign, open_roots
from kdump.audit.survey import survey
from kdump.fleet.ledger import Line, uncovered


def test_each_log_has_just_one_line(tmp_path: Path) -> None:
    path = RECIPES[0].write(tmp_path)
    (root,) = open_roots([path])
    (group,) = assign(root)
    surveys = [
        survey(one, lambda _: None, mapped=False, sealed=False, deep=False)
        for one in group.segments
    ]
    first, last = lines = [Line.of(one, "host") for one in surveys]
    assert [line.path.name for line in lines] == [f"{base:020d}.log" for base in (FIRST, LAST)]
    assert last.bytes == last.path.stat().st_size
    assert (last.host, last.batches) == ("host", surveys[1].batches)
    assert (last.first_offset, last.last_offset) == (LAST, surveys[1].last_offset)

    assert not list(uncovered(group, lines, []))
    assert not list(uncovered(group, [first], [last.path]))
    (missing,) = uncovered(group, [last], [])
    assert (missing.code.name, missing.path) == ("unreadable", first.path)
    (twice,) = uncovered(group, [first, last, last], [])
    assert twice.path == last.path
    assert twice.detail is not None
    assert twice.detail.found == "2 lines of the ledger"
