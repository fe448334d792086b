"""Random faults in queries and streams: every record once, an error, or a row in badRecordsPath."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.fixtures_loader import copy_fixture

pytest.importorskip("pyspark.sql.streaming.datasource")

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from kdump.fleet.datasource import register
from kdump.fleet.session.session import Cluster, Session, open_session
from kdump.tables import api

pytestmark = pytest.mark.spark

HERE = Path(__file__).parents[1] / "support"
#: Partitions of several segments that are not compacted, in all of which the marks are known.
TOPICS = ("codec-zstd", "idempotent", "log-append-time", "a.b_c-1")
KINDS = ("EACCES", "EIO", "ESTALE", "cut", "flip", "gone", "vanish", "kill")
#: At night each kind is drawn often; else a few seeds suffice.
SEEDS = [
    pytest.param(seed, marks=() if seed < 2 else pytest.mark.nightly)
    for seed in range(int(os.environ.get("KDUMP_SPARK_FAULTS", "30")))
]
#: What Spark says where a worker starts slowly: no answer of the data source.
SLOW = "Python worker failed to connect back"
#: As before a session here, whose JVM a query of its own process would join.
OWN = dict(os.environ)
Offset = tuple[str, int, int]


@pytest.fixture(scope="module")
def fault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fault") / "fault.json"


@pytest.fixture(scope="module")
def session(fault: Path) -> Iterator[Session]:
    """Tasks are tried four times, as on a cluster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(HERE / "failing_reads"))
        patch.setenv("KDUMP_FAULT", str(fault))
        with open_session(Cluster(master="local[2,4]")) as started:
            register(started.spark)
            yield started


