"""The first segment is missing: what ``verify`` and ``next-start`` say of it, and where not.

The recipes ``headless-*`` have the evidence one by one; these are directories of real brokers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kdump.ui import exits
from support.commands import Ran, kdump
from support.fixtures_loader import copy_fixture
from support.forge import checkpoint

ENDINGS = (".log", ".index", ".timeindex", ".snapshot")
BEHIND = "behind-0"
"""A topic with retention.ms=-1, segments at 0 and 41, and leader epochs from offset 0 on."""


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """The log directory of node 2, killed; nodes 1 and 3 have replicas too."""
    return copy_fixture("4.3.1/replicas", tmp_path / "r") / "2"


def remove(partition: Path, *names: str) -> None:
    for name in names:
        (partition / name).unlink(missing_ok=True)


def behead(partition: Path) -> None:
    """Remove the first segment, with all of its files."""
    remove(partition, *(f"{0:020d}{ending}" for ending in ENDINGS))


def alarms(ran: Ran) -> Iterator[dict[str, Any]]:
    return (line for line in ran.of("finding") if line["severity"] in ("error", "warning"))


@pytest.mark.parametrize("depth", ["", "--quick", "--deep"])
def test_verify_sees_that_the_first_segment_is_missing(depth: str, node: Path) -> None:
    behead(node / BEHIND)
    ran = kdump("verify", *depth.split(), node, searching=False)
    (found,) = alarms(ran)
    assert (found["code"], ran.code) == ("first-segment-missing", exits.PROBLEMS)
    assert found["offsets"] == {"first": 0, "last": 40}
    assert found["path"].endswith("behind-0/leader-epoch-checkpoint")
    assert found["detail"]["found"] == (
        "the first one at 41; if this replica leads, nodes 1, 3 delete offsets up to 40 too"
    )


@pytest.mark.parametrize("options", ["", "--scan"])
def test_next_start_sees_it_too(options: str, node: Path) -> None:
    behead(node / BEHIND)
    ran = kdump("next-start", *options.split(), node, searching=False)
    assert ran.code == exits.PROBLEMS
    assert {line["code"] for line in alarms(ran)} == {"first-segment-missing"}


def test_the_log_alone_is_missing(node: Path) -> None:
    """Its indexes are left, as no deletion leaves them: configs do not matter."""
    remove(node / BEHIND, f"{0:020d}.log")
    (node / BEHIND / "leader-epoch-checkpoint").write_bytes(b"")
    ran = kdump("verify", node, searching=False)
    found = {line["code"]: line for line in alarms(ran)}
    assert found["first-segment-missing"]["path"].endswith(f"{0:020d}.index")
    assert found["first-segment-missing"]["offsets"] == {"first": 0, "last": 40}
    assert ran.code == exits.PROBLEMS


def without_lines(node: Path, topic: str) -> None:
    """Remove the lines of a topic from all checkpoints at the top."""
    for file in node.glob("*-offset-checkpoint"):
        lines = [line for line in file.read_text().split("\n")[2:] if line]
        rows = [(*line.split(), "")[:3] for line in lines if not line.startswith(f"{topic} ")]
        file.write_bytes(checkpoint([(name, int(number), int(at)) for name, number, at in rows]))


@pytest.mark.parametrize("evidence", ["checkpoints", "leader epochs", "producer snapshots"])
def test_all_segments_are_missing(evidence: str, node: Path) -> None:
    partition = node / BEHIND
    for path in partition.glob("0*"):
        if path.suffix != ".snapshot" or evidence != "producer snapshots":
            path.unlink()
    if evidence != "checkpoints":
        without_lines(node, "behind")
    if evidence == "producer snapshots":
        (partition / "leader-epoch-checkpoint").write_bytes(checkpoint([(0, 0)]))
    ran = kdump("verify", node, searching=False)
    (found,) = (line for line in alarms(ran) if line["code"] == "segments-gone")
    assert found["detail"]["expected"] == f"segments up to offset 57, by its {evidence}"
    assert ran.code == kdump("next-start", node, searching=False).code == exits.PROBLEMS


def test_a_bare_directory_shows_only_what_is_certain(node: Path, tmp_path: Path) -> None:
    """Its topic may have remote storage, where a log begins long before its first segment."""
    behead(node / BEHIND)
    bare = (node / BEHIND).rename(tmp_path / BEHIND)
    assert list(alarms(kdump("verify", bare, searching=False))) == []
    (bare / f"{0:020d}.index").write_bytes(b"")
    codes = {line["code"] for line in alarms(kdump("verify", bare, searching=False))}
    assert codes == {"first-segment-missing", "index-orphan"}
