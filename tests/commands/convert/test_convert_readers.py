"""kafka-python and librdkafka read of converted logs what was in them before.

The logs are those of forged partitions and of the fixtures with magic 0 or 1; kafka-python parses
the files themselves, librdkafka consumes from a broker of 4.3.1.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import readers
from brokers.broker import Broker
from brokers.planting import plant
from kdump.storage.repair_record import FOLDERS
from support.broker_files import fixtures
from support.commands import kdump
from support.consumer_records import as_consumer
from support.converting import COMMAND, JsonObject, kept, logs, records, write
from support.fixtures_loader import copy_fixture
from support.legacy_partitions import forged

pytestmark = pytest.mark.once

VERSION = "4.3.1"
SEEDS = range(20)
#: The others hold the same.
CLEAN = [name for name in fixtures("0.8", before="3") if name.endswith("/clean")]


@dataclass(frozen=True, slots=True)
class Converted:
    """Converted partitions by names of their own, and the records that were in them before."""

    partitions: Mapping[str, Path]
    before: Mapping[str, Sequence[JsonObject]]

    def wanted(self, name: str, *, control: bool) -> list[tuple[object, ...]]:
        """What a reader must see of a partition; ``control``: it also sees control records."""
        return [
            as_consumer(kept(line)) for line in self.before[name] if control or not line["control"]
        ]


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    """Forged and real partitions, converted; those without magic 0 and 1 are left out."""
    scratch = tmp_path_factory.mktemp("converted")
    tops = {"forged": write(scratch, {f"seed-{seed}": forged(seed) for seed in SEEDS})}
    for name in CLEAN:
        tops[name.replace("/", "-")] = copy_fixture(name, scratch / name)
    partitions, before = {}, {}
    for origin, top in tops.items():
        output = scratch / f"{origin}-converted"
        ran = kdump(COMMAND, top, "--output", output, searching=False)
        assert ran.code == 0, ran.said
        found = sorted(output.iterdir())
        lines = records(*(top / path.name for path in found))
        for path in found:
            shutil.rmtree(path / FOLDERS)
            partitions[f"{origin}.{path.name}"] = path
            before[f"{origin}.{path.name}"] = lines[path.name]
    assert len(partitions) > len(SEEDS) + 30
    return Converted(partitions, before)


@pytest.mark.nightly
def test_kafka_python_reads_the_same_records(converted: Converted) -> None:
    found = defaultdict(list)
    paths = {str(log): name for name, path in converted.partitions.items() for log in logs(path)}
    for line in readers.kafka_python(map(Path, paths)):
        assert "error" not in line, line
        found[paths[line["file"]]].append(as_consumer(line))
    for name in converted.partitions:
        assert found[name] == converted.wanted(name, control=True), name


@pytest.mark.broker
@pytest.mark.nightly
def test_librdkafka_consumes_the_same_records(converted: Converted, tmp_path: Path) -> None:
    data = tmp_path / "data"
    plant(VERSION, data, converted.partitions, {"retention.ms": "-1"})
    found = defaultdict(list)
    # The cleaner and retention would take records away.
    with Broker(VERSION, data, {"log.cleaner.enable": "false"}) as broker:
        wanted = [(name, 0) for name in converted.partitions]
        for line in readers.librdkafka(broker.bootstrap, wanted):
            found[line["topic"]].append(as_consumer(line))
    for name in converted.partitions:
        assert found[name] == converted.wanted(name, control=False), name
