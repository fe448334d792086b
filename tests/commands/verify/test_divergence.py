"""``verify`` of several copies of a metadata log: where committed records differ."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kdump.cli.main import main
from kdump.storage.throttle import Pace
from support import quorum_disks as disks
from support.fixtures_loader import ROOT

CODE = "metadata-diverges"

Found = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def copies(tmp_path: Path) -> tuple[Path, Path]:
    """Two equal copies; their last snapshot ends at 277, their log at 280."""
    return copy_to(tmp_path / "a"), copy_to(tmp_path / "b")


def copy_to(directory: Path) -> Path:
    """A log directory with a metadata log, and no other partition."""
    fixture = ROOT / "brokers/4.3.1/killed"
    shutil.copytree(fixture / disks.METADATA, directory / disks.METADATA)
    shutil.copy(fixture / "meta.properties", directory)
    return directory


@pytest.fixture
def found(capsys: pytest.CaptureFixture[str]) -> Found:
    """The findings of divergence in JSON; the text names them where there are any."""

    def verify(*arguments: str | Path) -> list[dict[str, Any]]:
        code = main(["verify", "--format", "json", *map(str, arguments)])
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        findings = [line for line in lines if line["type"] == "finding" and line["code"] == CODE]
        assert code == 4 or not findings
        main(["verify", *map(str, arguments)])
        text = capsys.readouterr()
        assert (CODE in text.out) == bool(findings)
        assert "Traceback" not in text.err
        return findings

    return verify


def from_on(offset: int, epoch: int) -> disks.Damage:
    """The batches from ``offset`` on with another leader epoch, which no checksum covers."""

    def damage(directory: Path) -> None:
        log = disks.last_log(directory)
        content = bytearray(log.read_bytes())
        for start in disks.boundaries(bytes(content))[:-1]:
            if int.from_bytes(content[start : start + 8], "big") >= offset:
                content[start + 12 : start + 16] = epoch.to_bytes(4, "big")
        log.write_bytes(content)

    return damage


def test_equal_copies(found: Found, copies: tuple[Path, Path]) -> None:
    assert found(*copies) == []
    disks.cut_batches(4)(copies[1])
    assert found(*copies) == []


def test_batches_of_one_epoch_that_differ(found: Found, copies: tuple[Path, Path]) -> None:
    first, second = copies
    disks.reseal_batch(2)(second)
    (finding,) = found(first, second)
    assert finding["path"] == str(second / disks.METADATA)
    assert finding["offsets"] == {"first": 277, "last": None}
    assert str(first / disks.METADATA) in finding["detail"]["expected"]
    assert "of the same leader epoch" in finding["detail"]["found"]
    (turned,) = found(second, first / disks.METADATA)
    assert turned["path"] == str(first / disks.METADATA)
    assert found(second) == []
    assert found("--quick", first, second) == []


def test_epochs_that_differ_where_records_are_committed(
    found: Found, copies: tuple[Path, Path]
) -> None:
    from_on(276, 3)(copies[1])
    (finding,) = found(*copies)
    assert finding["offsets"]["first"] == 276
    assert "277" in finding["detail"]["found"]


def test_epochs_may_differ_where_nothing_is_committed(
    found: Found, copies: tuple[Path, Path]
) -> None:
    from_on(278, 3)(copies[1])
    assert found(*copies) == []


def test_the_comparison_keeps_to_the_rate(
    found: Found, copies: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = []  # in this process, which compares
    monkeypatch.setattr(Pace, "spend", lambda _, count: spent.append(count))
    assert found("--limit-rate", "1GB", *copies) == []
    read_twice = 2 * sum(log.stat().st_size for copy in copies for log in copy.glob("*/*.log"))
    assert sum(spent) == read_twice  # for JSON and for text


def test_copies_of_two_clusters_are_not_compared(found: Found, copies: tuple[Path, Path]) -> None:
    disks.reseal_batch(2)(copies[1])
    meta = copies[1] / "meta.properties"
    lines = meta.read_text().splitlines()
    changed = [
        line if "cluster.id" not in line else f"cluster.id={disks.OTHER_ID}" for line in lines
    ]
    meta.write_text("\n".join(changed) + "\n")
    assert found(*copies) == []


def test_three_copies(found: Found, copies: tuple[Path, Path], tmp_path: Path) -> None:
    third = copy_to(tmp_path / "c")
    disks.reseal_batch(2)(copies[1])
    findings = found(*copies, third)
    assert [finding["path"] for finding in findings] == [
        str(directory / disks.METADATA) for directory in (copies[1], third)
    ]
