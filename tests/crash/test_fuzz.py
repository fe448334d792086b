"""Files damaged at random, by seed: nothing but values, findings and kdump's own errors come out.

``KDUMP_FUZZ_CASES`` is how many cases the slow tests take (10,000), ``KDUMP_FUZZ_FIRST`` the seed
that all start from (0): a case that failed is run again with its seed and one case.
``KDUMP_FUZZ_SECONDS`` is the CPU time that a case may take (2).
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unicodedata import category

import pytest

from crash.bounds import memory_bound
from kdump.cli.main import main
from kdump.commands.dump.entries import json_lines, text_lines
from kdump.commands.dump.files import KINDS, pieces
from kdump.errors import DecodeError, LimitError
from kdump.format.batch import BatchTable, RecordBatch
from kdump.format.checkpoint import decode_epochs, decode_offsets, encode_epochs, encode_offsets
from kdump.format.control import control_json, decode_control
from kdump.format.index import OffsetIndex, TimeIndex, TransactionIndex
from kdump.format.lines.lines import JsonLines, TextLines
from kdump.format.lines.text import json_text
from kdump.format.messages.metadata import decode_metadata
from kdump.format.properties import (
    decode_clean_shutdown,
    decode_meta_properties,
    decode_partition_metadata,
    decode_quorum_state,
    parse_properties,
)
from kdump.format.records import RecordReader
from kdump.format.snapshot import decode_snapshot, encode_snapshot
from kdump.storage.names import parse_file_name
from kdump.storage.walk import batch_bytes, walk
from support.cases import Case, case, corpus
from support.fixtures_loader import ROOT
from support.forge import CODECS
from support.memory import MemorySource, batches

pytestmark = pytest.mark.loops

FIRST = int(os.environ.get("KDUMP_FUZZ_FIRST", "0"))
CASES = int(os.environ.get("KDUMP_FUZZ_CASES", "10000"))
ORDINARY = 300
CASE_SECONDS = float(os.environ.get("KDUMP_FUZZ_SECONDS", "2"))
CASE_BYTES = 256 << 20
#: How many cases share a log directory: starting a command takes longer than reading them.
DIRECTORY_CASES = 40


#: A few cases, and many where slow tests are run.
amounts = pytest.mark.parametrize(
    "cases",
    [pytest.param(ORDINARY, id="sample"), pytest.param(CASES, marks=pytest.mark.slow, id="many")],
)


#: All cases of a directory meet these, and ``SOME`` of the others.
VERIFY = (
    ("verify", "--deep", "--progress", "none"),
    ("verify", "--deep", "--info", "--format", "json", "--progress", "none"),
)
SOME = 3


def test_a_seed_gives_the_same_case_and_all_kinds_and_changes_come_up() -> None:
    some = [case(seed) for seed in range(400)]
    assert some == [case(seed) for seed in range(400)]
    assert {_kind(sample) for sample in some} == set(corpus())
    assert {
        *(".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint"),
        *("leader-epoch-checkpoint", "partition.metadata", "meta.properties", "quorum-state"),
        *("replication-offset-checkpoint", ".kafka_cleanshutdown"),
    } <= set(corpus())
    done = " ".join(sample.recipe for sample in some)
    words = "flip cut insert token duplicate swap zero zero_tail splice resealed"
    assert [word for word in words.split() if word not in done] == []


def test_batches_of_every_magic_and_codec_are_resealed() -> None:
    found: set[tuple[int, str]] = set()
    for sample in _cases(3000, [".log"]):
        if sample.resealed:
            for batch in batches(sample.data, int(sample.path.stem)):
                if batch.codec_id < len(CODECS):
                    found.add((batch.magic, batch.codec.label))
    assert {(magic, codec) for magic in (0, 1, 2) for codec in CODECS} <= found


@pytest.mark.slow
def test_the_bound_of_memory_bites() -> None:
    with memory_bound(64 << 20), pytest.raises(MemoryError):
        bytearray(1 << 30)
    assert len(bytearray(1 << 30)) == 1 << 30


# --- the decoders


def _offset_index(data: bytes) -> None:
    index = OffsetIndex.decode(data, 7)
    assert index.encode() == data
    violations = index.order_violations()
    assert violations.count >= len(violations.first)
    index.lookup(2**63 - 1)


def _time_index(data: bytes) -> None:
    index = TimeIndex.decode(data, 7)
    assert index.encode() == data
    violations = index.order_violations()
    assert violations.count >= len(violations.first)
    index.lookup(-(2**63))


def _txn_index(data: bytes) -> None:
    assert TransactionIndex.decode(data).encode() == data


def _snapshot(data: bytes) -> None:
    assert encode_snapshot(decode_snapshot(data)) == data


def _offsets(data: bytes) -> None:
    entries = decode_offsets(data)
    assert decode_offsets(encode_offsets(entries)) == entries


def _epochs(data: bytes) -> None:
    entries = decode_epochs(data)
    assert decode_epochs(encode_epochs(entries)) == entries


def _control(data: bytes) -> None:
    for split in (4, 20):
        json_text(control_json(decode_control(data[:split], data[split:])))


def _dumped(data: bytes) -> None:
    for kind in KINDS:
        for piece in pieces(kind, data, 7):
            _assert_safe(b"".join(text_lines(piece)))
            for line in b"".join(
                json_lines(piece, {"topic": "t"}, force_base64=False)
            ).splitlines():
                json.loads(line)


#: Every one gets the bytes of every file, its own kind's or not.
DECODERS: Sequence[Callable[[bytes], object]] = (
    *(_offset_index, _time_index, _txn_index, _snapshot, _offsets, _epochs, _control),
    *(parse_properties, decode_meta_properties, decode_partition_metadata, decode_quorum_state),
    *(decode_clean_shutdown, decode_metadata, _dumped),
)


@amounts
def test_decoders_give_a_value_or_a_decode_error(cases: int) -> None:
    read = refused = 0
    with memory_bound(CASE_BYTES):
        for sample in _cases(cases):
            with _checked(sample):
                for decoder in DECODERS:
                    try:
                        decoder(sample.data)
                        read += 1
                    except DecodeError as error:
                        assert str(error)
                        refused += 1
    assert read > cases
    assert refused > cases


# --- walking and reading


@amounts
def test_walk_tiles_and_records_are_read_or_refused(cases: int) -> None:
    reader = RecordReader()
    seen = [0, 0, 0]
    with memory_bound(CASE_BYTES):
        for sample in _cases(cases, [".log", ".log", ".checkpoint"]):
            with _checked(sample):
                _read_all(sample, reader, seen)
    assert all(count > cases // 10 for count in seen), seen


def _read_all(sample: Case, reader: RecordReader, seen: list[int]) -> None:
    """Adds to ``seen``: damages, batches whose records can be read, and those that cannot."""
    rng = random.Random(sample.seed)
    source = MemorySource(sample.data, rng.choice((None, 61, 700, 1 << 16)))
    base_offset = parse_file_name(sample.path.name).base_offset or 0
    position = 0
    for piece in walk(source, base_offset):
        assert piece.position == position
        if not isinstance(piece, BatchTable):
            assert piece.size > 0
            position += piece.size
            seen[0] += 1
            continue
        for batch in piece:
            assert batch.position == position
            position += batch.size
            seen[1 if _readable(batch, source, reader) else 2] += 1
        assert piece.end == position
    assert position == len(sample.data)


def _readable(batch: RecordBatch, source: MemorySource, reader: RecordReader) -> bool:
    data = bytes(batch_bytes(source, batch))
    text, lines = TextLines(data=True), JsonLines("topic", 0, force_base64=batch.size % 2 == 0)
    _assert_safe(text.batch(batch) + lines.batch(batch))
    count, last_offset = 0, batch.base_offset - 1
    error: Exception | None = None
    try:
        for table in reader.tables(batch, memoryview(data)):
            count += len(table)
            last_offset = table[len(table) - 1].offset
            _assert_safe(b"".join(bytes(piece) for piece in text.records(table)))
            for line in b"".join(bytes(piece) for piece in lines.records(table)).splitlines():
                json.loads(line)
    except (DecodeError, LimitError) as refused:
        error = refused
    try:
        summary = reader.summary(batch, memoryview(data))
    except (DecodeError, LimitError) as refused:
        assert (type(refused), str(refused)) == (type(error), str(error))
        return False
    assert error is None
    assert (summary.count, summary.last_offset) == (count, last_offset)
    return True


# --- the commands


@amounts
def test_commands_report_and_change_nothing(
    cases: int, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    codes: set[int] = set()
    kinds = [*corpus(), *[".log"] * len(corpus())]
    with memory_bound(CASE_BYTES):
        for start in range(0, cases, DIRECTORY_CASES):
            some = list(_cases(min(DIRECTORY_CASES, cases - start), kinds, FIRST + start))
            codes |= _run(some, tmp_path, capfdbinary)
    assert codes & {4, 5}


class TooSlow(AssertionError):
    """A command took longer than one case may."""


def _run(some: Sequence[Case], tmp_path: Path, capture: pytest.CaptureFixture[bytes]) -> set[int]:
    """Exit codes of commands on a log directory with these cases.

    Where something is wrong each case is run by itself too, so that the failure names one.
    """
    top = tmp_path / f"{some[0].seed}-{len(some)}"
    files = _write(some, top)
    before = _state(top)
    failure: AssertionError
    try:
        return {_command(command, some, capture) for command in _commands(some[0].seed, top, files)}
    except AssertionError as error:
        failure = error
    finally:
        assert _state(top) == before, f"changed by a command: {some[0]} and those behind it"
        shutil.rmtree(top)
    if len(some) == 1:
        raise failure
    codes = set().union(*(_run([sample], tmp_path, capture) for sample in some))
    if not isinstance(failure, TooSlow):
        raise failure
    return codes  # none of them was slow by itself


def _commands(seed: int, top: Path, files: Sequence[Path]) -> list[list[str]]:
    """What is run on ``top``, or on the damaged ``files`` by name."""
    rng = random.Random(seed)
    # A .lock is none of the files that can be dumped; alone it leaves the directory to be named.
    named = [str(path) for path in files if path.name != ".lock"] or [str(top)]
    json = ("--format", "json")
    since = rng.randrange(1_790_000_000_000, 1_791_000_000_000)
    filters = [
        ("--offsets", f"{rng.randrange(60)}..{rng.randrange(60, 300)}"),
        ("--offsets", f"{rng.randrange(300)}.."),
        ("--since", str(since), "--until", str(since + rng.randrange(1, 1_000_000_000))),
        ("--producer-id", str(rng.randrange(10))),
        ("--limit", str(rng.randrange(1, 200))),
    ]
    of_records = [*filters, ("--key", f"key-{rng.randrange(40)}")]
    dumps: list[Sequence[str]] = [
        ("--data", str(top)),
        ("--records", *json, str(top)),
        (*json, str(top)),
        ("--summary", str(top)),
        ("--summary", *json, *rng.choice(filters), str(top)),
        (*rng.choice(filters), *rng.choice(filters[2:]), str(top)),
        ("--records", *json, *rng.choice(of_records), str(top)),
        ("--data", *named),
        ("--records", *json, "--base64", *named),
    ]
    chosen = rng.sample(dumps, SOME)
    return [
        *([*command, str(top)] for command in VERIFY),
        *(["dump", *arguments] for arguments in chosen),
    ]


def _command(
    command: Sequence[str], some: Sequence[Case], capture: pytest.CaptureFixture[bytes]
) -> int:
    """The exit code of one command, whose output must be whole and safe."""
    where = f"{' '.join(command)} on {some[0]}" + (f" and {len(some) - 1} more" * (len(some) > 1))
    started = _cpu_seconds()
    code = main(list(command))
    seconds = _cpu_seconds() - started
    out, err = capture.readouterr()
    assert code in (0, 4, 5), f"{where}: {err.decode(errors='replace')}"
    assert b"Traceback" not in err, f"{where}: {err.decode(errors='replace')}"
    assert out.endswith(b"\n") or not out, where
    _assert_safe(out)
    if "json" in command:
        types = [json.loads(line)["type"] for line in out.splitlines()]
        assert (types[0], types[-1]) == ("header", "summary"), where
    if seconds > CASE_SECONDS:
        raise TooSlow(f"{where}: {seconds:.1f} s")
    return code


def _write(some: Sequence[Case], top: Path) -> list[Path]:
    """A log directory with a partition for each case: its fixture's, with the one file changed.

    A file of the top replaces that of ``top``. Returns the changed files.
    """
    changed: dict[Path, None] = {}
    top.mkdir()
    (top / "meta.properties").write_bytes(b"version=1\nnode.id=1\ncluster.id=x\n")
    for sample in some:
        fixture = ROOT / sample.path
        if any(path.is_dir() for path in fixture.parent.iterdir()):
            (top / fixture.name).write_bytes(sample.data)
            changed[top / fixture.name] = None
            continue
        partition = top / f"seed.{sample.seed}-0"
        partition.mkdir()
        for path in fixture.parent.iterdir():
            # Of the others those with the same base offset do: a seed's files stay few.
            if path.stem == fixture.stem or not fixture.name[0].isdigit():
                (partition / path.name).write_bytes(path.read_bytes())
        (partition / fixture.name).write_bytes(sample.data)
        changed[partition / fixture.name] = None
    return list(changed)


def _state(top: Path) -> dict[Path, tuple[int, int, bytes | None]]:
    return {
        path: (
            path.lstat().st_mtime_ns,
            path.lstat().st_ctime_ns,
            path.read_bytes() if path.is_file() else None,
        )
        for path in (top, *top.rglob("*"))
    }


# --- what they share


def _cases(count: int, kinds: Sequence[str] | None = None, first: int = FIRST) -> Iterator[Case]:
    return (case(seed, kinds) for seed in range(first, first + count))


def _kind(sample: Case) -> str:
    return sample.path.suffix if sample.path.name[0].isdigit() else sample.path.name


@contextmanager
def _checked(sample: Case) -> Iterator[None]:
    """Report errors inside with seed and recipe of the sample; limit the time."""
    started = time.process_time()
    try:
        yield
    except Exception as error:
        error.add_note(str(sample))
        raise
    assert time.process_time() - started < CASE_SECONDS, str(sample)


def _cpu_seconds() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(sum(resource.getrusage(kind)[:2]) for kind in kinds)


def _assert_safe(out: bytes) -> None:
    text = out.decode()
    unsafe = {char for char in set(text) - {"\n"} if category(char) in ("Cc", "Cf", "Zl", "Zp")}
    assert not unsafe
