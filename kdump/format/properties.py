"""``meta.properties``, ``partition.metadata``, ``quorum-state`` and ``server.properties``.

Spec: ``java.util.Properties``, ``MetaProperties`` (KIP-631, KIP-858), ``PartitionMetadataFile``
(KIP-516), ``FileQuorumStateStore`` (KIP-595, KIP-853), ``CleanShutdownFileHandler`` (KIP-966).
"""

from __future__ import annotations

import json
import re

from kdump.errors import DecodeError
from kdump.format.messages.reader import parse_uuid, uuid_text
from kdump.values import frozen

_LINE_END = re.compile(r"\r\n|\r|\n")
_NO_ID = uuid_text(bytes(16))
_RESERVED_IDS = 100
_INTEGERS = 2**31


# --- java.util.Properties

_BLANKS = " \t\f"
_NEXT_LINE = re.compile(r"(?:\r\n|\r|\n)[ \t\f]*")
_TOKEN = re.compile(
    r"\\u(?P<hex>[0-9A-Fa-f]{4})|\\(?P<escaped>[^u])|(?P<plain>[^\\])|(?P<bad>\\)", re.S
)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(data: bytes) -> dict[str, str]:
    r"""Return the pairs of a Java properties file; of a repeated key, the last.

    ISO 8859-1, comments, continued lines and escapes are as in ``Properties.load``. Raises
    DecodeError for a ``\u`` without four hexadecimal digits.
    """
    pairs: dict[str, str] = {}
    for line in _logical_lines(data.decode("iso-8859-1")):
        key, value = _split_pair(line)
        pairs[_unescape(key)] = _unescape(value)
    return pairs


def _logical_lines(text: str) -> list[str]:
    """Return the lines that are neither blank nor comments, with continued ones joined."""
    lines: list[list[str]] = []
    continued = False
    for line in _NEXT_LINE.split(text.lstrip(_BLANKS)):
        if not continued and (not line or line[0] in "#!"):
            continue
        ends_open = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        content = line[:-1] if ends_open else line
        if continued:
            lines[-1].append(content)
        elif content:
            lines.append([content])
        else:
            continue  # only a backslash: in Java the next line is then a new one
        continued = ends_open
    return ["".join(pieces) for pieces in lines]


