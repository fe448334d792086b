"""Records that the coordinator of their topic cannot decode; it then does not load the partition.

Most records of ``__consumer_offsets`` are commits, which the kernel passes over.

Spec: ``CoordinatorLoaderImpl``, ``CoordinatorRecordSerde``: a type that is not known is passed
over, and bytes behind the fields of a message are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kdump.audit.survey.anomalies import Fault, FaultKind
from kdump.errors import DecodeError
from kdump.format.batch import BatchTable, RecordRun, RecordTable
from kdump.format.kernel import compacted as _compacted
from kdump.format.messages.payloads import (
    CoordinatorTopic,
    PayloadDecoder,
    UnknownTypeError,
    decoder_of,
)
from kdump.format.messages.reader import TrailingBytesError
from kdump.format.records import RecordReader
from kdump.storage.record_runs import Unread, record_runs
from kdump.storage.source import Source

_WIDTH: Final = RecordTable.WIDTH


def coordinator_decoder(topic: str | None) -> PayloadDecoder | None:
    """Return what decodes the records of a coordinator's topic, None for other topics."""
    decoder = decoder_of(topic)
    return decoder if isinstance(decoder, CoordinatorTopic) else None


def undecodable_records(
    table: BatchTable, source: Source, reader: RecordReader, decoder: PayloadDecoder
) -> Iterator[Fault]:
    """Yield a fault for each record of ``table`` that its coordinator cannot decode.

    ``table`` is the newest piece of a walk over ``source``. Batches that cannot be read are passed
    over. Raises SourceError.
    """
    for run in record_runs(table, source, reader):
        if not isinstance(run, Unread) and not run.batches[0].is_control:
            yield from _of_run(run, decoder)


def _of_run(run: RecordRun, decoder: PayloadDecoder) -> Iterator[Fault]:
    batch, row = 0, 0
    count = len(run.rows) // _WIDTH
    while (row := _compacted.skip_commits(run.rows, row, run.block)) < count:
        while run.starts[batch + 1] <= row:
            batch += 1
        offset, _, key, key_size, value, value_size = run.rows[row * _WIDTH : row * _WIDTH + 6]
        reason = _reason(
            decoder,
            None if key_size < 0 else bytes(run.block[key : key + key_size]),
            None if value_size < 0 else bytes(run.block[value : value + value_size]),
        )
        if reason is not None:
            yield Fault(FaultKind.UNDECODABLE, run.batches[batch], offset, reason)
        row += 1


def _reason(decoder: PayloadDecoder, key: bytes | None, value: bytes | None) -> str | None:
    try:
        decoder.decode(key, value)
    except (UnknownTypeError, TrailingBytesError):
        return None
    except DecodeError as error:
        return str(error)
    return None
