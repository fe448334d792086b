"""The numbered plan at the end of a report on a log directory.

A command stands on one line, to be pasted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kdump.audit import codes
from kdump.audit.codes import Severity
from kdump.audit.commands import Remedy, reindexing, salvaging, truncating
from kdump.audit.facts.cluster import Copies
from kdump.audit.findings import Finding
from kdump.audit.startup.forecast import Forecast
from kdump.audit.targets.target import Root
from kdump.audit.verdicts.verdict import Verdict
from kdump.cli.ui.paragraphs import LABEL, labelled
from kdump.cli.ui.units import count_text
from kdump.cli.views.forecast_text import bound_text, harm_text
from kdump.cli.views.verify.partition import pending_remedy
from kdump.format.lines.shell import operand, shell_text
from kdump.format.lines.text import printable

#: How many partitions a step names.
_NAMED = 3
#: Commands that show something, and change nothing.
_SHOWS = ("explain", "verify")


@dataclass(frozen=True, slots=True)
class _Step:
    text: str
    command: Remedy | None = None


def plan_lines(
    root: Root,
    top: Sequence[Finding],
    verdicts: Sequence[Verdict],
    forecasts: Mapping[Path, Forecast],
) -> Iterator[str]:
    """Yield the plan for a log directory, if there is anything to do: ``verdicts`` worst first.

    ``top`` are findings at the top of it.
    """
    steps = [*_top_steps(top), *_partition_steps(root, verdicts, forecasts)]
    if not steps:
        return
    if not root.stopped:
        steps.insert(
            0, _Step("stop this broker before any repair: repairs refuse to run beside it")
        )
    check = "kdump", "verify", operand(root.path)
    steps.append(_Step("check all again, then start the broker:", check))
    for number, step in enumerate(steps, 1):
        yield labelled("plan" if number == 1 else "", f"{number} {step.text}")
        if step.command is not None:
            yield f"{'':{LABEL}}  {shell_text(step.command)}"


def _top_steps(top: Sequence[Finding]) -> Iterator[_Step]:
    seen = set[Remedy]()
    for finding in top:
        if finding.code.severity is Severity.ERROR and finding.remedy not in seen:
            if finding.remedy is not None:
                seen.add(finding.remedy)
            yield _Step(f"{printable(finding.path.name)}: {finding.code.name}", finding.remedy)


def _partition_steps(
    root: Root, verdicts: Sequence[Verdict], forecasts: Mapping[Path, Forecast]
) -> Iterator[_Step]:
    strays, others = _strays(verdicts, forecasts)
    yield from _replica_steps(others, forecasts)
    reindexed = list[Verdict]()
    for one in others:
        remedies = _remedies(one)
        harm = _harm(one, forecasts.get(one.target.path))
        made = list(_repairs(one, remedies, harm=harm))
        yield from made
        if reindexing(one.target.path) in remedies and not made:
            reindexed.append(one)
    if strays:
        yield _Step(
            f"{_names(strays)}: a start on the cut metadata log renames them to -stray. Their own "
            "files need no repair"
        )
    if reindexed[1:]:
        yield _Step(f"rebuild indexes of {_names(reindexed)}:", reindexing(root.path))
    for one in reindexed if len(reindexed) == 1 else ():
        yield _Step(f"rebuild indexes of {_names([one])}:", reindexing(one.target.path))


def _strays(
    verdicts: Sequence[Verdict], forecasts: Mapping[Path, Forecast]
) -> tuple[list[Verdict], list[Verdict]]:
    """The partitions that have lost nothing but their place in the metadata log, and all others."""
    strays, others = list[Verdict](), list[Verdict]()
    for one in verdicts:
        errors = {each.code for each in one.findings if each.code.severity is Severity.ERROR}
        forecast = forecasts.get(one.target.path)
        harmed = forecast is not None and (
            forecast.causes or forecast.deleted or forecast.lost.sound
        )
        alone = errors == {codes.PARTITION_STRAY_CUT} and not harmed
        (strays if alone else others).append(one)
    return strays, others


def _remedies(verdict: Verdict) -> list[Remedy]:
    found = [one for one in verdict.findings if one.code.severity is not Severity.INFO]
    found.sort(key=lambda one: one.code.severity is not Severity.ERROR)
    return list(dict.fromkeys(one.remedy for one in found if one.remedy is not None))


def _repairs(verdict: Verdict, remedies: Sequence[Remedy], *, harm: bool) -> Iterator[_Step]:
    """What to do about one partition but to rebuild its indexes alone."""
    path, name = verdict.target.path, _names([verdict])
    pending = pending_remedy(verdict.findings)
    if pending is not None:
        yield _Step(f"{name}: finish the repair that was interrupted:", pending)
        return
    if salvaging(path) in remedies:
        records = verdict.lost.records
        loses = f", loses {bound_text(records, 'record')}" if records else ""
        yield _Step(
            f"{name}: copy the sound batches{loses}, then follow the last lines of the output:",
            salvaging(path),
        )
        return
    if truncating(path) in remedies:
        yield _Step(f"{name}: cut the unreadable end, loses no more:", truncating(path))
        if reindexing(path) in remedies:
            yield _Step(f"{name}: then rebuild its indexes:", reindexing(path))
    usual = (reindexing(path), truncating(path))
    others = [one for one in remedies if one not in usual]
    repairs = [one for one in others if one[0] != "kdump" or one[1] not in _SHOWS]
    if not repairs and truncating(path) not in remedies and _drops_log_start(verdict):
        yield _Step(
            f"{name}: remove its log start offset, which lies beyond the log end. The log then "
            "starts at its first segment:",
            reindexing(path),
        )
        return
    for command in repairs:
        yield _Step(f"{name}:", command)
    if harm and not repairs and truncating(path) not in remedies:
        what = "log directory" if verdict.is_metadata_log else "directory"
        yield _Step(
            f"{name}: no command repairs it: copy the {what} before a broker starts on it",
            next((one for one in others if one[1:2] == ("explain",)), None),
        )


def _drops_log_start(verdict: Verdict) -> bool:
    """Whether ``reindex`` removes a log start offset that lies beyond the log end.

    It does so only where the log end is certain: where nothing follows the last sound batch.
    """
    remedy = reindexing(verdict.target.path)
    return (
        any(
            finding.code is codes.LOG_START_BEYOND_END and finding.remedy == remedy
            for finding in verdict.findings
        )
        and bool(verdict.surveys)
        and not verdict.surveys[-1].gaps
    )


def _harm(verdict: Verdict, forecast: Forecast | None) -> bool:
    """Whether records are lost, or the next start does harm."""
    if verdict.lost.records:
        return True
    return forecast is not None and harm_text(forecast) is not None


def _replica_steps(
    verdicts: Sequence[Verdict], forecasts: Mapping[Path, Forecast]
) -> Iterator[_Step]:
    """Which other replicas to start first."""
    by_copies: dict[Copies | None, list[Verdict]] = {}
    for one in verdicts:
        if pending_remedy(one.findings) is None and _harm(one, forecasts.get(one.target.path)):
            by_copies.setdefault(one.copies, []).append(one)
    for copies, together in by_copies.items():
        replicas = [one for one in together if not one.is_metadata_log]
        if replicas:
            yield _Step(_copies_text(copies, _names(replicas)))
        if len(replicas) < len(together):
            yield _Step(
                "if another controller of the quorum is in sync, start that controller first"
            )


def _copies_text(copies: Copies | None, names: str) -> str:
    if copies is None:
        return f"if another replica of {names} is in sync, start that replica first"
    if not copies.nodes:
        return f"{names}: no other replica, by the metadata log: this is the only copy"
    if not copies.in_sync:
        nodes = _nodes(copies.nodes)
        return f"{names}: {nodes} held a replica, not in sync by the metadata log: compare first"
    return (
        f"start {_nodes(copies.in_sync)} first: in sync for {names}, by the metadata log. Repair "
        "here only what is missing there"
    )


def _nodes(nodes: Sequence[int]) -> str:
    return f"{'node' if len(nodes) == 1 else 'nodes'} {', '.join(map(str, nodes))}"


def _names(verdicts: Sequence[Verdict]) -> str:
    named = ", ".join(printable(one.target.path.name) for one in verdicts[:_NAMED])
    others = len(verdicts) - _NAMED
    return f"{named} and {count_text(others, 'other')}" if others > 0 else named
