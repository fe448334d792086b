"""The receipt of a conversion to a new directory."""

from __future__ import annotations

from typing import Any

from kdump.commands.convert.plan import COMMAND
from kdump.repair.newdir.output import NewDirectory, encode_identity, encode_output
from kdump.repair.rewrite.conversion import Rules
from kdump.storage.source import Identity
from kdump.values import frozen


@frozen
class NewLog:
    """A new log: the size and the counts of its file.

    ``digest_before`` is the digest of its records in the old log, ``digest_after`` the digest of
    the records that were read back.
    """

    name: str
    size: int
    batches: int
    records: int
    digest_before: str
    digest_after: str


@frozen
class ConvertedLog:
    """An old log and the counts of its batches.

    ``legacy`` batches were rewritten, ``stamped`` got a leader epoch, ``copied`` stay. ``identity``
    is the identity of its file when it was read. ``parts`` are the new logs, one unless it was
    split.
    """

    name: str
    identity: Identity
    legacy: int
    stamped: int
    copied: int
    parts: tuple[NewLog, ...]


@frozen
class ConvertedCopy(NewDirectory):
    """The result of a conversion of a partition to a new directory.

    ``logs`` are the logs with old batches, ``untouched`` the names of the other logs, which were
    copied. ``log_end`` is the offset after the last batch. If no log holds old batches, nothing was
    written, and ``id`` and ``files`` are empty.
    """

    rules: Rules
    logs: tuple[ConvertedLog, ...]
    untouched: tuple[str, ...]
    log_start: int | None
    log_end: int | None

    @property
    def nothing(self) -> bool:
        """Whether there was nothing to do, and nothing was written."""
        return not self.logs

    @property
    def parts(self) -> tuple[NewLog, ...]:
        """All new logs."""
        return tuple(part for log in self.logs for part in log.parts)

    @property
    def legacy(self) -> int:
        """The number of messages and wrappers of magic 0 and 1 that were rewritten."""
        return sum(log.legacy for log in self.logs)

    @property
    def records(self) -> int:
        """The number of records in the converted logs."""
        return sum(part.records for part in self.parts)

    @property
    def bytes_before(self) -> int:
        """The bytes of the converted logs before the conversion."""
        return sum(log.identity.size for log in self.logs)

    @property
    def bytes_after(self) -> int:
        """The bytes of the new logs."""
        return sum(part.size for part in self.parts)


def encode(copy: ConvertedCopy) -> dict[str, Any]:
    """Return the JSON fields of ``copy``, without its paths."""
    codec = copy.rules.codec
    fields = {
        "codec": None if codec is None else codec.label,
        "batch_bytes": copy.rules.batch_bytes,
        "segments": [_log(log) for log in copy.logs],
        "untouched": list(copy.untouched),
        "records": copy.records,
        "bytes_before": copy.bytes_before,
        "bytes_after": copy.bytes_after,
        "log_start_offset": copy.log_start,
        "log_end_offset": copy.log_end,
    }
    return encode_output(copy, COMMAND, fields)


def _log(log: ConvertedLog) -> dict[str, Any]:
    return {
        "log": log.name,
        "identity": encode_identity(log.identity),
        "legacy_batches": log.legacy,
        "stamped_batches": log.stamped,
        "copied_batches": log.copied,
        "bytes_before": log.identity.size,
        "bytes_after": sum(part.size for part in log.parts),
        "new_logs": [
            {
                "log": part.name,
                "size": part.size,
                "batches": part.batches,
                "records": part.records,
                "digest_before": part.digest_before,
                "digest_after": part.digest_after,
            }
            for part in log.parts
        ],
    }
