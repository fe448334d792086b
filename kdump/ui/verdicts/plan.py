"""The numbered plan at the end of a report on a log directory.

A command is on one line, so that it can be pasted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from kdump.audit.checks.indexes import INDEX_MISSING, INDEX_REBUILT
from kdump.audit.checks.topic import PARTITION_STRAY_CUT, PARTITION_STRAY_ONLY
from kdump.audit.commands import (
    COPY,
    Remedy,
    compare_command,
    copy_text,
    heal_command,
    place_of,
    reindex_command,
    repair_command,
    salvage_command,
    truncate_command,
)
from kdump.audit.facts.cluster import Copies
from kdump.audit.finding_code import Cure, FindingCode, Harm, Severity
from kdump.audit.findings import Finding, explain_command
from kdump.audit.survey.recovery import Span
from kdump.audit.targets.target import Root
from kdump.audit.verdicts.cures import (
    CureKind,
    cures_of,
    file_text,
    may_heal,
    pending_remedy,
    unnamed_advice,
    why_left,
)
from kdump.audit.verdicts.verdict import Verdict
from kdump.format.lines.shell import operand
from kdump.format.lines.text import printable
from kdump.storage.logdir import LogDirectory, directory_name
from kdump.storage.manifests.path import ManifestPath
from kdump.storage.paths import AnyPath
from kdump.ui.paragraphs import command_line, paragraph
from kdump.ui.units import count_text
from kdump.ui.verdicts.forecast_text import bound_text, harm_text
from kdump.ui.verdicts.partition import nodes_text
from kdump.ui.verdicts.summary import rank_verdicts
from kdump.values import frozen

#: The number of partitions that a step names.
_NAMED = 3
#: Commands that change nothing.
_SHOWS = ("explain", "verify")


@frozen
class Step:
    """A step of a plan. A ``fact`` is no step to take, and has no number.

    ``partitions`` is the number of partitions that it is about, 0 for the log directory.
    """

    text: str
    commands: Sequence[Remedy] = ()
    partitions: int = 0
    fact: bool = False


def findings_of_roots(
    roots: Sequence[Root], findings: Iterable[Finding]
) -> list[Sequence[Finding]]:
    """Return those of ``findings`` that are at the top of the log directory of each root.

    Of roots in the same log directory, the first one has them.
    """
    rest, found = list(findings), list[Sequence[Finding]]()
    for root in roots:
        path = None if root.directory is None else root.directory.directory.path
        own = [] if path is None else [finding for finding in rest if finding.is_below(path)]
        rest = [finding for finding in rest if path is None or not finding.is_below(path)]
        found.append(own)
    return found


def directory_plans(
    roots: Sequence[Root],
    counts: Sequence[int],
    tops: Sequence[Sequence[Finding]],
    verdicts: Sequence[Verdict],
) -> Iterator[tuple[Root, Sequence[Step]]]:
    """Yield the plan of each log directory that needs one.

    ``counts`` has the number of partitions for each of ``roots``, and ``tops`` the findings at the
    top of its log directory. ``verdicts`` are in that order; the last ones may be missing.
    """
    # Of a million verdicts, few are held.
    concerned = [each for each in enumerate(verdicts) if _is_concerned(each[1])]
    beside = _beside(verdicts, {_replica_of(verdict) for _, verdict in concerned} - {None})
    start = 0
    for root, size, top in zip(roots, counts, tops, strict=True):
        if isinstance(root.content, LogDirectory):
            places = range(start, start + size)
            own = (verdict for number, verdict in concerned if number in places)
            steps = _steps(root, top, rank_verdicts(own), beside)
            if steps:
                yield root, steps
        start += size


def _is_concerned(verdict: Verdict) -> bool:
    """Return whether a plan may have a step for a partition."""
    above_info = any(finding.code.severity is not Severity.INFO for finding in verdict.findings)
    return above_info or _harm(verdict)


def _replica_of(verdict: Verdict) -> tuple[str, int] | None:
    """Return topic and partition of a directory with a current log, None for another path."""
    name = directory_name(verdict.target.path)
    return None if name is None or name.suffix else (name.topic, name.partition)


def _beside(
    verdicts: Iterable[Verdict], replicas: Collection[tuple[str, int] | None]
) -> dict[AnyPath, list[AnyPath]]:
    """Return the other copies of ``replicas`` that are at hand, by the path of a partition."""
    paths: dict[tuple[str, int] | None, list[AnyPath]] = {}
    for verdict in verdicts if replicas else ():
        replica = _replica_of(verdict)
        if replica in replicas:
            paths.setdefault(replica, []).append(verdict.target.path)
    return {
        path: others
        for same in paths.values()
        for path in same
        if (
            others := [
                other for other in same if other != path and not isinstance(other, ManifestPath)
            ]
        )
    }


def _steps(
    root: Root,
    top: Sequence[Finding],
    verdicts: Sequence[Verdict],
    beside: Mapping[AnyPath, Sequence[AnyPath]],
) -> Sequence[Step]:
    """Return the steps for a log directory, none if there is nothing to do.

    ``top`` are findings at the top of the directory. ``verdicts`` are sorted, the worst first.
    ``beside`` has the other copies of partitions that are at hand, by the path of the partition.
    """
    steps = [*_top_steps(top), *_partition_steps(root, verdicts, beside)]
    if not steps:
        return ()
    if isinstance(root.path, ManifestPath):
        steps.insert(0, Step("run these steps on the host of the manifest: it names its paths"))
    before = copy_text(root.path)
    if before is not None:
        steps.insert(0, Step(before))
    if not root.stopped:
        steps.insert(
            0, Step("stop this broker before any repair: repairs refuse to run while it runs")
        )
    check = "kdump", "verify", operand(place_of(root.path))
    return *steps, Step(_last_text(top, verdicts), [check])


def plan_lines(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the lines of a plan for people, nothing for one without steps."""
    number = count(1)
    for step in steps:
        text = step.text if step.fact else f"{next(number)} {step.text}"
        yield paragraph("plan" if step is steps[0] else "", text)
        for command in step.commands:
            yield command_line(command)


