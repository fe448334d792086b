"""What a real broker says of the logs that it loads, and what it then serves of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from brokers.broker import Broker
from brokers.programs import consume

Records = dict[int, Any]
READ, COMMITTED = "read_uncommitted", "read_committed"

_LOADED = re.compile(
    r"Completed load of Log\(dir=\S*/(\S+), .*logStartOffset=(\d+), logEndOffset=(\d+)\) "
    r"with (\d+) segments"
)
#: Who in a broker says that a log is damaged or cut: at the level of a warning, or in these words.
_LOADERS = ("LogLoader", "LogSegment", "UnifiedLog", "LocalLog", "LogManager", "ProducerState")
_CUTS = ("runcat", "Corruption", "Deleting segment")
#: After a kill it is usual.
_RECOVERY = "Recovering unflushed segment"


class Log(NamedTuple):
    """The offsets between which a broker has found a log, and the number of its segments."""

    start: int
    end: int
    segments: int


def loaded(said: Iterable[str]) -> dict[str, Log]:
    """What a broker has said of each partition that it loaded; of the last start, if of several."""
    found = filter(None, map(_LOADED.search, said))
    return {match[1]: Log(*map(int, match.groups()[1:])) for match in found}


def complaints(said: Iterable[str], *, clean: bool) -> list[str]:
    """The lines of those who load logs that warn, or tell of cuts; of ``clean`` starts also those
    that tell of recovery."""
    words = (*_CUTS, _RECOVERY) if clean else _CUTS
    return [
        line
        for line in said
        if any(who in line for who in _LOADERS)
        and "__cluster_metadata" not in line
        and (" WARN " in line or " ERROR " in line or any(word in line for word in words))
        and "log.cleaner.enable" not in line
    ]


def logs(data: Path, names: Iterable[str]) -> dict[str, bytes]:
    """The logs of these partitions, without the zeros of preallocation."""
    return {
        str(path.relative_to(data)): path.read_bytes()
        for name in names
        for path in sorted((data / name).glob("*.log"))
    }


def records(path: Path) -> Records:
    """What a consumer read, by offset."""
    lines = map(json.loads, path.read_text().splitlines())
    return {line["offset"]: line for line in lines}


def read_all(
    broker: Broker, names: Sequence[str], directory: Path, isolation: str = READ
) -> dict[str, Records]:
    """What a consumer reads of these partitions."""
    directory.mkdir(exist_ok=True)
    consume(broker.version, broker.bootstrap, isolation, names, directory)
    return {name: records(directory / f"{name}.{isolation}.jsonl") for name in names}
