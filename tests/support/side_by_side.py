"""A damaged partition twice: one to be repaired, one for a broker's own loader; and what differs.

Spec: ``LogLoader`` with recovery point 0 after an unclean stop; KOD 5.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from brokers.oracle import Loaded, Oracle, Refused
from kdump.format.batch import BatchTable, RecordBatch
from kdump.format.snapshot import decode_snapshot
from kdump.repair.transaction.plan import Cut, Plan, Put, Remove
from kdump.storage.access import open_source
from kdump.storage.walk import walk
from support.commands import Ran, done, kdump, repair
from support.starts import Start

Of = Callable[[str], Oracle]
VERSIONS = ("3.9.1", "4.3.1")
#: The longest that the loader takes, by a clock that has just begun: no producer expires.
EXPIRY_MS, NOW_MS = 2**31 - 1, 0
#: What a broker's configuration file calls the settings of ``Start.config``.
_SYNONYMS = {
    "index.interval.bytes": "log.index.interval.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
}


class Batch(NamedTuple):
    """A sound batch, wherever it stands; ``fits``: its offset can be one of its segment's."""

    base_offset: int
    size: int
    crc: int
    magic: int
    records: int
    fits: bool


@dataclass(frozen=True)
class Copy:
    """A copy that a broker's loader has recovered; ``swap`` says that it was amid a swap."""

    directory: Path
    loaded: Loaded | Refused
    log_start: int
    swap: bool


@dataclass(frozen=True)
class Mended:
    """A copy that was given to kdump; ``before`` are its sound batches as they were."""

    directory: Path
    ran: Ran
    before: Counter[Batch]

    @property
    def plans(self) -> list[Plan]:
        """The plans that were carried out."""
        return [plan for plan in done(self.directory) if plan.steps]


def write(start: Start, log_directory: Path) -> tuple[Path, list[str]]:
    """Write the partition in a log directory of its own: its path, and the options that tell of
    its settings."""
    directory, log_start, recovery_point = start.write(log_directory)
    topic, _, number = directory.name.rpartition("-")
    offsets = {"recovery-point-offset": recovery_point, "log-start-offset": log_start}
    for name, offset in offsets.items():
        line = f"0\n1\n{topic} {number} {offset}\n" if offset else "0\n0\n"
        (log_directory / f"{name}-checkpoint").write_text(line)
    if start.clean:
        (log_directory / ".kafka_cleanshutdown").touch()
    settings = {_SYNONYMS[name]: text for name, text in start.config.items()}
    config = log_directory.parent / "server.properties"
    config.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
    return directory, ["--config", str(config)]


def mend(start: Start, log_directory: Path, command: str, *arguments: str) -> Mended:
    """Write the partition, and have kdump repair it; doing so once more changes nothing."""
    directory, options = write(start, log_directory)
    before = sound(directory)
    ran = repair(command, *arguments, *options, directory, searching=False)
    assert ran.code in (0, 6), ran
    again = kdump(command, *arguments, *options, directory, searching=False)
    assert again.code == ran.code, again
    assert not any(plan["steps"] for plan in again.of("plan"))
    assert (log_directory / ".kafka_cleanshutdown").exists() == start.clean
    return Mended(directory, ran, before)


def load(start: Start, oracle: Oracle, target: Path) -> Copy:
    """Write the partition, and have a broker recover all of it."""
    directory, log_start, _ = start.write(target)
    return _load(directory, log_start, start, oracle)


def load_cut(mended: Mended, start: Start, oracle: Oracle, target: Path) -> Copy:
    """Write the partition, cut its logs where kdump has, and have a broker recover all of it."""
    directory, log_start, _ = start.write(target)
    left = sizes(mended.directory)
    for log in directory.glob("*.log"):
        if log.name in left:
            os.truncate(log, left[log.name])
        else:
            for suffix in (".log", ".index", ".timeindex", ".txnindex"):
                log.with_suffix(suffix).unlink(missing_ok=True)
    return _load(directory, log_start, start, oracle)


def _load(directory: Path, log_start: int, start: Start, oracle: Oracle) -> Copy:
    swap = any(directory.glob("*.swap"))
    loaded = oracle.load(
        directory,
        log_start=log_start,
        config=start.config,
        producer_expiry_ms=EXPIRY_MS,
        now_ms=NOW_MS,
    )
    return Copy(directory, loaded, log_start, swap)


