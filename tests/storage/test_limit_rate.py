"""``--limit-rate``: what it accepts, when it holds without being asked for, and that it holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kdump.audit.run.verify
import kdump.audit.targets.target
import kdump.cli.main
import kdump.commands.verify.engine
from kdump.storage.liveness import BrokerState, Liveness
from kdump.storage.throttle import Pace
from kdump.ui import exits
from kdump.ui.units import parse_size
from storage.caching import drop_cache
from support import forge
from support.damaged import batches


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4096", 4096),
        ("17B", 17),
        ("512kB", 512_000),
        ("50MB", 50_000_000),
        ("50mb", 50_000_000),
        ("20MiB", 20 << 20),
        ("1.5 GiB", 3 << 29),
        ("1GB", 10**9),
        ("2TB", 2 * 10**12),
    ],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "MB", "50M", "50 bytes", "-1", "1e3", "5XB", "5iB", "١MB", "9" * 400]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a size such as 50MB"):
        parse_size(text)


def summary(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    code = kdump.cli.main.main(["verify", "--format", "json", *map(str, arguments)])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert code == exits.OK
    last: dict[str, Any] = lines[-1]
    return last


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return forge.write_partition(tmp_path, "paced", 0, {0: batches(0), 100: batches(100)})


@pytest.fixture(params=[BrokerState.LIVE, BrokerState.UNKNOWN])
def beside_a_broker(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    state = Liveness(request.param, "as the test says")
    monkeypatch.setattr(kdump.audit.targets.target, "liveness", lambda _: state)
    yield


@pytest.mark.parametrize(
    ("asked", "limit"), [((), None), (("0",), None), (("none",), None), (("20MiB/s",), 20 << 20)]
)
def test_without_a_broker_there_is_a_limit_if_asked_for(
    asked: tuple[str, ...], limit: int | None, partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [option for rate in asked for option in ("--limit-rate", rate)]
    assert summary(capsys, *options, partition)["limit_rate"] == limit


@pytest.mark.parametrize(
    ("asked", "limit"), [((), 50_000_000), (("0",), None), (("none",), None), (("2GB",), 2 * 10**9)]
)
@pytest.mark.usefixtures("beside_a_broker")
def test_beside_a_broker_one_worker_keeps_to_a_limit(
    asked: tuple[str, ...], limit: int | None, partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [option for rate in asked for option in ("--limit-rate", rate)]
    last = summary(capsys, *options, partition)
    assert (last["limit_rate"], last["jobs"]) == (limit, 1)
    assert summary(capsys, "--jobs", "3", partition)["jobs"] == 3


def test_the_report_tells_of_the_limit(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kdump.cli.main.main(["verify", "--limit-rate", "20MiB", str(partition)])
    assert "(limit 20.00 MiB/s)" in " ".join(capsys.readouterr().out.split())


def test_a_rate_that_is_none_is_wrong_usage(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kdump.cli.main.main(["verify", "--limit-rate", "fast", str(partition)]) == exits.USAGE
    assert "expected a size such as 50MB or 20MiB, found 'fast'" in capsys.readouterr().err


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_limit_holds_for_all_that_is_read(
    jobs: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker tells the shared pace of every byte, also of files that no cache holds."""
    logs = {base: [forge.batch(base, [forge.record(bytes(1 << 20))])] for base in range(24)}
    directory = forge.write_partition(tmp_path, "cold", 0, logs)
    total = sum(path.stat().st_size for path in directory.glob("*.log"))
    spent = tmp_path / "spent"

    class Counted(Pace):
        def spend(self, count_bytes: int) -> None:
            with spent.open("ab", 0) as file:  # whole lines, whichever process writes
                file.write(b"%d\n" % count_bytes)

    monkeypatch.setattr(kdump.commands.verify.engine, "Pace", Counted)
    for path in directory.glob("*.log"):
        drop_cache(path)
    last = summary(capsys, "--jobs", str(jobs), "--limit-rate", "12MB", directory)
    assert (last["bytes"], last["limit_rate"]) == (total, 12_000_000)
    assert total <= sum(map(int, spent.read_bytes().split())) < 1.05 * total
