"""What of a dump is asked for: ranges of offsets and times, a key, a producer, and how many.

Spec: none of Kafka's. Only what the headers rule out is passed over unread. It must never pass over
damage in what is read, nor believe an index.
"""

from __future__ import annotations

import os
import re
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import click

from kdump.cli.dump_lines import DumpFile
from kdump.format import _rows
from kdump.format.batch import BatchTable, RecordTable
from kdump.storage.entry import entry_position
from kdump.storage.logdir import Segment
from kdump.storage.source import Source
from kdump.storage.walk import Damage, walk

_LOWEST: Final = -(2**63)
_HIGHEST: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSETS: Final = re.compile(r"(?P<first>\d{,19})(?P<range>\.\.)?(?P<last>\d{,19})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Selection:
    """What is asked for: everything, where nothing is given. Ranges include both ends.

    Timestamps are in ms. ``limit`` is for the whole run: of records where they are printed, else
    of batches.
    """

    first_offset: int = _LOWEST
    last_offset: int = _HIGHEST
    first_timestamp: int = _LOWEST
    last_timestamp: int = _HIGHEST
    key: bytes | None = None
    producer_id: int | None = None
    limit: int | None = None

    @property
    def of_records(self) -> bool:
        """Whether a batch that is asked for may hold records that are not."""
        return self != Selection(producer_id=self.producer_id, limit=self.limit)

    def segments(self, segments: Sequence[Segment]) -> list[Segment]:
        """Those of a partition that can hold the offsets, by the bases of all ``segments``."""
        ends = [*(segment.base_offset for segment in segments[1:]), _HIGHEST + 1]
        return [
            segment
            for segment, end in zip(segments, ends, strict=False)
            if segment.base_offset <= self.last_offset and end > self.first_offset
        ]

    def batches(self, table: BatchTable, previous: int, *, records: bool) -> BatchTable:
        """Those of ``table`` that can hold what is asked for.

        ``previous`` is the last offset before them. Only the largest timestamp of a batch bounds
        those of its ``records``; where just batches are asked for, that of its first record counts
        as its earliest.
        """
        if self == Selection(limit=self.limit):
            return table
        rows = memoryview(bytearray(table.rows)).cast("q")
        kept = _rows.keep_batches(
            rows,
            previous,
            self.first_offset,
            self.last_offset,
            self.first_timestamp,
            _HIGHEST if records else self.last_timestamp,
            self.producer_id is not None,
            self.producer_id or 0,
        )
        return BatchTable(rows, hunted=table.hunted).first(kept)

    def records(self, table: RecordTable) -> RecordTable:
        """Those of ``table`` that are asked for, moved together in its own rows.

        Control records have no key that could be asked for.
        """
        if self.key is not None and table.batch.is_control:
            return table.first(0)
        kept = _rows.keep_records(
            table.rows,
            table.block,
            self.first_offset,
            self.last_offset,
            self.first_timestamp,
            self.last_timestamp,
            self.key,
        )
        return table.first(kept)

    def pieces(
        self, file: DumpFile, source: Source, *, records: bool
    ) -> Iterator[tuple[int, BatchTable | Damage]]:
        """Walk ``file`` from where the offsets can begin: bytes walked, and what is asked for.

        All damage is; a table of batches may come out empty. Raises SourceError.
        """
        start, previous = 0, file.base_offset - 1
        if self.first_offset > file.base_offset:
            start = entry_position(source, file.index, file.base_offset, self.first_offset)
        for piece in walk(source, file.base_offset, start):
            if isinstance(piece, Damage):
                yield piece.size, piece
            else:
                yield piece.end - piece.position, self.batches(piece, previous, records=records)
                previous = piece.column("last_offset")[-1]


def select(
    *,
    offsets: str | None = None,
    since: str | None = None,
    until: str | None = None,
    key: str | None = None,
    key_base64: str | None = None,
    producer_id: int | None = None,
    limit: int | None = None,
) -> Selection:
    """Return what the options of the same names ask for.

    Raises click.UsageError.
    """
    first, last = (_LOWEST, _HIGHEST) if offsets is None else _offsets(offsets)
    since_ms = None if since is None else _milliseconds(since, "--since")
    until_ms = None if until is None else _milliseconds(until, "--until")
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise click.UsageError(f"--since {since} lies not before --until {until}.")
    if since_ms is None and until_ms is not None:
        since_ms = 0  # what has no timestamp (-1) does not lie before any time
    if key is not None and key_base64 is not None:
        raise click.UsageError("--key and --key-base64 are two forms of one option: use one.")
    if producer_id is not None and producer_id > _HIGHEST:
        raise click.BadParameter(
            f"expected a number of 64 bits, found {producer_id}.", param_hint="--producer-id"
        )
    return Selection(
        first_offset=first,
        last_offset=last,
        first_timestamp=_LOWEST if since_ms is None else since_ms,
        last_timestamp=_HIGHEST if until_ms is None else until_ms - 1,
        key=_key(key, key_base64),
        producer_id=producer_id,
        limit=limit,
    )


def _offsets(text: str) -> tuple[int, int]:
    match = _OFFSETS.fullmatch(text)
    if match is not None and (match["first"] or match["last"]):
        first = int(match["first"] or 0)
        last = int(match["last"] or _HIGHEST)
        if not match["range"]:
            last = first
        if first <= last <= _HIGHEST:
            return first, last
    raise click.BadParameter(
        f"expected A..B, A.., ..B or A with A not above B, found {text!r}.", param_hint="--offsets"
    )


def _milliseconds(text: str, option: str) -> int:
    """Milliseconds since the epoch, rounded up: records have no finer times."""
    try:
        if text.isdecimal() and text.isascii():
            milliseconds = int(text)
        else:
            time = datetime.fromisoformat(text)
            time = time if time.tzinfo else time.replace(tzinfo=UTC)
            milliseconds = -((_EPOCH - time) // timedelta(milliseconds=1))
    except ValueError:
        milliseconds = -1
    if not 0 <= milliseconds <= _HIGHEST:
        raise click.BadParameter(
            "expected a time from 1970 on, such as 2026-11-21T10:00:00Z, or milliseconds since "
            f"then, found {text!r}.",
            param_hint=option,
        )
    return milliseconds


def _key(text: str | None, in_base64: str | None) -> bytes | None:
    if in_base64 is None:
        return None if text is None else os.fsencode(text)
    try:
        return b64decode(in_base64, validate=True)
    except ValueError as error:
        raise click.BadParameter(
            f"expected base64, found {in_base64!r}: {error}.", param_hint="--key-base64"
        ) from error
