"""The folders that repairs leave in a partition: reading them, and the findings of ``verify``."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

import kdump.cli.main
import kdump.storage.repair_record
from kdump.audit.checks.repair_records import BACKUPS_LINKED
from kdump.audit.finding_code import Severity
from kdump.errors import SourceError
from kdump.storage.repair_record import RepairRecord, RepairState, repair_records
from support.damaged import FIRST, LAST, Recipe, batches
from support.pipeline import judge


def folder(partition: Path, name: str, command: str = "reindex", **files: str) -> Path:
    """Write a folder as a repair does; ``files`` by name, without ``.json``."""
    path = partition / ".kdump" / name
    (path / "old").mkdir(parents=True)
    (path / "plan.json").write_text(f'{{"schema": 1, "command": "{command}"}}')
    for file, text in files.items():
        (path / (file if file == "undoing" else f"{file}.json")).write_text(text)
    return path


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A partition of a log directory."""
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    return Recipe("sound", [], batches(FIRST), batches(LAST)).write(tmp_path)


def test_each_state(tmp_path: Path) -> None:
    begun = '{"begun_ns": 5}'
    states = {
        "a": (RepairState.PREPARED, folder(tmp_path, "a")),
        "b": (RepairState.PENDING, folder(tmp_path, "b", begun=begun)),
        "c": (RepairState.DONE, folder(tmp_path, "c", begun=begun, receipt="{}")),
        "d": (RepairState.UNDOING, folder(tmp_path, "d", begun=begun, receipt="{}", undoing="")),
    }
    assert {record.id: (record.state, record.path) for record in repair_records(tmp_path)} == states


def test_the_oldest_comes_first_and_what_has_not_begun_last(tmp_path: Path) -> None:
    for name, begun_ns in (("b", 7), ("c", 5), ("d", 6)):
        folder(tmp_path, name, begun=f'{{"begun_ns": {begun_ns}}}', receipt="{}")
    folder(tmp_path, "a")
    assert [(record.id, record.begun_ns) for record in repair_records(tmp_path)] == [
        ("c", 5),
        ("d", 6),
        ("b", 7),
        ("a", None),
    ]


def test_the_size_is_that_of_all_files(tmp_path: Path) -> None:
    path = folder(tmp_path, "a", "truncate-to-valid")
    size = (path / "plan.json").stat().st_size
    (path / "old" / "00000000000000000000.log.tail").write_bytes(bytes(1000))
    assert repair_records(tmp_path) == (
        RepairRecord("a", path, "truncate-to-valid", RepairState.PREPARED, None, size + 1000),
    )


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\xff\xfe\0"),
        lambda path: path.write_text("[" * 100_000),
        lambda path: path.write_text('["command"]'),
        lambda path: path.write_text('{"command": 5, "begun_ns": "x"}'),
        lambda path: path.write_text('{"command": null, "begun_ns": true}'),
        lambda path: path.unlink(),
        _directory,
        _fifo,
    ],
    ids=["empty", "bytes", "deep", "list", "types", "nulls", "gone", "directory", "fifo"],
)
@pytest.mark.parametrize("file", ["plan", "begun"])
def test_damaged_content_never_fails(
    tmp_path: Path, file: str, damage: Callable[[Path], None]
) -> None:
    path = folder(tmp_path, "a", begun='{"begun_ns": 5}')
    damage(path / f"{file}.json")
    (record,) = repair_records(tmp_path)
    assert record.command == (None if file == "plan" else "reindex")
    assert record.begun_ns == (None if file == "begun" else 5)
    gone = not os.path.lexists(path / "begun.json")
    assert record.state is (RepairState.PREPARED if gone else RepairState.PENDING)


def test_without_folders_there_are_no_records(tmp_path: Path) -> None:
    assert repair_records(tmp_path) == ()
    (tmp_path / ".kdump").touch()
    assert repair_records(tmp_path) == ()
    (tmp_path / ".kdump").unlink()
    folder(tmp_path / "other", "a")
    (tmp_path / ".kdump").mkdir()
    (tmp_path / ".kdump" / "link").symlink_to(tmp_path / "other" / ".kdump" / "a")
    (tmp_path / ".kdump" / "file").touch()
    assert repair_records(tmp_path) == ()


def test_a_link_in_place_of_the_folders_has_no_records(tmp_path: Path) -> None:
    folder(tmp_path / "other", "a", begun='{"begun_ns": 5}')
    (tmp_path / ".kdump").symlink_to(tmp_path / "other" / ".kdump")
    assert repair_records(tmp_path) == ()


