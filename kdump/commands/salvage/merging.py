"""The log of a partition put together from several copies.

It is the log of the copy that an unclean election prefers, with what other copies of its lineage
have sound.

Spec: KIP-966; ``LeaderEpochFileCache`` (KIP-101).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace

from kdump.audit.run.verify import verify
from kdump.audit.survey.survey import effective_compaction
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.verdict import Verdict
from kdump.commands.salvage.stretches import open_log
from kdump.errors import Refused, SourceError
from kdump.format.batch import RecordBatch
from kdump.repair.healing.alignment import BatchRun
from kdump.repair.healing.copies import open_copies, rights_of
from kdump.repair.healing.draft import Draft
from kdump.repair.healing.healing import Healer
from kdump.repair.healing.lineage import lineage_of
from kdump.repair.healing.own_log import own_segment
from kdump.storage.logdir import Segment
from kdump.storage.paths import AnyPath
from kdump.storage.rights import acting
from kdump.storage.source import Source
from kdump.values import frozen


@frozen
class MergedLog:
    """The log of ``target``, the preferred copy, whose segments are those of ``drafts``.

    ``copies`` are the paths of all copies, the preferred one first. ``errors`` has a sentence for
    each log of any of them that could not be read. ``is_confirmed`` says whether one of the
    other copies has a batch that a search in the preferred one has found, without a search.
    """

    target: Target
    copies: tuple[AnyPath, ...]
    drafts: tuple[Draft, ...]
    notes: tuple[str, ...]
    errors: tuple[str, ...]
    is_confirmed: Callable[[RecordBatch], bool]

    def open(self, segment: Segment) -> Source:
        """Open the log of a segment, put together. Raises SourceError."""
        drafts = (draft for draft in self.drafts if draft.segment == segment)
        draft = next(drafts, None)
        return open_log(segment) if draft is None else draft.open()

    @property
    def runs(self) -> tuple[tuple[Draft, BatchRun], ...]:
        """The batches of other copies, with the log that they are in."""
        return tuple((draft, run) for draft in self.drafts for run in draft.runs)


def merge_copies(
    targets: Sequence[Target],
    context: Context,
    *,
    report: Callable[[int], None] = lambda _: None,
) -> MergedLog:
    """Put the log of a partition together from its copies, ``targets``.

    Each copy is read with the rights of its owner. ``report`` is called with counts of bytes that
    were read. Raises Refused, SourceError.
    """
    verdicts: list[Verdict] = []
    for target in targets:
        with acting(rights_of(target.path)):
            found = verify([target], deep=False, jobs=1, context=context, on_progress=report)
            with closing(found):
                verdicts += found
    number = max(range(len(verdicts)), key=lambda each: _preference(verdicts[each]))
    verdict = verdicts[number]
    facts = verdict.facts
    if facts is None or facts.partition.name is None or not verdict.surveys:
        raise Refused(
            f"{verdict.target.path}: expected a partition directory with a log, found none"
        )
    others = [target.path for at, target in enumerate(targets) if at != number]
    copies, notes = open_copies(others, verdict.target, facts)
    compacted = effective_compaction(verdict.surveys, facts.settings.compacted)
    healer = Healer(
        facts.partition,
        copies,
        lineage_of(verdict, facts),
        dense=compacted is False,
        over_gaps=True,
    )
    unread = [
        failure
        for each in verdicts
        for survey in each.surveys
        for failure in survey.unread
        if failure.path == survey.segment.log
    ]
    complete = [survey for survey in verdict.surveys if survey.complete]
    if not complete:
        raise SourceError(verdict.target.path, "; ".join(failure.text for failure in unread))
    with acting(rights_of(verdict.target.path)):
        healing = healer.heal([own_segment(survey) for survey in complete])
    errors = dict.fromkeys((*(failure.text for failure in unread), *healing.unread))
    segments = tuple(draft.segment for draft in healing.drafts)
    target = verdict.target
    assert target.partition is not None
    partition = replace(target.partition, segments=segments)
    target = replace(target, segments=segments, partition=partition)
    paths = (target.path, *others)
    all_notes = (*notes, *healing.notes)
    return MergedLog(target, paths, healing.drafts, all_notes, tuple(errors), healer.is_confirmed)


def _preference(verdict: Verdict) -> tuple[int, int]:
    """Return the last leader epoch and the end of a copy; an election prefers the greatest."""
    read = None if verdict.facts is None else verdict.facts.epochs
    end = max((survey.end_offset for survey in verdict.surveys), default=-1)
    if read is not None and read.value:
        # A broker that loads the log drops the entries from its end on.
        epochs = [entry.epoch for entry in read.value if entry.start_offset < end]
    else:
        epochs = [run.epoch for survey in verdict.surveys for run in survey.events.epochs()]
    return max(epochs, default=-1), end
