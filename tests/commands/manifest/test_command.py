"""``kdump manifest`` and its file as a PATH, as a user sees them."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from kdump.storage.manifests.path import paths_in
from support.crashing.running import Run, run
from support.fixtures_loader import copy_fixture


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return copy_fixture("4.3.1/clean", tmp_path / "logs")


def kdump(*arguments: str | Path) -> Run:
    return run([*map(str, arguments)], None)


def test_a_manifest_is_made_and_read(logs: Path, tmp_path: Path) -> None:
    file = tmp_path / "host.kdm"
    made = kdump("manifest", logs, "--to", file)
    assert made.code == 0, made
    assert "22 partitions with 55 logs" in made.out
    assert [path.name for path in tmp_path.iterdir()].count("host.kdm") == 1
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    # The records of the metadata log are in it, with the secrets of users.
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found = kdump("verify", file)
    assert found.code == 0, found
    assert "when the manifest was made, " in " ".join(found.out.split())
    start = kdump("next-start", file)
    assert start.code == 0, start
    one = kdump("verify", f"{file}/logs/compacted-0", "--format", "json")
    assert one.code == 0, one
    lines = [json.loads(line) for line in one.out.splitlines()]
    assert lines[0]["liveness"][0]["state"] == "stopped"
    assert lines[-1]["partitions"] == 1


def test_deep_checks_refuse_a_manifest(logs: Path, tmp_path: Path) -> None:
    file = tmp_path / "host.kdm"
    assert kdump("manifest", logs, "--to", file).code == 0
    found = kdump("verify", "--deep", file)
    assert found.code == 2
    assert "found a manifest: it holds no records; verify it without --deep" in found.err


def test_commands_that_read_no_manifest_name_those_that_do(logs: Path, tmp_path: Path) -> None:
    file = tmp_path / "host.kdm"
    assert kdump("manifest", logs, "--to", file).code == 0
    export = ("export", "--format", "jsonl", "--to", tmp_path / "exported")
    commands: tuple[tuple[str | Path, ...], ...] = (
        ("scrub",), ("reindex",), ("groups",), ("truncate-to-valid",), ("dump",), export,
    )  # fmt: skip
    for command in commands:
        for path in (file, f"{file}/logs/compacted-0"):
            found = kdump(*command, path)
            assert found.code == 2, found
            assert "found a manifest: it holds no records; verify, next-start, " in found.err
    assert not (tmp_path / "exported").exists()
    found = kdump("verify", "--master", "local[1]", file)
    assert found.code == 2, found
    assert "found a manifest: verify it without Spark" in found.err


def test_a_report_on_a_manifest_does_not_ask_for_its_records(logs: Path, tmp_path: Path) -> None:
    file = tmp_path / "host.kdm"
    assert kdump("manifest", logs, "--to", file).code == 0
    text = " ".join(kdump("verify", file).out.split())
    assert "every header and checksum (a manifest has no records)" in text
    assert "--deep" not in text
    assert "(--deep reads the records too)" in " ".join(kdump("verify", logs).out.split())
    quick = " ".join(kdump("verify", "--quick", file).out.split())
    assert "only names, small files, and the ends of logs and indexes (--quick)" in quick


@pytest.mark.parametrize("content", [b"", b"something else", b"\x89KDM\r\n\x1a\r"])
def test_another_file_is_not_replaced(content: bytes, logs: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    found = kdump("manifest", logs, "--to", file)
    assert found.code == 2
    assert "a manifest to replace" in found.err
    assert file.read_bytes() == content


def test_a_manifest_replaces_a_manifest(logs: Path, tmp_path: Path) -> None:
    file = tmp_path / "host.kdm"
    assert kdump("manifest", logs / "compacted-0", "--to", file).code == 0
    before = file.stat()
    assert kdump("manifest", logs, "--to", file).code == 0
    assert file.stat().st_size > before.st_size
    assert file.stat().st_ino != before.st_ino


def test_no_manifest_is_written_into_a_log_directory(logs: Path) -> None:
    before = sorted(path.name for path in logs.rglob("*"))
    for file in (logs / "host.kdm", logs / "compacted-0" / "host.kdm"):
        found = kdump("manifest", logs, "--to", file)
        assert found.code == 2
        assert "outside of log directories" in found.err
    found = kdump("manifest", logs / "compacted-0", "--to", logs / "compacted-0" / "host.kdm")
    assert found.code == 2
    assert sorted(path.name for path in logs.rglob("*")) == before


def test_what_is_no_directory_is_refused(logs: Path, tmp_path: Path) -> None:
    missing = kdump("manifest", tmp_path / "missing", "--to", tmp_path / "a.kdm")
    assert missing.code == 5
    segment = next((logs / "compacted-0").glob("*.log"))
    assert kdump("manifest", segment, "--to", tmp_path / "a.kdm").code == 2
    assert kdump("manifest", logs, "--to", tmp_path / "no" / "a.kdm").code == 5
    assert not list(tmp_path.glob("*.kdm"))


def test_a_cut_manifest_is_one_error(logs: Path, tmp_path: Path) -> None:
    file = tmp_path / "host.kdm"
    assert kdump("manifest", logs, "--to", file).code == 0
    whole = file.read_bytes()
    for length in (8, 20, 100, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:length])
        found = kdump("verify", file)
        assert found.code == 5, found
        assert str(file) in found.err


def test_an_anonymous_manifest_has_no_name(logs: Path, tmp_path: Path) -> None:
    file, key = tmp_path / "host.kdm", tmp_path / "key"
    key.write_bytes(os.urandom(32))
    made = kdump("manifest", logs, "--to", file, "--anonymous", "--key", key)
    assert made.code == 0, made
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    names = {path.name.rpartition("-")[0] for path in logs.iterdir() if path.is_dir()}
    own = {name for name in names if not name.startswith("__")}
    assert len(own) > 5
    shown = []
    for command in (("verify",), ("verify", "--quick"), ("next-start", "--scan")):
        found = kdump(*command, file, "--format", "json")
        assert found.code == 0, found
        shown.append(found.out.replace(str(file), ""))
    text = "".join(shown)
    assert not [name for name in own if name in text]
    assert str(logs) not in text
    again = tmp_path / "again.kdm"
    assert kdump("manifest", logs, "--to", again, "--anonymous", "--key", key).code == 0
    assert _topics(again) == _topics(file)
    other = tmp_path / "other.kdm"
    assert kdump("manifest", logs, "--to", other, "--anonymous").code == 0
    assert _topics(other) & _topics(file) == {name for name in names if name.startswith("__")} - {
        "__cluster_metadata"
    }


def _topics(file: Path) -> set[str]:
    (root,) = paths_in(file)
    return {entry.name.rpartition("-")[0] for entry in root.entries() if entry.is_dir()}  # type: ignore[union-attr]


def test_a_key_needs_to_be_one(logs: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"short")
    to = ("--to", tmp_path / "a.kdm")
    assert kdump("manifest", logs, *to, "--key", key).code == 2
    assert kdump("manifest", logs, *to, "--anonymous", "--key", key).code == 5
    assert kdump("manifest", logs, *to, "--anonymous", "--key", tmp_path / "none").code == 5
