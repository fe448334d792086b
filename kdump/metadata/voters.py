"""The voters and the kraft version, from control records.

Spec: ``KRaftControlRecordStateMachine``, ``VoterSet``, ``KRaftVersion`` (KIP-853).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kdump.errors import DecodeError
from kdump.format.control import ControlRecord, ControlType
from kdump.values import frozen


@frozen
class VoterEndpoint:
    """An endpoint of a voter, by the name of its listener."""

    name: str
    host: str
    port: int


@frozen
class Voter:
    """A voter, and the kraft versions that it supports; endpoints by name."""

    id: int
    directory_id: str
    endpoints: tuple[VoterEndpoint, ...]
    min_kraft_version: int
    max_kraft_version: int


@dataclass(slots=True)
class VoterHistory:
    """The voters and the kraft versions of a log, each with the offset of its record.

    The newest are last. Records of a snapshot have the last offset that the snapshot contains.
    ``electors`` are the ids of the voters of the last election, which a leader writes.
    """

    voters: list[tuple[int, tuple[Voter, ...]]] = field(default_factory=list)
    kraft_versions: list[tuple[int, int]] = field(default_factory=list)
    electors: frozenset[int] = frozenset()

    def add(self, offset: int, record: ControlRecord | DecodeError) -> str | None:
        """Add a control record of any type; return why a node cannot apply it, None if it can."""
        if isinstance(record, DecodeError):
            return str(record)
        if record.type is ControlType.LEADER_CHANGE and record.fields is not None:
            self.electors = _electors(record.fields)
        if record.type not in (ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS):
            return None
        if record.fields is None:
            return f"expected a known version, found {record.version}"
        if record.type is ControlType.KRAFT_VOTERS:
            self.voters.append((offset, read_voters(record.fields)))
        else:
            version = record.fields["kRaftVersion"]
            assert isinstance(version, int)
            self.kraft_versions.append((offset, version))
        return None


def _electors(fields: dict[str, Any]) -> frozenset[int]:
    return frozenset(voter["voterId"] for voter in fields["voters"])


def read_voters(fields: dict[str, Any]) -> tuple[Voter, ...]:
    """Return the voters in the fields of a VotersRecord, by id; of several with an id, the last."""
    voters = {}
    for voter in fields["voters"]:
        endpoints = {
            each["name"]: VoterEndpoint(each["name"], each["host"], each["port"])
            for each in voter["endpoints"]
        }
        supported = voter["kRaftVersionFeature"]
        voters[voter["voterId"]] = Voter(
            voter["voterId"],
            voter["voterDirectoryId"],
            tuple(endpoints[name] for name in sorted(endpoints)),
            supported["minSupportedVersion"],
            supported["maxSupportedVersion"],
        )
    return tuple(voters[number] for number in sorted(voters))
