"""What must be so before a repair changes anything, as far as it needs no broker."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kdump.errors import Refused
from kdump.repair.transaction import lock as interlock
from kdump.repair.transaction.apply import apply
from kdump.repair.transaction.directories import open_directory
from kdump.repair.transaction.plan import Put, Remove, Stamp
from kdump.repair.transaction.undo import undo
from kdump.storage import liveness
from kdump.storage.repair_record import repair_records
from support.damaged import name
from support.planning import (
    by_hand,
    left,
    restored,
    truncation,
    undone,
)

pytestmark = pytest.mark.usefixtures("unsearched")

LOG, INDEX, TIMES = (name(100, suffix) for suffix in (".log", ".index", ".timeindex"))
LATER = name(200, ".log")
EPOCHS = "leader-epoch-checkpoint"


def test_a_live_directory_is_refused(lossy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [liveness.Use(liveness.Process(7, "java"), str(lossy / LOG), writes=True)]
    monkeypatch.setattr(liveness, "_open_files", lambda *_: iter(found))
    before = left(lossy.parent)
    plan = by_hand(lossy, Put.of("new", b"", replaces=False))
    for assume_stopped in (False, True):
        with pytest.raises(
            Refused,
            match=r"expected a stopped broker, found a running broker: process 7 \(java\) has",
        ):
            apply(plan, assume_stopped=assume_stopped)
    assert left(lossy.parent) == before


def test_an_unknown_broker_state_needs_an_option(
    lossy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "_network_file_system", lambda _: "NFS")
    before = left(lossy.parent)
    plan = by_hand(lossy, Put.of("new", b"", replaces=False))
    with pytest.raises(
        Refused,
        match=(r"cannot determine whether a broker is running: .* is on NFS.*add --assume-stopped"),
    ):
        apply(plan)
    assert left(lossy.parent) == before
    apply(plan, assume_stopped=True)
    (repair,) = repair_records(lossy)
    with pytest.raises(Refused, match="add --assume-stopped"):
        undo(repair, lossy, lossy.parent, assume_stopped=False)
    undo(repair, lossy, lossy.parent, assume_stopped=True)
    assert restored(lossy.parent, before)


def test_a_lock_that_is_held_is_respected(lossy: Path) -> None:
    path = lossy.parent / ".lock"
    path.touch()
    plan = by_hand(lossy, Put.of("new", b"", replaces=False))
    before = left(lossy.parent)
    descriptor = os.open(path, os.O_RDWR)
    try:
        # As another kdump has it.
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, interlock._WHOLE_FILE)
        with pytest.raises(Refused, match=r"expected a stopped broker|found it taken"):
            apply(plan)
        with pytest.raises(
            Refused, match=("expected to get the lock, found that another process holds it")
        ):
            interlock._lock(os.open(path, os.O_RDWR), path)
    finally:
        os.close(descriptor)
    assert left(lossy.parent) == before


def test_a_lock_that_is_replaced_is_refused(lossy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = by_hand(lossy, Put.of("new", b"", replaces=False))
    before = left(lossy.parent)
    lock = interlock._lock
    for again in (False, True):

        def locked(descriptor: int, path: Path, again: bool = again) -> None:
            path.unlink()
            if again:
                path.touch()
            lock(descriptor, path)

        monkeypatch.setattr(interlock, "_lock", locked)
        with pytest.raises(
            Refused, match=("expected the lock file to stay, found that it was replaced")
        ):
            apply(plan)
    assert left(lossy.parent) == before


def test_a_lock_that_cannot_be_made(lossy: Path) -> None:
    (lossy.parent / ".lock").mkdir()
    before = left(lossy.parent)
    with pytest.raises(
        Refused, match="expected the lock file that brokers make, found another kind of file"
    ):
        apply(by_hand(lossy, Put.of("new", b"", replaces=False)), assume_stopped=True)
    assert left(lossy.parent) == before


def test_a_file_system_without_locks(lossy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    plan = by_hand(lossy, Put.of("new", b"", replaces=False))
    monkeypatch.setattr(fcntl, "fcntl", none)
    with pytest.raises(Refused, match="cannot be locked: No locks available"):
        apply(plan, assume_stopped=True)


def test_elsewhere_than_on_linux(lossy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = by_hand(lossy, Put.of("new", b"", replaces=False))
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(Refused, match="repairs need Linux, found darwin"):
        apply(plan)


def test_without_room(lossy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = truncation(lossy)
    before = left(lossy.parent)
    space = os.statvfs(lossy)

    class Full:
        f_bavail, f_frsize = 100, space.f_frsize

    monkeypatch.setattr(os, "statvfs", lambda _: Full)
    with pytest.raises(Refused, match=r"expected \d+ free bytes, found \d+"):
        apply(plan)
    assert left(lossy.parent) == before
    monkeypatch.undo()
    apply(plan)
    monkeypatch.setattr(os, "statvfs", lambda _: Full)
    undone(lossy, plan)
    assert restored(lossy.parent, before)


def test_files_of_somebody_else(lossy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = truncation(lossy)
    before = left(lossy.parent)
    uid = lossy.stat().st_uid + 1
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    with pytest.raises(
        Refused, match=f"expected user {uid} to own it, found user {uid - 1}: run as"
    ):
        apply(plan)
    assert left(lossy.parent) == before


def test_a_log_directory_that_goes_away_before_it_is_locked(
    lossy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, away = truncation(lossy), lossy.parent.with_name("away")

    @contextmanager
    def moved_after(path: Path) -> Iterator[object]:
        with open_directory(path) as directory:
            path.rename(away)
            yield directory

    monkeypatch.setattr(interlock, "open_directory", moved_after)
    with pytest.raises(Refused, match=r"\.lock: cannot be locked: No such file or directory"):
        apply(plan)
    assert not (away / lossy.name / ".kdump").exists()


def test_a_file_that_is_a_link(lossy: Path) -> None:
    (lossy / EPOCHS).rename(lossy.parent.parent / "epochs")
    (lossy / EPOCHS).symlink_to(lossy.parent.parent / "epochs")
    before = left(lossy.parent.parent)
    with pytest.raises(Refused, match=f"{EPOCHS}: expected a file, found a symbolic link"):
        apply(truncation(lossy))
    assert left(lossy.parent.parent) == before


def test_nothing_of_a_repair_is_for_others_to_read(lossy: Path) -> None:
    plan = truncation(lossy)
    apply(plan)
    owner = lossy.stat()
    for path in [lossy / ".kdump", *(lossy / ".kdump").rglob("*")]:
        status = path.stat()
        assert status.st_uid == owner.st_uid
        private = path.is_dir() or path.suffix == ".json"
        assert status.st_mode & 0o077 == 0 or not private, path


def test_stamps_are_compared_to_the_nanosecond(lossy: Path) -> None:
    path = lossy / LOG
    plan = replace(
        by_hand(lossy, Remove(LOG)),
        files={
            **by_hand(lossy).files,
            LOG: Stamp(path.stat().st_size, path.stat().st_mtime_ns + 1),
        },
    )
    with pytest.raises(Refused, match="plan again"):
        apply(plan)


def test_a_partition_that_is_gone_is_another_one(lossy: Path) -> None:
    assert interlock.same_file(lossy, lossy.parent / "." / lossy.name)
    assert not interlock.same_file(lossy, lossy.parent / "gone-0")
