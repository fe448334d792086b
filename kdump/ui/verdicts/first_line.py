"""What the first line of a report says of what was read, and the command that reads the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kdump.audit.commands import Remedy
from kdump.audit.finding_code import Severity
from kdump.audit.verdicts.state import RunState
from kdump.format.lines.shell import operand
from kdump.storage.paths import AnyPath
from kdump.ui.units import count_text, size_text
from kdump.ui.verdicts.summary import Summary

#: The number of paths that a command names.
_NAMED: Final = 8
#: What is read without the contents of logs.
ENDS: Final = "names, small files, ends of logs and indexes"


def check_command(arguments: Sequence[str], paths: Sequence[AnyPath]) -> Remedy:
    """Return the command that checks ``paths``, with ``arguments`` after its name."""
    named = [operand(path) for path in paths] if len(paths) <= _NAMED else ["PATH..."]
    return "kdump", *arguments, *named


def verify_about(summary: Summary, *, manifests: bool = False) -> str:
    """Return what ``verify`` or ``scrub`` has read, and how it was found.

    ``manifests``: some of what was checked is in manifests.
    """
    run, covered = summary.run, summary.covered
    what = count_text(run.total, "partition")
    if run.cut_short:
        what = (
            f"interrupted: {covered.partitions:,} of {count_text(run.total, 'partition')} checked"
        )
    match summary.state:
        case RunState.NOT_CHECKED if not summary.holds_bytes:
            return empty_text(run.total)
        case RunState.NOT_CHECKED:
            what += counts_text(summary.partitions)
            return f"{what}: {nothing_text(summary.verdict)} in what was read{_rest_text(summary)}"
        case RunState.OK:
            if run.depth == "scrub":
                return f"{what}: every checksum matches, in this scrub or an earlier one"
            matches = "matched when the manifest was made" if manifests else "matches"
            read = ", and every record can be read" if run.depth == "deep" else ""
            records = count_text(covered.records, "record")
            earlier = covered.remembered.segments
            if run.left_out is not None:
                earlier += run.left_out.segments
            rest = f"; {count_text(earlier, 'segment')} read by an earlier run" if earlier else ""
            return f"{what}, {records}: every checksum {matches}{read}{rest}"
    fine = summary.partitions[None]
    if fine and run.total > 1 and run.depth in ("default", "deep") and not run.cut_short:
        unread = summary.partitions[Severity.INCOMPLETE]
        rest = f", {unread:,} not fully checked" if unread else ""
        of_all = f"{fine:,} of {count_text(run.total, 'partition')}"
        return f"{of_all} {'is' if fine == 1 else 'are'} OK{rest}"
    return what + counts_text(summary.partitions) if run.total > 1 or run.cut_short else ""


def verify_check(
    summary: Summary, options: Sequence[str], paths: Sequence[AnyPath]
) -> Remedy | None:
    """Return the command that checks what ``verify`` or ``scrub`` has not read, or None.

    ``options`` of the run are options of that command too.
    """
    if not summary.holds_bytes:
        return None
    if summary.run.depth == "quick":
        return check_command(["verify", *options], paths)
    if summary.run.depth == "scrub":
        return check_command(["scrub", *options], paths)
    return check_command(["next-start", "--scan", *options], paths)


def counts_text(counts: Mapping[Severity | None, int]) -> str:
    """Return in how many partitions there are findings, by the severity of the worst."""
    words = {
        Severity.ERROR: "errors in",
        Severity.INCOMPLETE: "not fully checked:",
        Severity.WARNING: "warnings in",
    }
    return "".join(
        f", {text} {counts[severity]:,}" for severity, text in words.items() if counts.get(severity)
    )


def empty_text(partitions: int) -> str:
    """Return that the logs of this many partitions have no byte that could be checked."""
    if not partitions:
        return "no partition: only the files at the top of the log directory were checked"
    whose = "its" if partitions == 1 else "their"
    return f"{count_text(partitions, 'partition')}: {whose} logs hold no byte"


def nothing_text(worst: Severity | None) -> str:
    """Return that nothing was found beyond ``worst``."""
    return "nothing wrong" if worst is None else "nothing worse"


def _rest_text(summary: Summary) -> str:
    """Return what was read, or what was left out."""
    run = summary.run
    if run.depth == "quick":
        return f" ({ENDS})"
    if run.due.segments:
        segments = count_text(run.due.segments, "segment")
        return f"; {segments}, {size_text(run.due.log_bytes)}, are due"
    return ""
