"""Sets of voters, static or dynamic (KIP-853), and the leaders that they elected.

Spec: ``VoterSet``, ``ReplicaKey``, ``QuorumConfig.parseVoterConnections``; the control records
LeaderChange, KRaftVersion and KRaftVoters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kdump.errors import DecodeError
from kdump.format.control import ControlRecord, ControlType
from kdump.format.messages.reader import uuid_text
from kdump.storage.paths import AnyPath
from kdump.values import frozen

#: The id of no directory (``ReplicaKey.NO_DIRECTORY_ID``).
_NO_DIRECTORY: Final = uuid_text(bytes(16))


@dataclass(frozen=True, slots=True, order=True)
class ReplicaKey:
    """A voter; ``directory_id`` is None where the set of voters has none, as in a static set."""

    node_id: int
    directory_id: str | None = None

    def is_at(self, directory_id: str | None) -> bool:
        """Return whether a node with this directory id is the voter (``VoterNode.isVoter``)."""
        return self.directory_id is None or self.directory_id == directory_id


@frozen
class VoterSet:
    """The voters, by node id."""

    voters: tuple[ReplicaKey, ...]

    @classmethod
    def of(cls, voters: Iterable[ReplicaKey]) -> VoterSet:
        """Return the set of ``voters``; of a repeated node id the last counts."""
        by_id = {voter.node_id: voter for voter in voters}
        return cls(tuple(by_id[node_id] for node_id in sorted(by_id)))

    @property
    def majority(self) -> int:
        """The number of votes that elect a leader."""
        return len(self.voters) // 2 + 1

    def find(self, node_id: int | None) -> ReplicaKey | None:
        """Return the voter with this node id, None without one."""
        return next((voter for voter in self.voters if voter.node_id == node_id), None)


@frozen
class VotersEntry:
    """A set of voters as it was written; ``path`` is the log or the snapshot that holds it.

    In a snapshot its offset is the last one that the snapshot covers, -1 in the first snapshot of a
    newly formatted controller.
    """

    offset: int
    epoch: int
    voters: VoterSet
    path: AnyPath


@frozen
class LeaderChange:
    """The first record of a leader; ``granting`` are the voters that elected it."""

    offset: int
    epoch: int
    timestamp_ms: int
    leader_id: int
    granting: tuple[ReplicaKey, ...]
    voters: VoterSet


@frozen
class VersionEntry:
    """A level of kraft.version as it was written; from level 1 on voters are dynamic."""

    offset: int
    epoch: int
    level: int


Entry = VotersEntry | LeaderChange | VersionEntry
"""The content of a control record about the quorum."""


def read_entry(
    record: ControlRecord, offset: int, epoch: int, timestamp_ms: int, path: AnyPath
) -> Entry | None:
    """Return the content of a control record; None if it is not about the quorum."""
    fields: Mapping[str, Any] | None = record.fields
    if fields is None:
        return None
    if record.type is ControlType.LEADER_CHANGE:
        return LeaderChange(
            offset,
            epoch,
            timestamp_ms,
            fields["leaderId"],
            _voters(fields["grantingVoters"]),
            VoterSet.of(_voters(fields["voters"])),
        )
    if record.type is ControlType.KRAFT_VOTERS:
        return VotersEntry(offset, epoch, VoterSet.of(_voters(fields["voters"])), path)
    if record.type is ControlType.KRAFT_VERSION:
        return VersionEntry(offset, epoch, fields["kRaftVersion"])
    return None


def _voters(listed: Sequence[Mapping[str, Any]]) -> tuple[ReplicaKey, ...]:
    return tuple(
        ReplicaKey(voter["voterId"], directory_id(voter.get("voterDirectoryId")))
        for voter in listed
    )


def directory_id(text: str | None) -> str | None:
    """Return a directory id; None for the id of no directory."""
    return None if text == _NO_DIRECTORY else text


def static_voters(text: str) -> VoterSet | None:
    """Return the voters of ``controller.quorum.voters``, None if it is empty.

    Raises DecodeError for anything but ``ID@HOST:PORT`` separated by commas.
    """
    voters = []
    for part in filter(None, map(str.strip, text.split(","))):
        node_id, at, address = part.partition("@")
        if not (at and address and node_id.isascii() and node_id.isdecimal()):
            raise DecodeError(
                f"controller.quorum.voters: expected ID@HOST:PORT, found {part[:80]!r}"
            )
        voters.append(ReplicaKey(int(node_id[:10])))
    return VoterSet.of(voters) if voters else None
