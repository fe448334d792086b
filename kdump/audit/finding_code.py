"""FindingCode: severity, meaning, what a broker does, what to do, its cure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from pkgutil import resolve_name
from typing import Final

from kdump.values import frozen


class Severity(Enum):
    """The meaning of a finding for the data, worst first."""

    ERROR = "error"  # data is lost, refused or served wrongly
    INCOMPLETE = "incomplete"  # could not be checked: no damage is known
    WARNING = "warning"  # a broker heals it, or ignores it, at a cost
    INFO = "info"  # an oddity of normal operation

    @property
    def rank(self) -> int:
        """The position of the severity, 0 for the worst."""
        return list(Severity).index(self)


class Outcome(Enum):
    """The outcome of a start for a partition or a log directory."""

    STARTS = "starts"
    OFFLINE = "offline"  # its log directory is left out; a broker with no other one stops
    REFUSES = "refuses"  # the broker does not start


class Harm(Enum):
    """The harm of a start that succeeds, where no number of records shows it."""

    EMPTY = "empty"  # replicas that are missing are created again, without their records
    UNSERVED = "unserved"  # some partitions, or all, are not served
    FOLLOWED = "followed"  # replicas that follow this one delete records that it lacks
    STRAYS = "strays"  # all partitions are renamed to -stray, and no longer served
    REFETCHED = "refetched"  # replicas are created again, empty, and fetched from their leaders
    METADATA_FETCHED = "metadata-fetched"  # the metadata log is fetched from a quorum, if one runs
    METADATA_CUT = "metadata-cut"  # a part of the cluster's metadata is forgotten
    METADATA_SHORT = "metadata-short"  # the metadata log goes on without records that it had
    SHORTENED = "shortened"  # segments make way for files that hold fewer records
    EMPTIED = "emptied"  # where a write finds no space, the segment that is recovered is emptied
    UNREAD = "unread"  # a log is corrupt, and not all was read that decides where it is truncated


class Cure(Enum):
    """The repair that heals a finding of a partition, as far as the evidence allows."""

    REINDEX = "reindex"  # the file is rebuilt from the log
    EPOCHS = "epochs"  # leader-epoch-checkpoint is rebuilt from the batches
    TOPIC_ID = "topic-id"  # partition.metadata is written anew, if the metadata log has the topic
    CONVERT = "convert"  # batches get the leader epoch that belongs to their offsets
    CUT = "cut"  # the log is truncated, or its valid batches are copied if others follow
    CUT_IF_REFUSED = "cut-if-refused"  # the same, but only if recovery rejects the segment


@frozen
class FindingCode:
    """A row of the table: the meaning of a finding of this name.

    ``check`` is the number of the invariant in KOD 9 that it violates. ``stops`` is the worst
    outcome of the next start with this finding; None if the broker starts, or if other facts decide
    too. ``loses``: the offsets of such a finding are those of records that consumers cannot read,
    besides the records that damage hides. ``harm`` is what the next start does besides. ``cure`` is
    the repair of a finding above severity info; without one, its remedy is ``kdump explain``.
    """

    name: str
    severity: Severity
    meaning: str
    broker: str
    advice: str
    check: int | None = None
    stops: Outcome | None = None
    loses: bool = False
    harm: Harm | None = None
    cure: Cure | None = None

    @property
    def first_advice(self) -> str:
        """The first sentence of the advice, without its full stop."""
        return self.advice.split(". ")[0].removesuffix(".")

    @property
    def by_replica(self) -> bool:
        """Whether a replica in sync has what is wrong here, by the advice."""
        return FETCH_FROM_LEADER in self.advice

    def __reduce__(self) -> tuple[Callable[[str], FindingCode], tuple[str]]:
        # Findings travel between processes, and there is one object of each code.
        return find_code, (self.name,)


def find_code(name: str) -> FindingCode:
    """Return the code ``name``; raises KeyError without one.

    The table is that of ``kdump.audit.codes``, named as pickle names what it finds: the modules in
    it import this one.
    """
    codes: Mapping[str, FindingCode] = resolve_name("kdump.audit.codes:CODES")
    return codes[name]


#: The advice where a replica in sync helps.
FETCH_FROM_LEADER: Final = (
    "If another replica is in sync, start its broker first. Then, while this broker is stopped, "
    "kdump repair --refetch moves the partition aside, and this broker fetches all of it from the "
    "leader."
)
#: The advice where data may be lost.
REPLICA_FIRST: Final = (
    f"{FETCH_FROM_LEADER} If no other replica has the records, copy the directory before a broker "
    "starts on it."
)
#: The end of the advice where a field may be wrong that no checksum covers.
ONE_VALUE: Final = (
    " If this field alone is wrong and the log leaves it one value, kdump repair sets it and loses "
    "no record."
)
#: The advice where recovery cuts a log.
SALVAGE_OR_CUT: Final = (
    f"{FETCH_FROM_LEADER} If no other replica has the records, run kdump salvage before a broker "
    "starts: it writes a new partition directory with every valid batch, also the batches after "
    "the corruption. kdump truncate-to-valid truncates the log here and removes all later records, "
    "valid records included. kdump undo reverts this."
)
#: The advice for an index that only recovery rebuilds.
REINDEX: Final = (
    "While the broker is stopped, kdump reindex rebuilds the file. Without kdump, only recovery of "
    "the segment rebuilds it: if the segment's .log is valid, delete its .index while the broker "
    "is stopped, and the next startup recovers the segment."
)