def unlisted(monkeypatch: pytest.MonkeyPatch) -> None:
    def scan(path: Path) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(kdump.storage.repair_record, "scan", scan)


def test_what_cannot_be_listed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unlisted(monkeypatch)
    with pytest.raises(SourceError, match=r"\.kdump: cannot be read"):
        repair_records(tmp_path)


# --- findings of verify


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"begun": "{}", "receipt": "{}"}, "the backup of reindex 1a2b3c4d"),
        (
            {},
            "reindex 1a2b3c4d, prepared and not begun: nothing was changed, the next repair "
            "removes it",
        ),
    ],
)
def test_a_backup_is_noted(partition: Path, files: dict[str, str], found: str) -> None:
    path = folder(partition, "1a2b3c4d", **files)
    (finding,) = judge(partition.parent)
    assert (finding.code.name, finding.path, finding.remedy) == ("backup-kept", path, None)
    assert finding.size == sum(file.stat().st_size for file in path.glob("*.json"))
    assert finding.detail is not None
    assert finding.detail.found == found


def test_an_interrupted_repair_is_an_error(partition: Path) -> None:
    path = folder(partition, "1a2b3c4d", begun="{}")
    (finding,) = judge(partition.parent)
    assert (finding.code.name, finding.code.severity) == ("repair-pending", Severity.ERROR)
    assert finding.detail is not None
    assert finding.detail.found == "reindex 1a2b3c4d, begun and not finished"
    assert finding.remedy == ("kdump", "reindex", str(partition), "--apply")
    (path / "plan.json").write_text('{"command": "reindex", "loss": {"sound": {"count": 1}}}')
    (finding,) = judge(partition.parent)
    consent = ("--confirm", "1a2b3c4d")
    assert finding.remedy == ("kdump", "reindex", str(partition), "--apply", *consent)


@pytest.mark.parametrize("undoing", [True, False])
def test_what_cannot_be_resumed_is_undone(partition: Path, undoing: bool) -> None:
    path = folder(partition, "1a2b3c4d", begun="{}", **({"undoing": ""} if undoing else {}))
    if not undoing:
        (path / "plan.json").unlink()
    (finding,) = judge(partition.parent)
    assert finding.detail is not None
    what = "the undo of reindex" if undoing else "a repair"
    assert finding.detail.found == f"{what} 1a2b3c4d, begun and not finished"
    assert finding.remedy == (
        *("kdump", "undo", str(partition), "--plan", "1a2b3c4d"),
        "--apply",
    )


def test_each_of_several_is_reported(partition: Path) -> None:
    for name in ("aa", "bb"):
        folder(partition, name, begun="{}", receipt="{}")
    assert [finding.path.name for finding in judge(partition.parent)] == ["aa", "bb"]


def test_a_link_in_the_place_of_the_folders_is_a_warning(
    partition: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = folder(tmp_path_factory.mktemp("other"), "1a2b3c4d", begun="{}")
    (partition / ".kdump").symlink_to(path.parent)
    (finding,) = judge(partition.parent)
    assert (finding.code, finding.path) == (BACKUPS_LINKED, partition / ".kdump")
    for options in ([], ["--apply"]):
        assert kdump.cli.main.main(["undo", str(partition), *options]) == 6
        assert ".kdump: expected a directory" in capsys.readouterr().err


def test_folders_that_cannot_be_listed_are_unread(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (partition / ".kdump").mkdir()
    unlisted(monkeypatch)
    assert [finding.code.name for finding in judge(partition.parent)] == ["unreadable"]


def test_an_interrupted_repair_comes_before_others(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (partition / "00000000000000000000.index").unlink()
    folder(partition, "1a2b3c4d", "truncate-to-valid", begun="{}")
    for path in (partition, partition.parent):
        assert kdump.cli.main.main(["verify", str(path)]) == 4
        printed = capsys.readouterr().out
        assert f"kdump truncate-to-valid {partition} --apply\n" in printed
        assert "kdump reindex" not in printed


def test_next_start_says_that_a_repair_was_interrupted(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder(partition, "1a2b3c4d", begun="{}")
    assert kdump.cli.main.main(["next-start", str(partition)]) == 0
    printed = capsys.readouterr().out
    assert "ERROR  repair-pending\n" in printed
    assert f"       do: kdump reindex {partition} --apply\n" in printed
    assert kdump.cli.main.main(["next-start", "--format", "json", str(partition)]) == 0
    assert '"code":"repair-pending"' in capsys.readouterr().out
