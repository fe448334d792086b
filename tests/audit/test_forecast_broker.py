"""The forecast of a start against the start: the loaders of brokers on damaged copies.

Each copy is forecast, then given to the broker's own loader, which works in place. What comes of it
must be what was forecast; where it is not, ``LISTED`` says why, and the forecast is the worse one.
"""

from __future__ import annotations

import random
import shutil
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from brokers.jars import IS_REPLACED, meant
from brokers.oracle import Loaded, Oracle, Refused
from kdump.audit.facts.small_files import PartitionFacts, TopicSettings, read_partition_facts
from kdump.audit.startup.forecast import Forecast, forecast, forecast_by
from kdump.audit.startup.inputs import read_log_facts, violations
from kdump.audit.startup.outcome import LogFacts, Outcome, RejectedBatch, Release
from kdump.audit.survey.survey import Survey, survey
from kdump.format.batch import BatchTable
from kdump.format.index import OffsetIndex, TimeIndex
from kdump.format.kernel import recovery as _recovery
from kdump.storage.access import open_source
from kdump.storage.logdir import read_partition
from kdump.storage.walk import walk
from support.fixtures_loader import FIXTURES, partitions, topic_configs
from support.forged_starts import FORGED
from support.starts import BASES, CONFIGS, Start, copy, starts

Of = Callable[[str], Oracle]
VERSIONS = {Release.V3_9: "3.9.1", Release.V4_3: "4.3.1", Release.V4_4: "4.4.0"}
SEED = 5
SAMPLE = 40
#: (release, name of the start) -> why the forecast and the broker differ.
LISTED: dict[tuple[str, str], str] = {}

pytestmark = pytest.mark.broker


def settings_of(config: dict[str, str]) -> TopicSettings:
    return TopicSettings(
        index_interval_bytes=int(config.get("index.interval.bytes", "4096")),
        segment_index_bytes=int(config.get("segment.index.bytes", "10485760")),
    )


def surveys(directory: Path, settings: TopicSettings) -> list[Survey]:
    segments = read_partition(directory).segments
    return [
        survey(
            segment,
            lambda _: None,
            mapped=False,
            sealed=segment is not segments[-1],
            deep=False,
            settings=settings,
        )
        for segment in segments
    ]


Known = tuple[PartitionFacts, tuple[LogFacts, ...], tuple[RejectedBatch, ...]]


def known(start: Start, directory: Path, log_start: int, recovery_point: int) -> Known:
    """What the forecast of a start is made from."""
    settings = settings_of(start.config)
    facts = replace(
        read_partition_facts(read_partition(directory), None, settings, stopped=True),
        in_log_directory=True,
        clean=start.clean,
        log_start=log_start,
        recovery_point=recovery_point,
    )
    found = surveys(directory, settings)
    wrong = violations(facts, found)
    return facts, read_log_facts(facts, found, wrong), wrong


def sizes(directory: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in directory.glob("*.log*")}


def expected_sizes(predicted: Forecast, before: dict[str, int]) -> dict[str, int]:
    """The logs that are there under their names before and after, and their sizes after."""
    replaced = {path.name for path in predicted.replaced}
    expected = {}
    for base in set(predicted.segments).difference(predicted.split):
        name = f"{base:020}.log"
        found = before.get(f"{name}.swap" if name in replaced or name not in before else name)
        if found is not None:
            cuts = [cut.position for cut in predicted.cuts if cut.segment == base]
            expected[name] = 0 if base in predicted.deleted else min([found, *cuts])
    return expected


def sound_records(found: Iterable[Survey]) -> int:
    return sum(survey.recovered.sound.count for survey in found if survey.recovered is not None)


def difference(
    predicted: Forecast, loaded: Loaded | Refused, before: dict[str, int], now: dict[str, int]
) -> str | None:
    """In what the forecast is not what came."""
    if isinstance(loaded, Refused):
        came = Outcome.OFFLINE if loaded.offline else Outcome.REFUSES
        return (
            None if predicted.outcome is came else f"{came.value}: {loaded.error}: {loaded.message}"
        )
    if predicted.outcome is not Outcome.STARTS:
        return "starts"
    came_to = loaded.log_start_offset, loaded.log_end_offset, loaded.segments
    if came_to != (predicted.log_start_offset, predicted.log_end_offset, predicted.segments):
        return f"log start, log end, segments {came_to}"
    wrong = {name for name, size in expected_sizes(predicted, before).items() if now[name] != size}
    return f"other sizes: {wrong}" if wrong else None


def judge(start: Start, release: Release, oracle: Of, target: Path) -> str | None:
    """Forecast a start, have it, and say in what it was wrong."""
    directory, log_start, recovery_point = start.write(target)
    settings = settings_of(start.config)
    facts, logs, wrong = known(start, directory, log_start, recovery_point)
    predicted = forecast_by(release, facts, logs, wrong)
    worse = forecast(facts, logs, wrong)
    before, records = sizes(directory), sound_records(surveys(directory, settings))
    loaded = oracle(VERSIONS[release]).load(
        directory,
        clean=start.clean,
        log_start=log_start,
        recovery_point=recovery_point,
        config=start.config,
    )
    assert predicted.exact
    found = difference(predicted, loaded, before, sizes(directory))
    if isinstance(loaded, Loaded) and worse.outcome is Outcome.STARTS:
        lost = records - sound_records(surveys(directory, settings))
        swapped = any(name.endswith(".swap") for name in before)
        assert swapped or worse.lost.sound.count >= lost, start.name
        assert worse.log_end_offset is not None
    elif isinstance(loaded, Refused):
        assert worse.outcome is not Outcome.STARTS, start.name
    shutil.rmtree(directory)
    return found


