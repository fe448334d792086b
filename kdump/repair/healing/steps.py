"""The order of the steps of a plan to heal.

An index of an old log is true of the healed log too: the batches that it points to stay where they
are. So each log is replaced at once, and its indexes follow. Logs come in the order of offsets: a
start that recovers a damaged log removes all logs behind it.

Spec: ``LogLoader.recoverLog``, ``LogLoader.loadSegmentFiles``; KOD 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kdump.audit.evidence import Evidence
from kdump.audit.facts.small_files import PartitionFacts, TopicSettings
from kdump.format.checkpoint import EpochEntry, encode_epochs
from kdump.repair.content.companions import epochs_of, known_epochs, runs_of
from kdump.repair.content.indexes import index_steps
from kdump.repair.content.replayed import producer_steps
from kdump.repair.content.small_files import small_file_steps
from kdump.repair.healing.copies import PartitionCopy
from kdump.repair.healing.lineage import epochs_of_copies
from kdump.repair.healing.result import HealedLog
from kdump.repair.transaction.plan import Put, Stamp, Step
from kdump.storage.names import LEADER_EPOCH_CHECKPOINT

_SECOND_NS: Final = 1_000_000_000


def heal_steps(
    evidence: Evidence,
    facts: PartitionFacts,
    healed: Sequence[HealedLog],
    files: Mapping[str, Stamp],
    settings: TopicSettings,
    copies: Sequence[PartitionCopy],
) -> tuple[list[Step], list[str]]:
    """Return the steps and notes; ``evidence`` and ``facts`` are of the healed partition.

    ``files`` are those in the directory.
    """
    lines = _lines_of_copies(evidence, facts, copies)
    small, small_notes = small_file_steps(evidence, facts, files, lines)
    if lines and not any(map(_is_epochs, small)):
        assert evidence.replay is not None
        content = encode_epochs(epochs_of(evidence.replay, facts, lines))
        name = LEADER_EPOCH_CHECKPOINT
        small.append(Put.of(name, content, replaces=name in files))
        numbers = ", ".join(str(entry.epoch) for entry in lines)
        small_notes.append(
            f"{name} gets the lines of epochs without a batch from replicas: {numbers}"
        )
    new = {log.draft.own.base_offset for log in healed if log.draft.old_size is None}
    producers, producer_notes = producer_steps(evidence, facts, files, every=False, wanted=new)
    indexes, index_notes = _indexes(evidence, healed, files, settings)
    epochs = [step for step in small if _is_epochs(step)]
    others = [step for step in small if not _is_epochs(step)]
    logs = (_log_step(log, files) for log in healed)
    steps = [*epochs, *logs, *producers, *others, *indexes]
    return steps, [*small_notes, *producer_notes, *index_notes]


def _lines_of_copies(
    evidence: Evidence, facts: PartitionFacts, copies: Sequence[PartitionCopy]
) -> tuple[EpochEntry, ...]:
    """Return the lines of copies for epochs that neither the log nor its checkpoint has.

    They begin within the log: a broker drops those before its start, and from its end on.
    """
    replayed = evidence.replay
    if replayed is None:
        return ()
    found = epochs_of_copies(copies, runs_of(replayed))
    own = known_epochs(facts)
    start = max([facts.start_offset, *(entry.start_offset for entry in own[:1])])
    merged = epochs_of(replayed, facts, found)
    had = {entry.epoch for entry in (*own, *replayed.epochs)}
    return tuple(entry for entry in merged if entry.epoch not in had and entry.start_offset > start)


def _is_epochs(step: Step) -> bool:
    return isinstance(step, Put) and step.name == LEADER_EPOCH_CHECKPOINT


def _log_step(log: HealedLog, files: Mapping[str, Stamp]) -> Put:
    name, size = log.draft.segment.log.name, log.draft.size
    before = files.get(name)
    if before is None:
        return Put(name, size, log.sha256, False, log.recipe)
    # Retention uses the modification time of logs whose records have no timestamp. A log of the
    # same size gets another time, which shows whether it is in place.
    later_ns = _SECOND_NS if before.size == size else 0
    mtime_ns = before.mtime_ns + later_ns
    return Put(name, size, log.sha256, True, log.recipe, mtime_ns=mtime_ns)


def _indexes(
    evidence: Evidence,
    healed: Sequence[HealedLog],
    files: Mapping[str, Stamp],
    settings: TopicSettings,
) -> tuple[list[Step], list[str]]:
    """Return the steps for indexes that are wrong, or lack the entries of a longer log."""
    longer = {log.draft.segment.log.name for log in healed if log.draft.size != log.draft.old_size}
    steps, notes = index_steps(evidence, files, settings, every=False, logs=longer)
    return list(_by_segment(steps)), notes


def _by_segment(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield the steps with the .index of each segment last: until then a start rebuilds all."""
    puts = [step for step in steps if isinstance(step, Put)]
    yield from (put for put in puts if not put.name.endswith(".index"))
    yield from (put for put in puts if put.name.endswith(".index"))
