"""Files that the broker's user may not open: ``broker-denied``, held against a start of 4.3.1."""

from __future__ import annotations

import os
import pwd
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from brokers.broker import QUICK_RESTART, Broker
from brokers.server import ServerError
from kdump.format.lines.shell import shell_text
from support import damaged
from support.commands import kdump
from support.damaged import FIRST, LAST, name
from support.fixtures_loader import copy_fixture

pytestmark = [
    pytest.mark.once,
    pytest.mark.root,
]

NOBODY = pwd.getpwnam("nobody")
#: ACL_EA_VERSION; the entries are tag, permissions and id: owner, a user, group, mask, others.
_ACCESS_LIST = (
    struct.pack("<I", 2)
    + struct.pack("<HHI", 1, 6, 0xFFFFFFFF)
    + struct.pack("<HHI", 2, 6, NOBODY.pw_uid)
    + struct.pack("<HHI", 4, 0, 0xFFFFFFFF)
    + struct.pack("<HHI", 16, 6, 0xFFFFFFFF)
    + struct.pack("<HHI", 32, 0, 0xFFFFFFFF)
)


def give(top: Path, uid: int = NOBODY.pw_uid, gid: int = NOBODY.pw_gid) -> None:
    """Give a directory and all that is in it to a user."""
    for path in (top, *top.rglob("*")):
        os.chown(path, uid, gid)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A log directory of user nobody with three partitions."""
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    (directory / ".lock").touch()
    for recipe in [recipe for recipe in damaged.RECIPES if not recipe.expected][:3]:
        recipe.write(directory)
    give(directory)
    return directory


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A directory that all users can reach."""
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o755)
        yield Path(made)


def denied(top: Path, *options: str) -> list[dict[str, Any]]:
    found = kdump("verify", top, *options, searching=False)
    return [line for line in found.of("finding") if line["code"] == "broker-denied"]


def follow(top: Path) -> None:
    """Run the command that the only finding names, as it is printed."""
    (finding,) = denied(top)
    subprocess.run(["sh", "-c", shell_text(finding["remedy"])], check=True)
    assert denied(top) == []


def partition(top: Path) -> Path:
    return sorted(path for path in top.iterdir() if path.is_dir())[0]


def restored(path: Path, mode: int, uid: int = 0, gid: int = 0) -> None:
    os.chown(path, uid, gid)
    path.chmod(mode)


def test_a_log_that_root_restored_takes_the_directory_offline(top: Path) -> None:
    assert denied(top) == []
    log = partition(top) / name(FIRST, ".log")
    restored(log, 0o640)
    for options in ([], ["--quick"]):
        (finding,) = denied(top, *options)
        assert finding["path"] == str(log)
        assert finding["severity"] == "error"
        assert finding["detail"] == {
            "expected": "user nobody to be allowed to read and write",
            "found": "mode 0640 with owner root and group root",
        }
    (start,) = next(kdump("next-start", top, searching=False).of("summary"))["next_starts"]
    assert start["outcome"] == "offline"


def test_further_files_of_a_partition_are_counted(top: Path) -> None:
    give(partition(top), 0, 0)
    (finding,) = denied(top)
    assert finding["path"] == str(partition(top))
    assert finding["detail"]["expected"].endswith("read, write and search")
    files = [path for path in partition(top).iterdir() if path.suffix in (".log", ".index")]
    assert len(files) >= 4
    assert "more such files" in finding["detail"]["found"]
    link = top.parent / "elsewhere"
    os.link(files[0], link)
    subprocess.run(["sh", "-c", shell_text(finding["remedy"])], check=True)
    (finding,) = denied(top)
    assert finding["path"] == str(files[0]), "another link of it may be anywhere"
    link.unlink()
    follow(top)


@pytest.mark.parametrize(
    ("file", "mode", "found"),
    [
        ("log", 0o644, True),
        ("log", 0o666, False),
        ("snapshot", 0o644, False),
        ("snapshot", 0o600, True),
        ("leader-epoch-checkpoint", 0o644, False),
        ("leader-epoch-checkpoint", 0o600, True),
        ("README", 0o644, False),
        ("README", 0o600, True),
    ],
)
def test_a_broker_needs_what_it_writes_and_reads(
    file: str, mode: int, found: bool, top: Path
) -> None:
    named = {"log": name(LAST, ".log"), "snapshot": name(LAST, ".snapshot")}
    path = partition(top) / named.get(file, file)
    if not path.exists():
        path.write_bytes(b"0\n0\n" if file == "leader-epoch-checkpoint" else b"")
    restored(path, mode)
    assert bool(denied(top)) is found


