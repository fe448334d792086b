"""Finding codes of the KRaft metadata log.

Spec: the behaviour and the messages of brokers of 3.9 to 4.3. Codes never change their meaning.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.codes.code import FindingCode, Outcome, Severity

QUORUM_STATE_MALFORMED: Final = FindingCode(
    "quorum-state-malformed",
    Severity.ERROR,
    "The file quorum-state does not follow its format.",
    "Does not start.",
    "Delete it only where the other voters are up: the node then asks them who leads. Alone it "
    "would forget for whom it voted.",
    ("Error while reading the Quorum status from the file {}",),
    check=36,
    stops=Outcome.REFUSES,
)
METADATA_SNAPSHOT_MISSING: Final = FindingCode(
    "metadata-snapshot-missing",
    Severity.ERROR,
    "The metadata log does not begin at 0, and no snapshot reaches to where it begins.",
    "Does not start.",
    "Bring the .checkpoint file back, or let the node fetch all from the quorum: move the "
    "metadata directory away if this node is no voter or the other voters are sound.",
    ("Inconsistent snapshot state: there must be a snapshot at an offset larger then the current",),
    check=36,
    stops=Outcome.REFUSES,
)
METADATA_SNAPSHOT_DAMAGED: Final = FindingCode(
    "metadata-snapshot-damaged",
    Severity.ERROR,
    "The newest metadata snapshot is not whole: a batch is damaged, or its header or footer is "
    "missing.",
    "Does not start, or does not know topics whose records are behind the damage: their "
    "partitions become -stray.",
    "Move the snapshot away if an older one is whole and the log begins before that one's end.",
    ("First control record is not a snapshot header", "Record batch is corrupt"),
    check=36,
    stops=Outcome.REFUSES,
)
METADATA_SNAPSHOT_DAMAGED_OLD: Final = FindingCode(
    "metadata-snapshot-damaged-old",
    Severity.WARNING,
    "A metadata snapshot that is not the newest is not whole.",
    "Does not read it, but may send it to another node that asks for it.",
    "It can go once a newer one is whole.",
    check=36,
)
METADATA_SNAPSHOT_BEYOND_END: Final = FindingCode(
    "metadata-snapshot-beyond-end",
    Severity.WARNING,
    "The newest metadata snapshot ends behind the metadata log, as when a follower died after "
    "fetching one.",
    "Throws the log away, and begins a new one at the snapshot's end.",
    "Nothing is lost that the snapshot does not hold.",
    check=36,
)
