"""``kdump dump`` beside Kafka's own dump tool of 4.4.0, line for line, on every fixture.

``RULES`` is all that is done to the two texts before they must be equal; each rule is a difference
that the manual names.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random

import pytest

from brokers.oracle import Oracle
from kdump.cli.main import main
from kdump.commands.dump.differences import DIFFERENCES
from kdump.format.messages.metadata import messages as metadata_messages
from kdump.format.messages.payloads import CoordinatorTopic, decoder_of
from kdump.format.messages.reader import Message, Value
from kdump.format.messages.remote_logs import messages as remote_log_messages
from support import forge
from support.dump_tool import (
    BATCH_SUFFIXES,
    DECODERS,
    SECRETS,
    TOOL,
    by_file,
    escaped,
    group_values,
    printed_by,
)
from support.fixtures_loader import FIXTURES, copy_fixture, few_first, partitions
from support.message_writer import random_values, write_fields

pytestmark = pytest.mark.broker

ENTRY_SUFFIXES = (".index", ".timeindex", ".txnindex", ".snapshot")
#: What is asked for, our options for it, those of Kafka's tool, and the files that it is about.
MODES: dict[str, tuple[list[str], list[str], tuple[str, ...]]] = {
    "entries": ([], [], ENTRY_SUFFIXES),
    "batches": ([], [], BATCH_SUFFIXES),
    "records": (["--records"], ["--deep-iteration"], BATCH_SUFFIXES),
    "data": (["--data", "--raw"], ["--print-data-log"], BATCH_SUFFIXES),
}
#: What it does not know: no longer, or not yet.
UNKNOWN = {
    "ShareGroupPartitionMetadata", "AccessControlRecord", "RemoveFeatureLevelRecord",
    "UnregisterControllerRecord",
}  # fmt: skip
#: Java before 19 prints some doubles with more digits than they need (JDK-4511638).
LONG_DOUBLES = re.compile(r"(?<=:)(-?\d\.\d{15,})E(\d+)")
DECODED = [
    (name, topic)
    for name in FIXTURES
    for topic in DECODERS
    if any(path.name.startswith(f"{topic}-") for path in partitions(name))
]
ZERO_SLOTS = re.compile(r"zeroSlots: \d+ position: (\d+) size: \d+\n")


#: The records of a batch of random messages.
RUN = 500


@dataclass(frozen=True, slots=True)
class Printed:
    """What both say of a file, behind the line that names it; ``error`` ended Kafka's tool."""

    path: Path
    ours: str
    theirs: str
    error: str | None


def zero_slots(printed: Printed) -> Printed:
    found = ZERO_SLOTS.search(printed.ours)
    if found is None:
        return printed
    theirs = printed.theirs
    if found[1] == "0":
        base = int(printed.path.stem)
        entry = f"offset: {base} position: 0\n", f"timestamp: 0 offset: {base}\n"
        theirs = theirs.removeprefix(entry[printed.path.suffix == ".timeindex"])
    return replace(printed, ours=printed.ours.replace(found[0], ""), theirs=theirs)


def escapes(printed: Printed) -> Printed:
    return replace(printed, theirs=escaped(printed.theirs))


#: By the name of the difference.
RULES: dict[str, Callable[[Printed], Printed]] = {"escapes": escapes, "zero slots": zero_slots}

Compare = Callable[[str, str], list[Printed]]
Theirs = Callable[[str, str], dict[Path, tuple[str, str | None]]]


@pytest.fixture(scope="module")
def theirs(oracle: Callable[[str], Oracle], tmp_path_factory: pytest.TempPathFactory) -> Theirs:
    """``theirs(fixture, mode)``: by file what Kafka's tool prints of it, and how it failed.

    It runs on a copy of the fixture, because it makes indexes that are missing.
    """
    top = tmp_path_factory.mktemp("compared")

    @cache
    def of(name: str, mode: str) -> dict[Path, tuple[str, str | None]]:
        directory = top / name.replace("/", "-")
        if not directory.exists():
            copy_fixture(name, directory)
        _, options, suffixes = MODES[mode]
        paths = sorted(path for path in directory.rglob("*") if path.suffix in suffixes)
        return printed_by(oracle(TOOL), paths, options)

    return of


