"""Copies that others can write, or that change while they are read: what ``heal`` believes of them.

Spec: ``credentials(7)``.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands.heal.forged_copies import broken, logs, plain, write
from kdump.errors import KdumpError, Refused, SourceError, UsageError, VanishedError
from kdump.repair.healing import copies, plan, result
from kdump.repair.healing.draft import LogPart, PartsSource
from kdump.repair.transaction.apply import apply
from kdump.storage.logdir import MAX_LOG_BYTES
from kdump.storage.manifests.path import ManifestPath
from kdump.ui.exits import INCOMPLETE, OK, PROBLEMS
from support import forge
from support.crashing.running import run
from support.damaged import name
from support.forge import flip
from support.planning import healing, left

pytestmark = pytest.mark.usefixtures("unsearched")

GOOD = plain(0, 50)
LOG = name(0, ".log")


@pytest.fixture(autouse=True)
def _config(place: Path) -> None:
    (place / "server.properties").write_text("log.index.interval.bytes=4096\n")


@pytest.fixture
def own(place: Path) -> Path:
    """A partition with a damaged batch."""
    return write(place / "own", {0: broken(GOOD, 2)})


@pytest.fixture
def copy(place: Path) -> Path:
    """A sound copy of it."""
    return write(place / "copy", {0: GOOD})


def calling_before(
    monkeypatch: pytest.MonkeyPatch, module: Any, function: str, happens: Callable[[], None]
) -> None:
    """Something happens before each call of a function of a module."""
    before = getattr(module, function)

    def around(*arguments: Any, **more: Any) -> Any:
        happens()
        return before(*arguments, **more)

    monkeypatch.setattr(module, function, around)


# --- copies that change


@pytest.mark.timeout(20)
@pytest.mark.parametrize("function", ["survey_draft", "_pieces"])
def test_a_copy_that_is_truncated_meanwhile_is_an_error(
    own: Path, copy: Path, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = left(own.parent)
    module = plan if function == "survey_draft" else result
    calling_before(monkeypatch, module, function, lambda: os.truncate(copy / LOG, 250))
    with pytest.raises(SourceError, match="end"):
        healing(own, copy)
    assert left(own.parent) == before


@pytest.mark.timeout(20)
def test_a_part_beyond_the_end_of_its_log_is_an_error(place: Path) -> None:
    path = place / "log"
    path.write_bytes(bytes(50))
    for position, size in ((0, 100), (50, 100), (60, 10)):
        with PartsSource(path, [LogPart(path, 0, 50), LogPart(path, position, size)]) as source:
            assert source.size == 50 + size
            with pytest.raises(VanishedError, match="found the end of the file"):
                for at in (49, 50, 60 + position):
                    source.window(at, 200)


def test_what_changes_behind_the_check_is_not_taken(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes that are sound when their checksums are compared, and others when they are hashed."""
    good = [
        forge.batch(number, [forge.record(bytes(60_000))], base_timestamp=number)
        for number in range(100)
    ]
    own = write(place / "own", {0: [good[0], *broken(good[1:-1], *range(98)), good[-1]]})
    copy = write(place / "copy", {0: good})
    before = left(place / "own")

    def spoil() -> None:
        (copy / LOG).write_bytes(flip(b"".join(good), 60_500))

    calling_before(monkeypatch, result, "_check_runs", spoil)
    made = healing(own, copy).plan
    with pytest.raises(Refused, match="nothing was changed"):
        apply(made)
    assert left(place / "own") == before


# --- copies of other users


def give_all(top: Path, uid: int) -> None:
    for path in (top, *top.rglob("*")):
        os.chown(path, uid, pwd.getpwuid(uid).pw_gid, follow_symlinks=False)


@pytest.fixture
def nobody() -> int:
    return pwd.getpwnam("nobody").pw_uid


@pytest.fixture
def secret(place: Path) -> Path:
    """A sound copy of root's, which no other user can read."""
    path = write(place / "secret", {0: GOOD})
    path.chmod(0o700)
    (path / LOG).chmod(0o600)
    return path