def _last_text(top: Sequence[Finding], verdicts: Iterable[Verdict]) -> str:
    """Return the last step: the broker starts only where nothing that stops it may be left."""
    if any(finding.code.harm is Harm.STRAYS for finding in top):
        return "check again, start no broker before the metadata log is back:"
    stops = any(finding.code.stops is not None for finding in top)
    forecasts = (verdict.forecast for verdict in verdicts)
    if stops or any(forecast is not None and forecast.causes for forecast in forecasts):
        named = "while the report names a cause"
        return f"check again; no broker starts with this log directory {named}:"
    return "check again; start the broker unless it says DO NOT START:"


def _top_steps(top: Sequence[Finding]) -> Iterator[Step]:
    alike: dict[tuple[str, Remedy | None], list[Finding]] = {}
    for finding in top:
        if finding.code.severity is Severity.ERROR:
            alike.setdefault((why_left(finding), finding.remedy), []).append(finding)
    for (why, remedy), findings in alike.items():
        names = _paths_text([*dict.fromkeys(finding.path for finding in findings)])
        yield Step(f"{names}: {why}:", () if remedy is None else (remedy,))


def _partition_steps(
    root: Root, verdicts: Sequence[Verdict], beside: Mapping[AnyPath, Sequence[AnyPath]]
) -> Iterator[Step]:
    strays, others = _strays(verdicts)
    yield from _replica_steps(root, others, beside)
    yield from _field_step(root, others)
    to_reindex, unknown = list[Verdict](), list[Verdict]()
    kinds = {verdict.target.path: _lossless(verdict) for verdict in others}
    cured = [verdict for verdict in others if kinds[verdict.target.path]]
    together = cured if len(cured) > _NAMED else []
    torn = [verdict for verdict in together if CureKind.TAIL in kinds[verdict.target.path]]
    rebuilt = [verdict for verdict in together if CureKind.TAIL not in kinds[verdict.target.path]]
    yield from _one_plan(root, torn, rebuilt)
    corrupt = [
        verdict
        for verdict in others
        if CureKind.DROP in cures_of(verdict).cures and not _has_copy(verdict, beside)
    ]
    dropped = corrupt if len(corrupt) > _NAMED else []
    yield from _drop_step(root, dropped)
    mended = (verdict for verdict in others if _is_mended(verdict))
    done = {verdict.target.path for verdict in (*torn, *dropped, *mended)}
    planned = {verdict.target.path for verdict in together}
    for verdict in others:
        if verdict.target.path in done:  # a check shows which other errors stay
            continue
        remedies = _remedies(verdict)
        harm = _harm(verdict)
        copy = may_heal(verdict, verdict.forecast) and _has_copy(verdict, beside)
        yield from _repair_steps(verdict, remedies, harm=harm, copy=copy)
        rebuild = reindex_command(verdict.target.path)
        alone = verdict.target.path not in planned
        if alone and rebuild in remedies and not _replaces_all(verdict, remedies):
            (unknown if _is_of_unknown_topic(verdict) else to_reindex).append(verdict)
        if not harm and not _goes_first(verdict, remedies):
            yield from _explain_steps(verdict)
    for verdict in unknown:
        name = _names_text([verdict])
        yield Step(
            f"{name}: if the topic was deleted and created again, put the directory of the new "
            "topic in its place. Only if partition.metadata alone was copied here or changed, "
            "write the topic id that the metadata log has:",
            [reindex_command(verdict.target.path)],
            partitions=1,
        )
    if strays:
        yield Step(
            f"{_names_text(strays)}: a startup on the truncated metadata log renames them to "
            "-stray. Their own files need no repair",
            partitions=len(strays),
        )
    if to_reindex:
        path = root.path if to_reindex[1:] else to_reindex[0].target.path
        names = _names_text(to_reindex)
        waits = all(map(_startup_rebuilds, to_reindex))
        when = "can wait: " if waits else ""
        yield Step(
            f"{when}rebuild indexes or small files of {names}:",
            [reindex_command(path)],
            partitions=len(to_reindex),
        )


