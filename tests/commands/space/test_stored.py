"""What takes the space in manifests and in object stores, as far as they tell."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kdump.ui import exits
from support.commands import Ran, kdump
from support.crashing.running import run
from support.fixtures_loader import copy_fixture
from support.object_stores import Bucket, served


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return copy_fixture("4.3.1/clean", tmp_path / "data")


@pytest.fixture
def manifest(data: Path, tmp_path: Path) -> Path:
    assert run(["manifest", str(data), "--to", str(tmp_path / "m.kdm")]).code == exits.OK
    return tmp_path / "m.kdm"


def topics(ran: Ran) -> dict[str, dict[str, Any]]:
    return {line["topic"]: line for line in ran.of("topic")}


def sizes(data: Path, topic: str) -> int:
    return sum(path.stat().st_size for path in data.glob(f"{topic}-*/*") if path.is_file())


def test_a_manifest_has_the_sizes_of_files(data: Path, manifest: Path) -> None:
    there = kdump("space", data, searching=False)
    ran = kdump("space", manifest, searching=False)
    assert ran.code == exits.OK
    found, expected = topics(ran), topics(there)
    assert found.keys() == expected.keys()
    for topic, line in found.items():
        assert line["bytes"] == sizes(data, topic)
        same = ("partitions", "segments", "oldest_ms", "newest_ms", "cleanup_policy",
                "retention_ms", "due_segments", "due_offsets")  # fmt: skip
        assert {name: line[name] for name in same} == {name: expected[topic][name] for name in same}
        assert [each["by"] for each in line["held"]] == [
            each["by"] for each in expected[topic]["held"]
        ]
    assert [*ran.of("file_system")] == []


def test_what_a_manifest_does_not_tell_is_said(manifest: Path) -> None:
    ran = run(["space", str(manifest)], searching=False)
    words = " ".join(ran.out.split())
    assert "the free space is unknown" in words
    assert "the sizes of files, not what they take on a disk" in words
    assert "allocated on disk" not in words
    assert "the state of that time" in ran.err


@pytest.mark.parametrize("option", ["--free=1GB", "--sample"])
def test_what_needs_a_disk_is_refused(option: str, manifest: Path) -> None:
    ran = run(["space", option, str(manifest)], searching=False)
    assert ran.code == exits.USAGE
    name = option.partition("=")[0]
    assert f"{name}: expected log directories of this machine, found {manifest}" in ran.err


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with served() as server:
        yield server.bucket("disks")


def test_a_bucket_has_the_sizes_of_objects(data: Path, bucket: Bucket) -> None:
    """Their times are those of the upload."""
    for path in [*data.iterdir()]:
        if path.is_dir() and path.name not in ("codec-lz4-0", "__cluster_metadata-0"):
            shutil.rmtree(path)
    address = bucket.upload(data, "one")
    there = topics(kdump("space", data, searching=False))
    ran = kdump("space", address, searching=False)
    assert ran.code == exits.OK
    assert topics(ran).keys() == there.keys()
    for topic, line in topics(ran).items():
        assert line["bytes"] == sizes(data, topic)
        assert line["oldest_ms"] == there[topic]["oldest_ms"]
        assert line["retention_ms"] == there[topic]["retention_ms"]
        assert line["day_bytes"] == line["week_bytes"] == 0
    assert [*ran.of("file_system")] == []
    refused = run(["space", "--free", "1GB", address], searching=False)
    assert refused.code == exits.USAGE
    assert "--free: expected log directories of this machine, found s3://" in refused.err