@pytest.fixture
def compare(theirs: Theirs, capfdbinary: pytest.CaptureFixture[bytes]) -> Compare:
    """``compare(fixture, mode)``: what both print of each file."""

    def of(name: str, mode: str) -> list[Printed]:
        texts = theirs(name, mode)
        main(["dump", *MODES[mode][0], *map(str, texts)])
        ours = dict(by_file(capfdbinary.readouterr().out.decode(), list(texts)))
        return [Printed(path, ours[path], *texts[path]) for path in texts]

    return of


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", few_first())
def test_text_equals_that_of_kafkas_tool(name: str, mode: str, compare: Compare) -> None:
    everything = compare(name, mode)
    for printed in everything:
        for rule in RULES.values():
            printed = rule(printed)
        if printed.error is None:
            assert printed.ours.splitlines() == printed.theirs.splitlines(), printed.path
        else:
            assert printed.ours.startswith(printed.theirs), printed.path
    assert sum(printed.ours.count("\n") for printed in everything) > 30


@pytest.mark.parametrize(("name", "topic"), DECODED)
def test_decoded_text_equals_that_of_kafkas_decoders(
    name: str,
    topic: str,
    oracle: Callable[[str], Oracle],
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    copy_fixture(name, tmp_path / "copy")
    folders = sorted((tmp_path / "copy").glob(f"{topic}-*"))
    paths = [
        path for top in folders for path in sorted(top.iterdir()) if path.suffix in BATCH_SUFFIXES
    ]
    theirs = printed_by(oracle(TOOL), paths, [DECODERS[topic]])
    main(["dump", "--decode", *map(str, paths)])
    ours = dict(by_file(capfdbinary.readouterr().out.decode(), paths))
    decoded = 0
    for path in paths:
        printed = Printed(path, ours[path], *theirs[path])
        assert printed.error is None or name.endswith("/killed")
        if printed.error is None:
            assert printed.ours.splitlines() == escapes(printed).theirs.splitlines(), path
        else:
            assert printed.ours.startswith(printed.theirs), path
        decoded += printed.ours.count(' payload: {"')
    assert decoded > 3
    main(["dump", "--data", *map(str, paths)])  # decodes internal topics by itself
    assert dict(by_file(capfdbinary.readouterr().out.decode(), paths)) == ours


@pytest.mark.parametrize("name", [name for name, topic in DECODED if topic == "__consumer_offsets"])
def test_members_of_groups_are_taken_apart_as_by_the_decoder_of_3_9(
    name: str, oracle: Callable[[str], Oracle], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    copy_fixture(name, tmp_path / "copy")
    logs = sorted((tmp_path / "copy").glob("__consumer_offsets-*/*.log"))
    ours, theirs = group_values([log for log in logs if log.stat().st_size], oracle("3.9.1"), capfd)
    assert len(ours) > 10
    assert ours == theirs


def accepted_values(rng: Random, values: Mapping[str, Value]) -> dict[str, Value]:
    """Values of remote log metadata that Kafka does not refuse."""
    epochs: list[Value] = [
        {"leaderEpoch": rng.randrange(100), "offset": rng.randrange(10**6)} for _ in range(3)
    ]
    start = rng.randrange(10**9)
    accepted: dict[str, Value] = {
        "startOffset": start,
        "endOffset": start + rng.randrange(10**6),
        "segmentLeaderEpochs": epochs,
        "remoteLogSegmentState": rng.randrange(4),
        "remotePartitionDeleteState": rng.randrange(3),
    }
    return {name: value for name, value in accepted.items() if name in values}


def random_records(topic: str, count: int) -> list[forge.Record]:
    """``count`` records of each message of a topic, in each version, and a few tombstones."""
    decoder, rng = decoder_of(topic), Random(topic)
    found: list[tuple[bytes | None, bytes | None]] = []

    def written(message: Message, version: int) -> bytes:
        values = random_values(rng, message.fields, version)
        if topic == "__remote_log_metadata":
            values |= accepted_values(rng, values)
        return write_fields(message.fields, values, version, version in message.flexible)

    if isinstance(decoder, CoordinatorTopic):
        for type_id, key in decoder.keys.items():
            value = decoder.values[type_id][0]
            for version in value.versions if value.name[:-5] not in UNKNOWN else ():
                for number in range(count):
                    head = struct.pack(">h", type_id) + written(key, key.versions[0])
                    body = struct.pack(">h", version) + written(value, version)
                    found.append((head, body if number else None))
    else:
        remote = topic == "__remote_log_metadata"
        for message in (remote_log_messages() if remote else metadata_messages()).values():
            for version in message.versions if message.name not in UNKNOWN else ():
                head = b"".join(map(forge.uvarint, (1, message.type_id or 0, version)))
                found += [(None, head + written(message, version)) for _ in range(count)]
    return [forge.record(value, key) for key, value in found]


def shortest(found: re.Match[str]) -> str:
    digits, _, exponent = repr(float(found[0])).partition("e+")
    return f"{digits}E{exponent}" if exponent else found[0]


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("topic", DECODERS)
def test_random_messages_are_decoded_as_by_kafka(
    topic: str,
    count: int,
    oracle: Callable[[str], Oracle],
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    folder = tmp_path / f"{topic}-0"
    folder.mkdir()
    path = folder / "00000000000000000000.log"
    records = random_records(topic, count)
    runs = range(0, len(records), RUN)
    path.write_bytes(forge.segment([forge.batch(n, records[n : n + RUN]) for n in runs]))
    theirs = printed_by(oracle(TOOL), [path], [DECODERS[topic]])[path]
    main(["dump", "--decode", str(path)])
    ours = dict(by_file(capfdbinary.readouterr().out.decode(), [path]))[path]
    printed = escapes(Printed(path, ours, *theirs))
    assert printed.error is None
    for own, other in zip(printed.ours.splitlines(), printed.theirs.splitlines(), strict=True):
        expected = LONG_DOUBLES.sub(shortest, SECRETS.sub(r'"\1":"redacted"', other))
        assert own == expected


@pytest.mark.parametrize("name", FIXTURES)
def test_kafkas_tool_fails_only_at_zeros(name: str, compare: Compare) -> None:
    """At those of a preallocated log, and at an index that is all zeros beside an empty log."""
    failed = [printed for mode in MODES for printed in compare(name, mode) if printed.error]
    for printed in failed:
        log = printed.path.with_suffix(".log").read_bytes()
        if printed.path.suffix == ".index":
            assert (log, printed.error) == (b"", "java.util.NoSuchElementException")
        else:
            assert log.endswith(bytes(100))
            assert printed.error == "org.apache.kafka.common.errors.CorruptRecordException"
    assert bool(failed) == name.endswith("/killed")


def test_every_rule_is_needed_and_in_the_manual(compare: Compare) -> None:
    assert len(RULES) <= 8
    assert set(RULES) <= set(DIFFERENCES)
    everything = [printed for name in FIXTURES for mode in MODES for printed in compare(name, mode)]
    for name, rule in RULES.items():
        assert any(rule(printed) != printed for printed in everything), name


@pytest.mark.parametrize("options", [MODES["records"][:2], MODES["data"][:2]])
def test_forged_files_print_alike(
    options: tuple[list[str], list[str]],
    oracle: Callable[[str], Oracle],
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """What the fixtures may lack: every codec of magic 0 and 1, and odd fields."""
    batches = [forge.batch(0, [forge.record(b"value", b"key", [(b"h", None)])])]
    for magic in (0, 1):
        for codec in ("gzip", "snappy", "lz4"):
            first = len(batches) * 3
            inner = [forge.message(i if magic else first + i, magic=magic) for i in range(3)]
            batches.append(forge.wrapper(first + 2, inner, codec=codec, magic=magic))
        batches.append(forge.message(3 * len(batches), None, b"key", magic=magic))
    producers = [
        (1, 2, 1, 5, 7, 9, -1, -1),  # its sequences wrapped
        (2, 3, -1, 5, 0, 9, 1, 0),
        (3, 4, 5, -1, 6, 7, 8, 9),
        (-1, -1, -1, 0, -1, -1, -1, -1),
    ]
    contents = {
        "00000000000000000000.log": forge.segment(batches),
        "00000000000000000000.txnindex": forge.txn_index([(-1, -5, -6, -7), (1, 2, 3, 4)]),
        "00000000000000000030.snapshot": forge.snapshot(producers),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    paths = [tmp_path / name for name in contents]
    assert main(["dump", *options[0], *map(str, paths)]) == 0
    ours = dict(by_file(capfdbinary.readouterr().out.decode(), paths))
    theirs = printed_by(oracle(TOOL), paths, options[1])
    for path in paths:
        assert (ours[path].splitlines(), None) == (theirs[path][0].splitlines(), theirs[path][1])