def _lossless(verdict: Verdict) -> set[CureKind]:
    """Return those cures of a partition that one plan for many partitions names together."""
    return {CureKind.REBUILD, CureKind.TAIL}.intersection(cures_of(verdict).cures)


def _field_step(root: Root, verdicts: Sequence[Verdict]) -> Iterator[Step]:
    """Yield the step for partitions with fields that may be set without a loss."""
    wrong = [verdict for verdict in verdicts if CureKind.FIELD in cures_of(verdict).cures]
    if wrong:
        yield Step(
            f"{_names_text(wrong)}: set the fields that no checksum covers, where the log leaves "
            "them one value. No record is lost:",
            [repair_command(root.path, "--only", CureKind.FIELD.value)],
            partitions=len(wrong),
        )


def _is_mended(verdict: Verdict) -> bool:
    """Return whether wrong sizes and magics are all that is corrupt in the logs of a partition."""
    gaps = [gap for survey in verdict.surveys for gap in survey.gaps]
    errors = (each.code for each in verdict.findings if each.code.severity is Severity.ERROR)
    return (
        bool(gaps)
        and all(gap.mended is not None for gap in gaps)
        and all(code.cure is Cure.CUT for code in errors)
    )


def _one_plan(root: Root, torn: Sequence[Verdict], rebuilt: Sequence[Verdict]) -> Iterator[Step]:
    """Yield the step for many partitions with lossless cures: one command repairs them all."""
    parts, kinds = list[str](), list[CureKind]()
    if torn:
        parts.append(f"{_names_text(torn)}: remove their unreadable ends, and no valid record")
        kinds.append(CureKind.TAIL)
    if rebuilt:
        waits = not torn and all(map(_startup_rebuilds, rebuilt))
        when = "can wait: " if waits else ""
        parts.append(f"{when}rebuild indexes or small files of {_names_text(rebuilt)}")
        kinds.append(CureKind.REBUILD)
    only = ("--only", kinds[0].value) if len(kinds) == 1 else ()
    if kinds:
        yield Step(
            f"{'; '.join(parts)}, as one plan:",
            [repair_command(root.path, *only)],
            partitions=len(torn) + len(rebuilt),
        )


def _drop_step(root: Root, corrupt: Sequence[Verdict]) -> Iterator[Step]:
    """Yield the step for many partitions whose corrupt batches valid ones follow."""
    if corrupt:
        records = sum((verdict.lost.corrupt for verdict in corrupt), Span())
        yield Step(
            f"{_names_text(corrupt)}: if no other replica has their records, drop their corrupt "
            f"batches, {bound_text(records, 'record')}, and keep the valid ones, as one plan:",
            [repair_command(root.path, "--only-copy", "--only", CureKind.DROP.value)],
            partitions=len(corrupt),
        )


def _is_of_unknown_topic(verdict: Verdict) -> bool:
    """Return whether the records may be of another topic than the one with the name."""
    return any(finding.code is PARTITION_STRAY_ONLY for finding in verdict.findings)


def _strays(verdicts: Sequence[Verdict]) -> tuple[list[Verdict], list[Verdict]]:
    """Return the partitions whose only error is their missing metadata record, and the others."""
    strays, others = list[Verdict](), list[Verdict]()
    for verdict in verdicts:
        errors = {
            finding.code for finding in verdict.findings if finding.code.severity is Severity.ERROR
        }
        forecast = verdict.forecast
        harmed = forecast is not None and (
            forecast.causes or forecast.deleted or forecast.lost.sound
        )
        alone = errors == {PARTITION_STRAY_CUT} and not harmed
        (strays if alone else others).append(verdict)
    return strays, others