def compare(chosen: Iterable[Start], oracle: Of, target: Path) -> Counter[str]:
    """Judge them all; every difference must be listed, and everything listed must differ."""
    counts: Counter[str] = Counter()
    differences = {}
    for start in chosen:
        for release, version in VERSIONS.items():
            found = judge(start, release, oracle, target)
            counts["all"] += 1
            if found is not None:
                differences[version, start.name] = f"{start.base}: {found}"
            elif (version, start.name) in LISTED:
                differences[version, start.name] = "no difference any more"
    unlisted = {key: text for key, text in differences.items() if key not in LISTED}
    assert not unlisted, "\n".join(f"{key}: {text}" for key, text in unlisted.items())
    assert "no difference any more" not in differences.values()
    counts["different"] = len(differences)
    return counts


names_releases = pytest.mark.skipif(IS_REPLACED, reason="compares releases that it names")


@names_releases
def test_a_sample_starts_as_forecast(oracle: Of, tmp_path: Path) -> None:
    chosen = random.Random(SEED).sample(sorted(starts(), key=lambda start: start.name), SAMPLE)
    compare(chosen, oracle, tmp_path)


@names_releases
@pytest.mark.nightly
@pytest.mark.parametrize("seed", [0, 4, 5])
def test_all_start_as_forecast(oracle: Of, tmp_path: Path, seed: int) -> None:
    counts = compare(starts(seed), oracle, tmp_path)
    assert counts["all"] >= 600
    assert counts["different"] <= counts["all"] * 0.03


def test_every_kind_is_there_and_every_base() -> None:
    kinds = Counter(start.name.rpartition(" ")[0] for start in starts())
    assert min(kinds.values()) >= 15, kinds
    assert {start.base for start in starts()} == set(BASES)
    assert {start.clean for start in starts()} == {True, False}


def rebuilt(log: Path, settings: TopicSettings) -> tuple[bytes, bytes]:
    """The two indexes that recovery writes, by the kernel's loop."""
    base = int(log.stem)
    room = settings.segment_index_bytes
    state = array("q", bytes(8 * len(_recovery.RECOVERY_FIELDS)))
    at = _recovery.RECOVERY_FIELDS.index
    state[at("base")] = state[at("indexed_offset")] = base
    state[at("time_offset")] = state[at("max_offset")] = base
    state[at("time_timestamp")] = state[at("max_timestamp")] = -1
    state[at("interval")] = settings.index_interval_bytes
    state[at("index_room")], state[at("time_room")] = room // 8, room // 12
    entries: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    with open_source(log, mapped=False) as source:
        for piece in walk(source, base):
            assert isinstance(piece, BatchTable)
            new = memoryview(array("q", [-1] * 2 * len(piece)))
            new_times = memoryview(array("q", [-1] * 2 * len(piece)))
            before = state[at("index_entries")], state[at("time_entries")]
            assert _recovery.recover(piece.rows, 0, state, new, new_times) == len(piece)
            for into, found, start, name in (
                (entries, new, before[0], "index_entries"),
                (times, new_times, before[1], "time_entries"),
            ):
                count = state[at(name)] - start
                pairs = found[: 2 * count]
                into += zip(pairs[::2], pairs[1::2], strict=True)
    last = memoryview(array("q", [-1, -1]))
    count = state[at("time_entries")]
    assert _recovery.close_times(state, last)
    if state[at("time_entries")] > count:
        times.append((last[0], last[1]))
    return (
        OffsetIndex.of(0, entries).encode(),
        TimeIndex.of(0, times).encode(),
    )


@pytest.mark.parametrize("fixture", FIXTURES)
def test_rebuilt_indexes_are_the_brokers(oracle: Of, fixture: str, tmp_path: Path) -> None:
    compared = 0
    for stored in partitions(fixture):
        config = topic_configs(fixture).get(stored.name.rpartition("-")[0], {})
        if stored.name.startswith(("__", "preallocated")):
            continue
        directory = copy(fixture, stored.name, tmp_path)
        settings = settings_of(config)
        ours = {log.stem: rebuilt(log, settings) for log in directory.glob("*.log")}
        config = {name: config[name] for name in CONFIGS if name in config}
        loaded = oracle("4.3.1").load(directory, config=config)
        assert isinstance(loaded, Loaded)
        for stem, (index, times) in ours.items():
            assert (directory / f"{stem}.index").read_bytes() == index, stored
            assert (directory / f"{stem}.timeindex").read_bytes() == times, stored
            compared += 1
    assert compared >= 15


@pytest.mark.parametrize("version", sorted(VERSIONS.values()))
def test_forged_ones_start_as_expected(oracle: Of, version: str, tmp_path: Path) -> None:
    """What the tests without a broker expect is what brokers do."""
    wrong = {}
    for forged in FORGED:
        expected = forged.by(meant(version))
        loaded = oracle(version).load(
            forged.write(tmp_path),
            clean=forged.clean,
            log_start=forged.log_start,
            recovery_point=forged.recovery_point,
            config=forged.config,
        )
        if isinstance(loaded, Refused):
            right = expected.end is None and expected.offline == loaded.offline
        else:
            came = loaded.log_start_offset, loaded.log_end_offset, loaded.segments
            right = came == (expected.start, expected.end, expected.left)
        if not right:
            wrong[forged.name] = replace(loaded, messages=())
    assert not wrong
