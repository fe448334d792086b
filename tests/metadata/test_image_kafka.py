"""The image of a metadata log beside the one that the newest Kafka builds of the same files."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.fixtures_loader import FIXTURES, ROOT
from support.forge_metadata import METADATA, segment_name
from support.images import compare, kafkas, kdumps
from support.metadata_history import History

pytestmark = pytest.mark.broker

KRAFT = [name for name in FIXTURES if (ROOT / "brokers" / name / METADATA).is_dir()]


@pytest.mark.parametrize("name", KRAFT)
def test_the_image_of_a_fixture_equals_kafkas(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    partition = ROOT / "brokers" / name / METADATA
    ours = kdumps(partition, capfd)
    assert len(ours["partition"]) > 20
    assert len(ours["config"]) > 50
    compare(ours, kafkas(partition, ours["header"][0]))


@pytest.mark.parametrize(
    "part", [0.5, *(pytest.param(part, marks=pytest.mark.nightly) for part in (0.2, 0.8))]
)
@pytest.mark.parametrize("name", KRAFT)
def test_the_image_up_to_an_offset_equals_kafkas(
    name: str, part: float, capfd: pytest.CaptureFixture[str]
) -> None:
    partition = ROOT / "brokers" / name / METADATA
    end = kdumps(partition, capfd)["header"][0]["end_offset"]
    last = int(end * part)
    ours = kdumps(partition, capfd, "--at", str(last))
    assert ours["header"][0]["end_offset"] == last + 1
    compare(ours, kafkas(partition, ours["header"][0], last))


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=() if seed < 4 else pytest.mark.nightly) for seed in range(12)],
)
def test_the_image_of_a_random_history_equals_kafkas(
    seed: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Records of all types and versions, in and out of transactions, some inapplicable."""
    history = History(seed)
    partition = tmp_path / METADATA
    partition.mkdir()
    (tmp_path / segment_name()).write_bytes(history.log(150))
    second = history.offset
    (tmp_path / segment_name(second)).write_bytes(history.log(150))
    last = history.rng.choice([-1, second, history.offset - 20])
    uncounted = history.uncounted(history.offset - 1 if last < 0 else last)
    ours = kdumps(partition, capfd, *(() if last < 0 else ("--at", str(last))))
    assert len(ours["problem"]) > 10
    assert {"topic", "partition", "config", "quota", "broker"} <= set(ours)
    compare(ours, kafkas(partition, ours["header"][0], last), uncounted)