def compare_all(
    chosen: Iterable[Start],
    oracle: Of,
    target: Path,
    mend_one: Callable[[Start, Path], Mended],
    compare: Callable[[Mended, Copy], tuple[str | None, list[str]]],
    compare_cut: Callable[[Mended, Copy], list[str]],
) -> Counter[str]:
    """Repair and load copies of all of them; nothing may be wrong.

    ``compare`` gives the kind of the difference, if there is one, and what is wrong. Returned is
    how often each kind came. Where kdump has cut elsewhere than a broker, ``compare_cut`` gives
    what is wrong beside a broker's recovery of logs that end there.
    """
    counts: Counter[str] = Counter()
    found = []
    for start in chosen:
        mended = mend_one(start, target / "mended")
        for version in VERSIONS:
            copy = load(start, oracle(version), target / version)
            kind, wrong = compare(mended, copy)
            if kind is not None and mended.plans:
                cut = load_cut(mended, start, oracle(version), target / "cut")
                wrong += compare_cut(mended, cut)
                shutil.rmtree(target / "cut")
            found += [f"{version}, {start.name}, {start.base}: {text}" for text in wrong]
            counts.update(["all"] if kind is None else ["all", kind])
            shutil.rmtree(target / version)
        shutil.rmtree(target / "mended")
    assert not found, "\n".join(found)
    return counts


def unlike(mended: Mended, copy: Copy) -> list[str]:
    """In what a repaired partition is not as a broker left it."""
    if not isinstance(copy.loaded, Loaded):
        return [f"{copy.loaded.error}: {copy.loaded.message}"]
    left, expected = sizes(mended.directory), sizes(copy.directory)
    wrong = [] if left == expected else [f"{left} for {expected}"]
    for plan in mended.plans:
        wrong += differing(plan, mended.directory, copy.directory)
    return wrong


def ends(mended: Mended, copy: Copy) -> list[str]:
    """Which ends that plans have told of the log are not what a broker found."""
    assert isinstance(copy.loaded, Loaded)
    told = {plan.log_end[1] for plan in mended.plans}
    return [f"log end {end}" for end in told - {copy.loaded.log_end_offset}]


def sound(directory: Path) -> Counter[Batch]:
    """The sound batches of a partition: how often each is there."""
    found: Counter[Batch] = Counter()
    for log in directory.glob("*.log"):
        with open_source(log, mapped=False) as source:
            for piece in walk(source, int(log.stem)):
                if isinstance(piece, BatchTable):
                    found.update(_batch(one, int(log.stem)) for one in piece)
    return found


def jumps(log: Path) -> list[range]:
    """The offsets that the sound batches of a log leave out, where they rise."""
    found, end = [], None
    with open_source(log, mapped=False) as source:
        for piece in walk(source, int(log.stem)):
            for batch in piece if isinstance(piece, BatchTable) else ():
                if end is not None and batch.base_offset > end:
                    found.append(range(end, batch.base_offset))
                end = batch.last_offset + 1
    return found


def _batch(one: RecordBatch, base: int) -> Batch:
    fits = 0 <= one.last_offset - base < 2**31
    return Batch(one.base_offset, one.size, one.crc, one.magic, one.count, fits)


def sizes(directory: Path) -> dict[str, int]:
    """The logs of a partition, and their sizes."""
    return {path.name: path.stat().st_size for path in directory.glob("*.log")}


def differing(plan: Plan, mended: Path, loaded: Path) -> list[str]:
    """In what the files that a plan wrote or took away are not what a broker left."""
    names = {step.name for step in plan.steps if isinstance(step, Put | Cut | Remove)}
    found = ((name, differs(mended / name, loaded / name)) for name in sorted(names))
    return [f"{name}: {why}" for name, why in found if why]


def differs(mended: Path, loaded: Path) -> str | None:
    """In what a file is not what the other one is."""
    if not mended.exists() or not loaded.exists():
        if mended.exists() == loaded.exists():
            return None
        return "not there" if loaded.exists() else "only here"
    ours, theirs = mended.read_bytes(), loaded.read_bytes()
    if ours == theirs:
        return None
    if mended.suffix == ".snapshot":
        with suppress(ValueError):
            entries, expected = (
                # A broker's recovery writes an entry that says nothing for an emptied control
                # batch.
                {one for one in decode_snapshot(data) if one.producer_epoch >= 0}
                for data in (ours, theirs)
            )
            return None if entries == expected else f"{entries} for {expected}"
    return f"{len(ours)} bytes {ours[:64].hex()} for {len(theirs)}: {theirs[:64].hex()}"