def _remedies(verdict: Verdict) -> list[Remedy]:
    findings = [
        finding for finding in verdict.findings if finding.code.severity is not Severity.INFO
    ]
    findings.sort(key=lambda finding: finding.code.severity is not Severity.ERROR)
    remedies = (finding.remedy for finding in findings)
    return list(dict.fromkeys(remedy for remedy in remedies if remedy is not None))


def _repair_steps(
    verdict: Verdict, remedies: Sequence[Remedy], *, harm: bool, copy: bool | None
) -> Iterator[Step]:
    """Yield the steps for one partition but the rebuild of its indexes and small files.

    ``copy``: whether there is another copy, which brings its records back; None if that is unknown.
    """
    path, name = verdict.target.path, _names_text([verdict])
    pending = pending_remedy(verdict.findings)
    if pending is not None:
        yield Step(f"{name}: finish the repair that was interrupted:", [pending], partitions=1)
        return
    if salvage_command(path) in remedies:
        records = verdict.lost.corrupt
        but = f", without {bound_text(records, 'corrupt record')}" if records else ""
        only = "if no other replica has its records, " if copy else ""
        yield Step(
            f"{name}: {only}copy its valid batches to DIR/{name}{but}; follow the steps it prints:",
            [salvage_command(path)],
            partitions=1,
        )
        return
    if truncate_command(path) in remedies:
        yield Step(
            f"{name}: truncate the unreadable end, which removes no valid record:",
            [truncate_command(path)],
            partitions=1,
        )
    usual = (reindex_command(path), truncate_command(path))
    others = [remedy for remedy in remedies if remedy not in usual]
    repairs = [remedy for remedy in others if remedy[0] != "kdump" or remedy[1] not in _SHOWS]
    for command in repairs:
        yield Step(f"{name}:", [command], partitions=1)
    cured = repairs or truncate_command(path) in remedies or _rebuilt(verdict)
    if not harm or cured:
        return
    steps = [] if verdict.lost.records else [*_explain_steps(verdict), *_cause_steps(verdict)]
    if steps and verdict.forecast is not None and verdict.forecast.causes:
        yield from steps
    else:
        what = "log directory" if verdict.is_metadata_log else "directory"
        without = "" if copy is False else "without another replica "
        yield Step(
            f"{name}: {without}no command repairs it: copy the {what} before a broker starts on it",
            [remedy for remedy in others if remedy[1:2] == ("explain",)][:1],
            partitions=1,
        )


def _cause_steps(verdict: Verdict) -> Iterator[Step]:
    """Yield the step for a startup that fails for a reason that is no finding."""
    advice = unnamed_advice(verdict)
    if advice is not None:
        yield Step(f"{_names_text([verdict])}: {advice}", partitions=1)


def _goes_first(verdict: Verdict, remedies: Sequence[Remedy]) -> bool:
    """Return whether other errors wait for a repair: after it, a check shows which of them stay."""
    cuts = truncate_command(verdict.target.path) in remedies
    return cuts or _replaces_all(verdict, remedies)


def _replaces_all(verdict: Verdict, remedies: Sequence[Remedy]) -> bool:
    """Return whether a repair is to be finished, or a copy takes the place of the partition."""
    copies = salvage_command(verdict.target.path) in remedies
    return copies or pending_remedy(verdict.findings) is not None


def _explain_steps(verdict: Verdict) -> Iterator[Step]:
    """Yield a step for each kind of error that no command repairs, with the first advice."""
    unrepaired: dict[FindingCode, list[Finding]] = {}
    for finding in verdict.findings:
        explained = finding.remedy == explain_command(finding.code)
        if explained and finding.code.severity is Severity.ERROR:
            unrepaired.setdefault(finding.code, []).append(finding)
    for findings in unrepaired.values():
        why = why_left(findings[0], file_text(verdict.target.path, findings))
        commands = [] if findings[0].remedy is None else [findings[0].remedy]
        yield Step(f"{_names_text([verdict])}: {why}:", commands, partitions=1)


def _harm(verdict: Verdict) -> bool:
    """Return whether records are lost, or the next start loses some or does lasting harm."""
    forecast = verdict.forecast
    if verdict.lost.records:
        return True
    if forecast is None:
        return False
    if _rebuilt(verdict) and not forecast.removes_records:
        return False
    return harm_text(replace(forecast, harms=forecast.harms - {Harm.UNSERVED})) is not None


def _rebuilt(verdict: Verdict) -> bool:
    """Return whether ``reindex`` rebuilds all files that have errors, and no record is lost now."""
    remedies = {
        finding.remedy for finding in verdict.findings if finding.code.severity is Severity.ERROR
    }
    return remedies == {reindex_command(verdict.target.path)} and not verdict.lost.records


