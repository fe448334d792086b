"""The journal of a repair of a log directory: written whole, believed of its owner alone."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from commands.repair import damaged_directory as damaged
from kdump.errors import Refused, SourceError
from kdump.repair.journal import (
    begin,
    finish,
    has_begun,
    is_over,
    note_plan,
    own_journal,
    records_of,
    take_back,
)
from kdump.repair.transaction.apply import apply
from kdump.repair.transaction.plan import Plan
from kdump.storage.paths import as_local
from kdump.storage.repair_journal import (
    JournaledCure,
    RepairJournal,
    journal_path,
    read_journal,
    repair_journals,
)
from support.crashing.trees import take
from support.planning import failing_at, reindexing, truncation

pytestmark = pytest.mark.usefixtures("unsearched")


@pytest.fixture
def data(place: Path) -> Path:
    return damaged.write(place)[0]


@pytest.fixture
def plans(data: Path) -> dict[str, Plan]:
    (data.parent / "server.properties").write_text("log.index.interval.bytes=4096\n")
    return {"torn-0": truncation(data / "torn-0"), "index-0": reindexing(data / "index-0")}


@pytest.fixture
def journal(data: Path, plans: dict[str, Plan]) -> RepairJournal:
    cures = tuple(
        JournaledCure(name, "tail" if name == "torn-0" else "rebuild", plan.id)
        for name, plan in plans.items()
    )
    return RepairJournal(
        journal_path(data, "0123abcd"),
        "0123abcd",
        ("--only", "tail"),
        False,
        5,
        cures,
        (),
        2,
        False,
    )


def carry_out(journal: RepairJournal, plans: dict[str, Plan]) -> Path:
    begin([journal])
    path = as_local(journal.path)
    for name, plan in plans.items():
        note_plan(path, name, plan.id)
        apply(plan, assume_stopped=True)
    finish(path)
    return path


def test_what_is_written_is_read(data: Path, journal: RepairJournal) -> None:
    begin([journal])
    assert repair_journals(data) == (journal,)
    assert own_journal(as_local(journal.path)) == journal
    assert as_local(journal.path).stat().st_mode & 0o777 == 0o600
    assert not has_begun([journal])
    assert is_over(journal)


def test_a_finished_repair_is_taken_back(
    data: Path, journal: RepairJournal, plans: dict[str, Plan]
) -> None:
    before = take(data)
    path = carry_out(journal, plans)
    done = own_journal(path)
    assert done.done
    assert [cure.applied for cure in done.cures] == [(plan.id,) for plan in plans.values()]
    assert has_begun([done])
    undone = list(take_back(done, assume_stopped=True))
    assert [(partition.name, error) for partition, _, error in undone] == [
        ("index-0", None),
        ("torn-0", None),
    ]
    assert {name: node for name, node in take(data).items() if name != ".lock"} == before


def test_backups_are_removed(data: Path, journal: RepairJournal, plans: dict[str, Plan]) -> None:
    path = carry_out(journal, plans)
    assert len(list(take_back(own_journal(path), assume_stopped=True, discarding=True))) == 2
    assert not path.exists()
    assert list(data.glob("*/.kdump")) == []


def test_a_part_is_taken_back(journal: RepairJournal, plans: dict[str, Plan]) -> None:
    path = carry_out(journal, plans)
    done = own_journal(path)
    part = replace(done, cures=done.cures[:1])
    assert [partition.name for partition, *_ in take_back(part, assume_stopped=True)] == ["torn-0"]
    assert path.exists()
    assert not is_over(done)


def test_what_a_broker_has_changed_keeps_the_journal(
    data: Path, journal: RepairJournal, plans: dict[str, Plan]
) -> None:
    path = carry_out(journal, plans)
    with (data / "torn-0" / "00000000000000000100.log").open("ab") as log:
        log.write(b"x")
    undone = {
        partition.name: error
        for partition, _, error in take_back(own_journal(path), assume_stopped=True)
    }
    assert undone["index-0"] is None
    assert isinstance(undone["torn-0"], Refused)
    assert path.exists()


def test_a_repair_without_a_change_leaves_no_journal(journal: RepairJournal) -> None:
    begin([journal])
    finish(as_local(journal.path))
    assert not as_local(journal.path).exists()


def test_what_is_prepared_has_not_begun(
    data: Path, journal: RepairJournal, plans: dict[str, Plan]
) -> None:
    begin([journal])
    path, plan = as_local(journal.path), plans["index-0"]
    note_plan(path, "index-0", plan.id)
    (data / "index-0" / ".kdump" / plan.id).mkdir(parents=True)
    cure = own_journal(path).cures[1]
    assert records_of(data, cure) == []
    assert [record.id for record in records_of(data, cure, prepared=True)] == [plan.id]
    assert list(take_back(own_journal(path), assume_stopped=True)) == []
    assert list(data.glob("*/.kdump")) == []
    assert not path.exists()


def test_all_journals_are_written_or_none(data: Path, journal: RepairJournal, place: Path) -> None:
    other = Path(shutil.copytree(data, place / "other"))
    second = replace(journal, path=journal_path(other, journal.id))
    with failing_at("rename", 1, errno.ENOSPC), pytest.raises(Refused, match="nothing was changed"):
        begin([journal, second])
    assert [*data.glob(".kdump.*"), *other.glob(".kdump.*")] == []


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: fields | {"cures": [{"partition": "../x", "cure": "tail"}]},
        lambda fields: fields | {"cures": [fields["cures"][0] | {"partition": ".."}]},
        lambda fields: fields | {"cures": [fields["cures"][0] | {"applied": ["../../x"]}]},
        lambda fields: fields | {"id": "00000000"},
        lambda fields: fields | {"schema": 2},
        lambda fields: fields | {"command": "salvage"},
        lambda fields: fields | {"done": "no"},
        lambda fields: fields | {"begun_ns": True},
        lambda fields: fields | {"arguments": [1]},
        lambda fields: fields | {"left": ["a/b"]},
        lambda fields: [fields],
    ],
)
def test_what_no_repair_wrote(journal: RepairJournal, change: Callable[[Any], Any]) -> None:
    begin([journal])
    path = as_local(journal.path)
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(SourceError, match="expected the journal of a repair"):
        read_journal(path)


def test_what_others_can_write_is_not_believed(journal: RepairJournal) -> None:
    begin([journal])
    path = as_local(journal.path)
    path.chmod(0o602)
    with pytest.raises(Refused, match="no other user can write"):
        own_journal(path)


def test_links_and_directories_are_no_journals(data: Path, journal: RepairJournal) -> None:
    begin([journal])
    os.rename(journal.path, data / "elsewhere")
    (data / ".kdump.0123abcd").symlink_to(data / "elsewhere")
    (data / ".kdump.0123abce").mkdir()
    assert repair_journals(data) == ()
