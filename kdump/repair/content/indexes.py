"""The offset and time indexes that a plan writes.

Spec: ``AbstractIndex``, ``LogLoader.loadSegmentFiles``; KOD 4 and 9, checks 9 to 14.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from kdump.audit.checks import indexes, segments
from kdump.audit.evidence import Evidence
from kdump.audit.facts.small_files import TopicSettings
from kdump.audit.findings import Finding
from kdump.audit.survey.rebuilt_indexes import RebuiltIndexes
from kdump.audit.survey.survey import Survey
from kdump.errors import SourceError, VanishedError
from kdump.repair.transaction.plan import Put, RebuiltIndex, Stamp, Step
from kdump.storage.access import open_source
from kdump.storage.paths import AnyPath, as_local

_INDEX, _TIMES = ".index", ".timeindex"


def index_steps(
    evidence: Evidence,
    files: Mapping[str, Stamp],
    settings: TopicSettings,
    *,
    every: bool,
    logs: Collection[str] = (),
) -> tuple[list[Step], list[str]]:
    """Return the steps for the indexes, and notes.

    The surveys have the indexes rebuilt by ``settings``. ``files`` are those in the directory.
    ``every``: also replace indexes that break no promise, but differ from the rebuilt ones, as
    those that lack entries do. So are the indexes of ``logs``, in any case.
    """
    wrong = {path.name for path in _wrong_indexes(evidence)}
    steps: list[Step] = []
    notes: list[str] = []
    for survey in evidence.surveys:
        if survey.rebuilt is None:
            continue
        log = survey.segment.log
        differing = every or log.name in logs
        puts = tuple(_puts(survey, survey.rebuilt, files, settings.index_interval_bytes))
        chosen = [put for put in puts if _differs(put, survey, wrong, every=differing)]
        if chosen and differing:
            # No broker leaves one index trimmed beside another that is preallocated.
            chosen = [put for put in puts if put in chosen or _has_room(put, survey)]
        if chosen and survey.rebuilt.full:
            notes.append(
                f"{log.name} needs more index entries than {settings.segment_index_bytes} bytes "
                f"hold, with an entry every {settings.index_interval_bytes} bytes of the log: its "
                "indexes stay as they are"
            )
        elif chosen:
            steps += chosen
            notes += _notes(survey, survey.rebuilt)
    return steps, notes


def _puts(
    survey: Survey, rebuilt: RebuiltIndexes, files: Mapping[str, Stamp], interval_bytes: int
) -> Iterator[Put]:
    """Yield the steps for both indexes, .index last: until it exists a start rebuilds both."""
    for extension, file in ((_TIMES, rebuilt.time_index), (_INDEX, rebuilt.index)):
        log = survey.segment.log
        name = log.with_suffix(extension).name
        recipe = RebuiltIndex(log.name, extension, interval_bytes)
        yield Put(name, file.size, file.sha256, name in files, recipe, file.content)


def _has_room(put: Put, survey: Survey) -> bool:
    """Return whether the file that ``put`` would replace has empty slots after its entries."""
    facts = survey.index if put.name.endswith(_INDEX) else survey.time_index
    return facts is not None and facts.room


def _differs(put: Put, survey: Survey, wrong: set[str], *, every: bool) -> bool:
    """Return whether the file that ``put`` would replace has to change."""
    path = survey.segment.log.with_name(put.name)
    unread = any(missed.path == path and not missed.vanished for missed in survey.unread)
    if not (every or unread or path.name in wrong):
        return False
    if not put.replaces:
        return True
    with_room = _has_room(put, survey) and path.name not in wrong
    try:
        same = _has_content(path, put, with_room=with_room)
    except VanishedError:
        raise
    except SourceError:
        return True
    return not same and (every or path.name in wrong)


def _has_content(path: AnyPath, put: Put, *, with_room: bool) -> bool:
    """Return whether the file at ``path`` has the content of ``put``.

    ``with_room``: zeros may follow.
    """
    with open_source(path, mapped=False) as source:
        if source.size < put.size or (source.size > put.size and not with_room):
            return False
        digest, position = sha256(), 0
        while position < source.size:
            piece = source.window(position)
            entries = max(min(len(piece), put.size - position), 0)
            digest.update(piece[:entries])
            if bytes(piece[entries:]).strip(b"\0"):
                return False
            position += len(piece)
    return digest.hexdigest() == put.sha256


def _wrong_indexes(evidence: Evidence) -> Iterator[Path]:
    """Yield the indexes that are missing, malformed, padded, or break a promise."""
    for finding in _findings(evidence):
        match finding.code:
            case indexes.INDEX_MISSING:
                yield as_local(finding.path).with_suffix(_INDEX)
            case indexes.TIMEINDEX_MISSING:
                yield as_local(finding.path).with_suffix(_TIMES)
            case indexes.TIMEINDEX_UNMATCHED:  # normal after cleaning; lookups are correct
                pass
            case _:
                yield as_local(finding.path)


def _findings(evidence: Evidence) -> Iterator[Finding]:
    """Yield the findings on indexes, also on those that the next start rebuilds."""
    # Without facts, the checks also report indexes that a start rebuilds.
    as_they_are = replace(evidence, facts=None)
    indexed = replace(as_they_are, surveys=tuple(map(_with_index, evidence.surveys)))
    if not evidence.is_metadata_log:  # every start rebuilds the indexes of a metadata log
        yield from indexes.check_missing_indexes(as_they_are)
        yield from indexes.check_missing_indexes(indexed)
    yield from indexes.check_indexes(indexed)
    yield from indexes.check_offset_entries(indexed)
    yield from indexes.check_time_entries(indexed)
    yield from indexes.check_last_timestamp(indexed)
    if any(next_base is None for _, next_base in evidence.neighbours):
        yield from segments.check_clean_stop(evidence)


def _with_index(survey: Survey) -> Survey:
    """Return the survey with an .index: if it exists, a start does not rebuild the time index."""
    segment = survey.segment
    index = segment.index or segment.log.with_suffix(_INDEX)
    return replace(survey, segment=replace(segment, index=index))


def _notes(survey: Survey, rebuilt: RebuiltIndexes) -> Iterator[str]:
    name = survey.segment.log.name
    inner_gaps = [gap for gap in survey.gaps if gap.offset_after is not None]
    if inner_gaps:
        yield (
            f"{name} is corrupt at position {inner_gaps[0].damage.position}: its indexes cover the "
            "batches before and after the corruption"
        )
    if rebuilt.doubtful:
        yield (
            f"{name} has batches between corrupt parts that may be part of a record's value: its "
            "indexes leave them out"
        )
    if rebuilt.disorder:
        yield (
            f"{name} has {rebuilt.disorder} batches that an index cannot point to, because their "
            "offsets do not rise or lie outside the segment's range: its indexes leave them out"
        )