class Trial:
    """A directory, a fault in it, and what reads it."""

    def __init__(self, seed: int, top: Path, fault: Path, session: Session) -> None:
        self.chance = random.Random(seed)
        self.top, self.fault, self.session = top, fault, session
        self.sound = copy_fixture("4.3.1/clean", top / "sound")
        self.data, self.bad = top / "data", top / "bad"
        self.restore()
        # Every kind in queries and in streams, before the next round of all.
        kinds = [(kind, stream) for kind in KINDS for stream in (False, True)]
        self.kind, self.stream = kinds[seed % len(kinds)]
        self.mode = self.chance.choice(["FAILFAST", "PERMISSIVE", "DROPMALFORMED"])
        self.options = {"subscribe": ",".join(TOPICS), "schema": "kafka", "mode": self.mode}
        self.options["kafka.isolation.level"] = "read_uncommitted"
        # FAILFAST has no badRecordsPath: failOnDataLoss=false is a warning alone there.
        if self.mode != "FAILFAST":
            self.options["badRecordsPath"] = str(self.bad)
            self.options["failOnDataLoss"] = self.chance.choice(["true", "false"])

    def restore(self) -> None:
        """As after a repair."""
        self.fault.unlink(missing_ok=True)
        shutil.rmtree(self.data, ignore_errors=True)
        shutil.copytree(self.sound, self.data)

    def strike(self) -> str:
        """Let the fault be there; return what it is."""
        # The first segment of a log may be gone legally: nothing says that it was there.
        partitions = [path for path in sorted(self.data.iterdir()) if path.is_dir()]
        logs = [
            log
            for path in partitions
            if path.name.rpartition("-")[0] in TOPICS
            for log in sorted(path.glob("*.log"))[1:]
            if log.stat().st_size
        ]
        log = self.chance.choice(logs)
        if self.kind == "cut":
            os.truncate(log, self.chance.randrange(log.stat().st_size))
        elif self.kind == "flip":
            content = bytearray(log.read_bytes())
            batch = self.chance.choice(api.batches(log).read_all().to_pylist())
            # Behind the magic: the checksum covers it.
            at = batch["position"] + self.chance.randrange(17, batch["size"])
            content[at] ^= 1 << self.chance.randrange(8)
            log.write_bytes(content)
        elif self.kind == "gone":
            log.unlink()
        else:
            victim = log if self.chance.random() < 0.5 else self.chance.choice(logs)
            moment = self.chance.choice(["open", "read"])
            row = {"kind": self.kind, "log": str(log), "victim": str(victim), "moment": moment}
            self.fault.write_text(json.dumps(row))
        return f"{self.kind} at {log}, {self.options}"

    def expected(self) -> Counter[Offset]:
        """What is there without the fault, in a stream what is sealed."""
        found: Counter[Offset] = Counter()
        for path in self.sound.iterdir():
            if path.name.rpartition("-")[0] in TOPICS:
                rows = api.records(path, columns=["topic", "partition", "offset", "control"])
                active = max(int(log.stem) for log in path.glob("*.log"))
                found.update(
                    (row["topic"], row["partition"], row["offset"])
                    for row in rows.read_all().to_pylist()
                    if not row["control"] and (row["offset"] < active or not self.stream)
                )
        return found

    def query(self) -> Counter[Offset]:
        frame = self.session.spark.read.format("kdump").options(**self.options).load(str(self.data))
        return Counter(map(tuple, frame.select("topic", "partition", "offset").collect()))

    def run_stream(self, got: dict[int, Counter[Offset]]) -> None:
        """Read what is available from the checkpoint on; ``got`` has rows by number of batch."""

        def keep(frame: DataFrame, number: int) -> None:
            rows = frame.select("topic", "partition", "offset").collect()
            got[number] = Counter(map(tuple, rows))

        stream = self.session.spark.readStream.format("kdump").options(**self.options)
        stream = stream.option("maxOffsetsPerTrigger", "200")
        query = (
            stream.load(str(self.data))
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(self.top / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def reported(self) -> list[dict[str, Any]]:
        """The rows of badRecordsPath."""
        if not self.bad.is_dir():
            return []
        files = self.bad.glob("*.json")
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def check(self, expected: Counter[Offset], got: Counter[Offset]) -> int:
        """Each record is there once or is reported; return how many are reported."""
        assert not got - expected, "more than there is"
        missing = expected - got
        reported = self.reported()
        for topic, partition, offset in missing:
            assert any(
                (row["topic"], row["partition"]) == (topic, partition)
                and row["first_offset"] <= offset
                and (row["last_offset"] is None or offset <= row["last_offset"])
                for row in reported
            ), f"offset {offset} of {topic}-{partition} is missing without a word"
        return missing.total()


@pytest.mark.parametrize("seed", SEEDS)
def test_never_less(
    seed: int, tmp_path: Path, fault: Path, session: Session, record_property: Any
) -> None:
    trial = Trial(seed, tmp_path, fault, session)
    outcome = of_stream(trial) if trial.stream else of_query(trial)
    record_property("outcome", f"{trial.kind} {'stream' if trial.stream else 'query'}: {outcome}")


def of_query(trial: Trial) -> str:
    expected = trial.expected()
    assert expected.total() > 250
    words = trial.strike()
    try:
        got = trial.query()
    except PySparkException as error:
        assert trial.kind != "kill" or SLOW in str(error), (words, error)
        return "failed"
    return "reported" if trial.check(expected, got) else "whole"


def of_stream(trial: Trial) -> str:
    expected = trial.expected()
    assert expected.total() > 150
    got: dict[int, Counter[Offset]] = {}
    words, outcome = trial.strike(), "whole"
    try:
        trial.run_stream(got)
    except PySparkException as error:
        assert trial.kind != "kill" or SLOW in str(error), (words, error)
        outcome = "failed, and went on once repaired"
    trial.restore()
    while True:
        try:
            trial.run_stream(got)
            break
        except PySparkException as error:
            assert SLOW in str(error)
    if trial.check(expected, sum(got.values(), Counter())):
        outcome = "reported"
    return outcome


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(int(os.environ.get("KDUMP_SPARK_KILLS", "4"))))
def test_a_killed_driver(seed: int, tmp_path: Path) -> None:
    """What it read counts once: the query goes on from its checkpoint."""
    chance = random.Random(seed)
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    query = [sys.executable, "-P", str(HERE / "stream_query.py"), str(data)]

    def rows(work: Path) -> Counter[str]:
        files = (work / "batches").glob("*.json")
        return Counter(json.dumps(row) for file in files for row in json.loads(file.read_text()))

    options = ("now", "^(transfers|idempotent|codec-zstd)$", "40")
    whole, work, log = tmp_path / "whole", tmp_path / "work", tmp_path / "stderr"

    def start(to: Path) -> subprocess.Popen[bytes]:
        with log.open("wb") as stderr:
            return subprocess.Popen(
                [*query, str(to), *options], env=OWN, stderr=stderr, start_new_session=True
            )

    def end(process: subprocess.Popen[bytes], to: Path) -> None:
        while process.wait():
            assert SLOW in log.read_text(), log.read_text()
            process = start(to)

    def batches() -> int:
        return len(list(work.glob("batches/*.json")))

    end(start(whole), whole)
    kills = 0
    process = start(work)
    while kills < 2:
        goal = batches() + chance.randrange(1, 3)
        while process.poll() is None and batches() < goal:
            time.sleep(0.02)
        time.sleep(chance.random() * 0.3)
        if process.poll() == 0:
            break
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
        else:
            assert SLOW in log.read_text(), log.read_text()
        process = start(work)
    end(process, work)
    assert kills
    assert rows(work) == rows(whole)
    assert not (work / "differs").exists()