@pytest.mark.root
@pytest.mark.parametrize("moment", ["before", "planning", "applying"])
def test_a_link_in_a_copy_leads_to_no_file_that_its_owner_cannot_read(
    own: Path, copy: Path, secret: Path, nobody: int, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (own.parent, copy.parent):
        give_all(path, nobody)
    before = logs(own)

    def swap() -> None:
        if not (copy / LOG).is_symlink():
            (copy / LOG).unlink()
            (copy / LOG).symlink_to(secret / LOG)

    if moment == "planning":
        calling_before(monkeypatch, plan, "own_segment", swap)
    elif moment == "before":
        swap()
        monkeypatch.setattr(copies, "_check_files", lambda *_: None)
    if moment == "applying":
        made = healing(own, copy).plan
        swap()
        with pytest.raises(Refused, match="expected the bytes that the plan takes"):
            apply(made)
    elif moment == "before":
        with pytest.raises(SourceError, match="cannot be read"):
            healing(own, copy)
    else:
        made = healing(own, copy).plan
        assert [put.name for put in made.puts] == []
        assert any("could not be read" in note for note in made.notes)
    assert logs(own) == before
    assert os.geteuid() == 0


@pytest.mark.root
def test_a_copy_that_is_a_link_to_a_directory_of_root_is_refused(
    own: Path, place: Path, secret: Path, nobody: int
) -> None:
    home = place / "home"
    home.mkdir()
    (home / "orders-0").symlink_to(secret)
    give_all(own.parent, nobody)
    os.chown(home, nobody, -1)
    os.chown(home / "orders-0", nobody, -1, follow_symlinks=False)
    for typed in (home / "orders-0", home):
        with pytest.raises(KdumpError, match="expected a path that only root can change"):
            healing(own, typed)


@pytest.mark.root
def test_a_copy_of_another_user_is_named(own: Path, copy: Path, nobody: int) -> None:
    give_all(copy.parent, nobody)
    made = healing(own, copy).plan
    said = f"{copy} belongs to user {nobody}, the partition to user 0"
    assert any(said in note for note in made.notes), made.notes
    apply(made)
    assert logs(own) == logs(copy)


@pytest.mark.root
def test_a_copy_that_others_can_write_is_named(own: Path, copy: Path, nobody: int) -> None:
    give_all(copy.parent, nobody)
    copy.chmod(0o777)
    assert any(f"other users can write to {copy}" in note for note in healing(own, copy).plan.notes)


# --- claims


def test_a_log_that_no_broker_opens_is_refused(own: Path, copy: Path) -> None:
    os.truncate(copy / LOG, MAX_LOG_BYTES + 1)
    with pytest.raises(Refused, match=f"expected at most {MAX_LOG_BYTES} bytes"):
        healing(own, copy)


def test_a_manifest_has_no_batches_to_take(own: Path, copy: Path, place: Path) -> None:
    file = place / "copy.manifest"
    ran = run(["manifest", str(copy), "--to", str(file)])
    assert ran.code == OK, ran
    with pytest.raises(UsageError, match="expected a replica with its records, found a manifest"):
        healing(own, ManifestPath.of(file))
    ran = run(["heal", str(own), "--from", str(file)])
    assert ran.code == 2, ran


# --- what could not be read


@pytest.mark.root
def test_a_copy_that_cannot_be_read_is_an_exit_code(own: Path, copy: Path, nobody: int) -> None:
    give_all(copy.parent, nobody)
    (copy / LOG).chmod(0o600)
    os.chown(copy / LOG, 0, 0)
    ran = run(["heal", str(own), "--from", str(copy)])
    assert ran.code == INCOMPLETE, ran
    words = " ".join(ran.out.split())
    assert "could not be read" in words
    assert "no readable replica has them" in words


def test_the_plan_says_what_it_does_not_compare(own: Path, copy: Path) -> None:
    ran = run(["heal", str(own), "--from", str(copy)])
    assert ran.code == PROBLEMS
    assert f"kdump compare {own} {copy}" in " ".join(ran.out.split())