def _split_pair(line: str) -> tuple[str, str]:
    """Return key and value, split at the first unescaped ``=``, ``:`` or blank."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    value = line[end:].lstrip(_BLANKS)
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(_BLANKS)
    return line[:end], value


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    units = "".join(map(_unescape_token, _TOKEN.finditer(text)))
    # Characters of Java are UTF-16 units: two escapes may make a single character.
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _unescape_token(token: re.Match[str]) -> str:
    if token["plain"]:
        return token["plain"]
    if token["hex"]:
        return chr(int(token["hex"], 16))
    if token["escaped"]:
        return _LETTERS.get(token["escaped"], token["escaped"])
    raise DecodeError(rf"properties: expected four hexadecimal digits after \u in {token.string!r}")


# --- meta.properties


@frozen
class MetaProperties:
    """``meta.properties``. ``node_id`` is ``broker.id`` in version 0; absent ids are None."""

    version: int
    cluster_id: str | None
    node_id: int | None
    directory_id: str | None


def decode_meta_properties(data: bytes) -> MetaProperties:
    """Read ``meta.properties``. Raises DecodeError if a broker would not start with the file."""
    pairs = parse_properties(data)
    version = _integer("meta.properties", "version", pairs.get("version", "0").strip())
    if version not in (0, 1):
        raise DecodeError(f"meta.properties: expected version 0 or 1, found {version}")
    if version == 1:
        for name in ("node.id", "cluster.id"):
            if name not in pairs:
                raise DecodeError(f"meta.properties: version 1 has no {name}")
    id_name = "node.id" if version == 1 else "broker.id"
    node_id = pairs.get(id_name)
    directory_id = pairs.get("directory.id")
    return MetaProperties(
        version,
        pairs.get("cluster.id"),
        None if node_id is None else _integer("meta.properties", id_name, node_id),
        None if directory_id is None else uuid_text(parse_uuid(directory_id)),
    )


def is_reserved_directory(directory_id: str) -> bool:
    """Return whether Kafka reserves this id of a log directory (``DirectoryId.reserved``)."""
    return int.from_bytes(parse_uuid(directory_id), "big") < _RESERVED_IDS


def _integer(file: str, name: str, text: str) -> int:
    if re.fullmatch(r"[+-]?\d{1,40}", text) and -(2**31) <= int(text) < 2**31:
        return int(text)
    raise DecodeError(f"{file}: expected an integer of 32 bits in {name}, found {text[:40]!r}")


# --- partition.metadata


class FatalMetadataError(DecodeError):
    """A line is missing, or the topic id is not a uuid: the broker does not start.

    On any other fault of ``partition.metadata`` it takes the log directory offline.
    """


@frozen
class PartitionMetadata:
    """``partition.metadata``; ``topic_id`` is the text form of a uuid."""

    version: int
    topic_id: str


def decode_partition_metadata(data: bytes) -> PartitionMetadata:
    """Read ``partition.metadata``. Raises DecodeError, FatalMetadataError."""
    lines = _LINE_END.split(_utf8("partition.metadata", data))
    # As in BufferedReader.readLine, no empty line follows the last line end.
    lines = lines if lines[-1] else lines[:-1]
    # The names before the colons are ignored, as in Kafka.
    version = _integer("partition.metadata", "version", _after_colon(lines, 0))
    if version < 0:
        raise DecodeError(f"partition.metadata: expected version 0 or above, found {version}")
    text = _after_colon(lines, 1)
    try:
        topic_id = uuid_text(parse_uuid(text))
    except DecodeError as error:
        raise FatalMetadataError(f"partition.metadata: {error}") from error
    if topic_id == _NO_ID:
        raise DecodeError("partition.metadata: expected a topic id, found the zero uuid")
    return PartitionMetadata(version, topic_id)


def encode_partition_metadata(topic_id: str) -> bytes:
    """Return ``partition.metadata`` as a broker writes it.

    Raises DecodeError if ``topic_id`` is not a topic id.
    """
    content = f"version: 0\ntopic_id: {topic_id}".encode(errors="replace")
    decode_partition_metadata(content)
    return content


def _after_colon(lines: list[str], index: int) -> str:
    if index >= len(lines):
        raise FatalMetadataError(
            f"partition.metadata line {index + 1}: expected 'name: value', found no such line"
        )
    parts = re.split(r":[ \t\n\v\f\r]+", lines[index])
    if len(parts) != 2 or not parts[1]:
        raise DecodeError(
            f"partition.metadata line {index + 1}: expected 'name: value', "
            f"found {lines[index][:40]!r}"
        )
    return parts[1]


# --- quorum-state


@frozen
class QuorumState:
    """``quorum-state`` of a KRaft node: the leader, and the candidate it voted for; -1 is none.

    Only version 0 has ``cluster_id``, ``applied_offset`` and ``current_voters``; only version 1 has
    ``voted_directory_id``.
    """

    version: int
    leader_id: int
    leader_epoch: int
    voted_id: int
    voted_directory_id: str | None
    cluster_id: str | None
    applied_offset: int | None
    current_voters: tuple[int, ...]


def decode_quorum_state(data: bytes) -> QuorumState:
    """Read the first line of ``quorum-state``, as Kafka does. Raises DecodeError.

    A node does not start with the id of a leader or a candidate below -1.
    """
    state = _JsonObject("quorum-state", _LINE_END.split(_utf8("quorum-state", data))[0])
    version = state.integer("data_version")
    if version not in (0, 1):
        raise DecodeError(f"quorum-state: expected data_version 0 or 1, found {version}")
    leader_id, epoch = state.integer("leaderId", -1), state.integer("leaderEpoch", -_INTEGERS)
    voted_id = state.integer("votedId", -1)
    # A node reads the id in either version, where it is there.
    is_there = version == 1 or "votedDirectoryId" in state.fields
    directory_id = state.uuid("votedDirectoryId") if is_there else None
    return QuorumState(
        version,
        leader_id,
        epoch,
        voted_id,
        directory_id if version == 1 else None,
        state.text("clusterId") if version == 0 else None,
        state.integer("appliedOffset") if version == 0 else None,
        state.voters("currentVoters") if version == 0 else (),
    )


# --- .kafka_cleanshutdown


@frozen
class CleanShutdownMarker:
    """``.kafka_cleanshutdown``, whose existence means a clean shutdown; up to 3.6 without epoch."""

    broker_epoch: int | None


def decode_clean_shutdown(data: bytes) -> CleanShutdownMarker:
    """Read the content of the marker.

    Raises DecodeError. A broker then also treats the shutdown as clean, without the epoch.
    """
    if not data:
        return CleanShutdownMarker(None)
    name = ".kafka_cleanshutdown"
    return CleanShutdownMarker(_JsonObject(name, _utf8(name, data)).integer("brokerEpoch"))


class _JsonObject:
    """A JSON object with typed access to its fields. Each access raises DecodeError."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        try:
            self.fields = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DecodeError(f"{file}: expected JSON: {error}") from error
        if not isinstance(self.fields, dict):
            raise DecodeError(f"{file}: expected a JSON object, found {text[:40]!r}")

    def integer(self, name: str, least: int | None = None) -> int:
        """Return an integer; one of 32 bits, from ``least`` on, if that is given."""
        value = self.fields.get(name)
        whole = isinstance(value, int) and not isinstance(value, bool)
        if whole and (least is None or least <= value < _INTEGERS):
            return int(value)
        raise self._error(name, "an integer" if least is None else f"an integer from {least} on")

    def uuid(self, name: str) -> str:
        """Return the text form of a uuid."""
        text = self.text(name)
        try:
            return uuid_text(parse_uuid(text))
        except DecodeError as error:
            raise self._error(name, "a uuid") from error

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        if isinstance(value, str):
            return value
        raise self._error(name, "a string")

    def voters(self, name: str) -> tuple[int, ...]:
        """Return the ids in a list of ``{"voterId": int}``; null counts as an empty list."""
        value = self.fields.get(name)
        if value is None:
            return ()
        try:
            ids = [voter["voterId"] for voter in value]
        except (TypeError, KeyError) as error:
            raise self._error(name, "a list of voters") from error
        if not all(isinstance(voter_id, int) for voter_id in ids):
            raise self._error(name, "a list of voters with ids")
        return tuple(ids)

    def _error(self, name: str, expected: str) -> DecodeError:
        value = self.fields.get(name)
        found = type(value).__name__ if name in self.fields else "nothing"
        if isinstance(value, int) and not isinstance(value, bool):
            found = str(value)[:40]
        return DecodeError(f"{self.file}: expected {expected} in {name}, found {found}")


def _utf8(file: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DecodeError(
            f"{file}: expected UTF-8, found byte {data[error.start]:#04x} at {error.start}"
        ) from error
