"""Names of topics in an anonymous manifest, and the small files that hold names.

A pseudonym is a keyed hash of the name: without the key a guess cannot be tested. One key gives the
same pseudonyms on all brokers of a cluster. Topic ids stay, so that copies of a partition can be
paired under different keys too.
"""

from __future__ import annotations

import hmac
import re
from typing import Final

from kdump.storage.names import (
    CLUSTER_METADATA_TOPIC,
    OFFSETS_TOPIC,
    SHARE_TOPIC,
    TRANSACTION_TOPIC,
    FileKind,
    FileName,
    parse_directory_name,
)

#: The topics of Kafka itself, whose names say nothing.
INTERNAL: Final = frozenset(
    {
        CLUSTER_METADATA_TOPIC,
        OFFSETS_TOPIC,
        SHARE_TOPIC,
        TRANSACTION_TOPIC,
        "__remote_log_metadata",
    }
)
_DIGITS: Final = 20
_LINE: Final = re.compile(rb"(\S+)( [+-]?\d+ [+-]?\d+)")
_NUMBER: Final = re.compile(rb"\d+")


class Names:
    """The names of files and topics in a manifest; with a ``key`` it is anonymous."""

    def __init__(self, key: bytes | None) -> None:
        self._key = key

    @property
    def anonymous(self) -> bool:
        """Whether names are replaced."""
        return self._key is not None

    def topic(self, topic: str) -> str:
        """Return the name of a topic."""
        return topic if self._key is None or topic in INTERNAL else f"t{self._hash(topic)}"

    def directory(self, name: str) -> str:
        """Return the name of a directory in a log directory."""
        if self._key is None:
            return name
        parts = parse_directory_name(name)
        if parts is None:
            return f"d{self._hash(name)}"
        return self.topic(parts.topic) + name[len(parts.topic) :]

    def file(self, name: FileName) -> str:
        """Return the name of a file."""
        if self._key is None or name.kind is not FileKind.UNKNOWN:
            return name.name
        return f"f{self._hash(name.name)}"

    def offsets(self, data: bytes) -> bytes:
        """Return an offset checkpoint. What is no line of one becomes a question mark."""
        if self._key is None:
            return data
        lines = data.split(b"\n")
        return b"\n".join(map(self._line, lines))

    def _line(self, line: bytes) -> bytes:
        if not line or _NUMBER.fullmatch(line):
            return line
        match = _LINE.fullmatch(line)
        if match is None:
            return b"?"
        return self.topic(match[1].decode(errors="surrogateescape")).encode() + match[2]

    def _hash(self, name: str) -> str:
        text = name.encode(errors="surrogateescape")
        return hmac.new(self._key or b"", text, "sha256").hexdigest()[:_DIGITS]