def _has_copy(verdict: Verdict, beside: Mapping[AnyPath, Sequence[AnyPath]]) -> bool | None:
    """Return whether there is another copy of a partition; None if that is unknown."""
    if verdict.target.path in beside:
        return True
    return None if verdict.copies is None else bool(verdict.copies.nodes)


def _replica_steps(
    root: Root, verdicts: Sequence[Verdict], beside: Mapping[AnyPath, Sequence[AnyPath]]
) -> Iterator[Step]:
    """Yield the steps that name the replicas to start first, and to take lost records from."""
    by_copies: dict[Copies | None, list[Verdict]] = {}
    for verdict in verdicts:
        if pending_remedy(verdict.findings) is None and _harm(verdict):
            by_copies.setdefault(verdict.copies, []).append(verdict)
    for copies, same_copies in by_copies.items():
        replicas = [verdict for verdict in same_copies if not verdict.is_metadata_log]
        if replicas:
            known = [
                verdict.target.path for verdict in replicas if _has_copy(verdict, beside) is True
            ]
            healed = [
                verdict.target.path
                for verdict in replicas
                if verdict.target.path in known and may_heal(verdict, verdict.forecast)
            ]
            text = _copies_text(copies, _names_text(replicas))
            in_sync = copies is not None and copies.in_sync
            compared = () if in_sync else known
            yield Step(
                f"{text}{_brought(compared, beside)}" if compared else text,
                [compare_command(path, beside.get(path, [COPY])) for path in compared],
                partitions=len(replicas),
                fact=copies is not None and not copies.nodes and not compared,
            )
            if len(healed) > _NAMED:
                at_hand = {copy.parent: None for path in healed for copy in beside.get(path, ())}
                given = [operand(copy) for copy in at_hand] or ["REPLICA"]
                where = ":" if at_hand else " (REPLICA is the log directory of another node):"
                yield Step(
                    f"restore the lost records of {_paths_text(healed)} from replicas, before a "
                    f"broker starts on them, as one plan{where}",
                    [repair_command(root.path, *(w for each in given for w in ("--from", each)))],
                    partitions=len(healed),
                )
            elif healed:
                yield Step(
                    "restore the lost records from a replica, before a broker starts on it"
                    f"{_brought(healed, beside)}",
                    [heal_command(path, beside.get(path, [COPY])) for path in healed],
                    partitions=len(healed),
                )
            if in_sync and any(CureKind.REFETCH in cures_of(each).cures for each in replicas):
                only = ("--refetch", "--only", CureKind.REFETCH.value)
                yield Step(
                    f"or move {_names_text(replicas)} aside, so that this broker fetches all of it "
                    "from the leader (CONTROLLER is the log directory of a controller):",
                    [repair_command(root.path, *only, "--metadata", "CONTROLLER")],
                    partitions=len(replicas),
                )
        if len(replicas) < len(same_copies):
            yield Step(
                "if another controller of the quorum is in sync, start that controller first",
                partitions=1,
            )


def _brought(paths: Sequence[AnyPath], beside: Mapping[AnyPath, Sequence[AnyPath]]) -> str:
    """Return the end of a text that commands follow: where their copies are."""
    at_hand = all(path in beside for path in paths)
    return ":" if at_hand else " (COPY is its directory on another node, copied here):"


def _copies_text(copies: Copies | None, names: str) -> str:
    if copies is None:
        return f"if another replica of {names} is in sync, start its broker first"
    if not copies.nodes:
        return f"by the metadata log, no other node has a replica of {names}"
    if not copies.in_sync:
        nodes = nodes_text(copies.nodes)
        return f"{names}: {nodes} held a replica, not in sync by the metadata log: compare first"
    return (
        f"start {nodes_text(copies.in_sync)} first: in sync for {names}, by the metadata log. "
        "Repair here only if records are missing there"
    )


def _startup_rebuilds(verdict: Verdict) -> bool:
    """Return whether a startup rebuilds all that ``reindex`` does, at the cost of a recovery."""
    rebuild = reindex_command(verdict.target.path)
    found = {finding.code for finding in verdict.findings if finding.remedy == rebuild}
    return found <= {INDEX_MISSING, INDEX_REBUILT}


def _names_text(verdicts: Sequence[Verdict]) -> str:
    return _paths_text([verdict.target.path for verdict in verdicts])


def _paths_text(paths: Sequence[AnyPath]) -> str:
    names = ", ".join(printable(path.name or str(path)) for path in paths[:_NAMED])
    others = len(paths) - _NAMED
    return f"{names} and {count_text(others, 'other')}" if others > 0 else names