def test_groups_and_access_lists_count(top: Path) -> None:
    log = partition(top) / name(FIRST, ".log")
    restored(log, 0o660, gid=NOBODY.pw_gid)
    assert denied(top) == []
    restored(log, 0o606, gid=NOBODY.pw_gid)  # the group's bits count, not those of others
    assert len(denied(top)) == 1
    restored(log, 0o200, uid=NOBODY.pw_uid)
    follow(top)
    restored(log, 0o600)
    assert len(denied(top)) == 1
    os.setxattr(log, "system.posix_acl_access", _ACCESS_LIST)
    assert denied(top) == []


def test_the_files_at_the_top(top: Path) -> None:
    restored(top / ".lock", 0o644)
    (finding,) = denied(top)
    assert finding["path"] == str(top / ".lock")
    follow(top)
    restored(top, 0o755)
    restored(top / "meta.properties", 0o600)
    (finding,) = denied(top)
    assert finding["path"] == str(top)
    follow(top)


@pytest.mark.parametrize("owners", [(0, 0), (0, NOBODY.pw_uid + 1)])
def test_without_a_user_that_owns_most_partitions_nothing_is_said(
    owners: tuple[int, int], top: Path
) -> None:
    """Root may open everything; who else the broker's user is, is not known."""
    partitions = sorted(path for path in top.iterdir() if path.is_dir())
    for path, uid in zip(partitions, owners, strict=False):
        give(path, uid)
    (top / ".lock").chmod(0)
    assert denied(top) == []


@pytest.mark.broker
@pytest.mark.nightly
@pytest.mark.parametrize(
    "damage",
    [
        lambda top: restored(min((top / "transactions-0").glob("*.log")), 0o644),
        lambda top: restored(top / ".lock", 0o644),
    ],
    ids=["log", "lock"],
)
def test_a_broker_goes_offline_and_starts_once_the_advice_is_followed(
    damage: Callable[[Path], None], reachable: Path
) -> None:
    top = copy_fixture("4.3.1/clean", reachable / "data")
    (top / ".lock").touch()
    give(top)
    damage(top)
    broker = Broker("4.3.1", top, QUICK_RESTART, uid=NOBODY.pw_uid)
    with pytest.raises(ServerError), broker:
        pass
    follow(top)
    with Broker("4.3.1", top, QUICK_RESTART, uid=NOBODY.pw_uid):
        pass


@pytest.fixture
def restored_directory(reachable: Path) -> Callable[[str], Path]:
    """A log directory of user nobody, after a restore by root of the directory of a partition."""

    def make(fixture: str) -> Path:
        top = copy_fixture(fixture, reachable / "data")
        (top / ".lock").touch()
        give(top)
        restored(top / "codec-none-0", 0o755)
        return top

    return make


def test_recovery_where_no_file_may_be_made_costs_the_segment(
    restored_directory: Callable[[str], Path],
) -> None:
    ran = kdump("next-start", "--scan", restored_directory("4.3.1/killed"), searching=False)
    (forecast,) = (line for line in ran.of("forecast") if line["topic"] == "codec-none")
    assert (forecast["outcome"], forecast["release"]) == ("offline", "4.3")
    lost = forecast["lost"]
    assert (lost["sound"], lost["first_offset"], lost["last_offset"]) == (62, 60, 121)


def test_after_a_clean_stop_it_costs_nothing(restored_directory: Callable[[str], Path]) -> None:
    ran = kdump("next-start", "--scan", restored_directory("4.3.1/clean"), searching=False)
    (forecast,) = (line for line in ran.of("forecast") if line["topic"] == "codec-none")
    assert (forecast["outcome"], forecast["lost"]["sound"]) == ("offline", 0)


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.parametrize(("version", "left"), [("4.3.1", 0), ("3.9.1", 4571)])
def test_a_broker_from_4_0_on_truncates_the_segment(
    version: str, left: int, restored_directory: Callable[[str], Path]
) -> None:
    top = restored_directory(f"{version}/killed")
    broker = Broker(version, top, QUICK_RESTART, uid=NOBODY.pw_uid)
    with pytest.raises(ServerError), broker:
        pass
    assert (top / "codec-none-0" / f"{60:020d}.log").stat().st_size == left
