"""The report of a salvage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import click

from kdump.audit.codes import TRANSACTION_END_LOST
from kdump.audit.replay.fates import Fate
from kdump.cli.ui import jsonl
from kdump.cli.ui.paragraphs import labelled
from kdump.cli.ui.units import count_text, size_text
from kdump.cli.views.repair.outputs import Report, complain, done_lines, proof_lines, receipt_line
from kdump.cli.views.repair.text import commanded
from kdump.format.lines.text import printable
from kdump.repair.salvage.lost_markers import TransactionEnd, consequence
from kdump.repair.salvage.offset_gaps import OffsetGap
from kdump.repair.salvage.receipt import Salvaged, Sums, encode
from kdump.repair.salvage.stretches import Left, Why
from kdump.storage.walk import Reason

#: How many holes, and pieces that were not taken, are printed for people.
_TOLD = 20
_WHYS: dict[Reason | Why, str] = {
    Reason.TORN_TAIL: "torn tail",
    Reason.PREALLOCATED: "preallocated zeros",
    Reason.BAD_CHECKSUM: "bad checksum",
    Reason.IMPOSSIBLE_SIZE: "impossible size",
    Why.HUNTED: "found by search (--hunted takes them)",
    Why.BACKWARDS: "offsets go backwards, or were already taken",
    Why.INVERTED: "last offset below the base offset",
    Why.OUT_OF_RANGE: "offsets that its segment cannot hold",
    Why.WRAPPER: "wrappers of an old format that cannot be read",
    Why.REFUSED: "a broker that replays producers stops there",
    Why.UNREAD: "could not be read",
}


def report(form: Literal["text", "json"], paths: Sequence[Path]) -> Report[Salvaged]:
    """The report of a run in that form; its first line, if it has one, is out."""
    return _Json(paths) if form == "json" else _Text()


class _Text:
    def receipt(self, output: Salvaged) -> None:
        for each in lines(output):
            click.echo(each)

    def failed(self, error: Exception) -> None:
        complain(error)

    def finish(self, exit_code: int) -> None:
        pass


class _Json:
    def __init__(self, paths: Sequence[Path]) -> None:
        self._done = 0
        click.echo(jsonl.line("header", jsonl.header("salvage", paths)))

    def receipt(self, output: Salvaged) -> None:
        self._done += 1
        back = [list(command) for command in output.way_back]
        click.echo(receipt_line(output, {**encode(output), "way_back": back}))

    def failed(self, error: Exception) -> None:
        complain(error)

    def finish(self, exit_code: int) -> None:
        click.echo(jsonl.line("summary", {"exit": exit_code, "partitions": self._done}))


def lines(salvaged: Salvaged) -> Iterator[str]:
    """Yield the receipt for people."""
    selection, taken = salvaged.selection, salvaged.taken
    # Room for batches to come is nothing that anybody would miss.
    left: dict[Reason | Why, Sums] = {
        why: sums for why, sums in salvaged.left.items() if why is not Reason.PREALLOCATED
    }
    yield from done_lines(salvaged, "salvage")
    offsets = ""
    if selection.stretches:
        first, last = selection.stretches[0].first_offset, selection.stretches[-1].last_offset
        offsets = f"; offsets {first}..{last}"
    yield labelled(
        "taken",
        f"{_sums_text(taken)}{offsets}; {len(salvaged.logs):,} of "
        f"{count_text(len(selection.segments), 'segment')}",
    )
    yield labelled(
        "result",
        f"log start offset {salvaged.logs[0].base_offset}, log end offset {salvaged.log_end}",
    )
    yield labelled("holes", _gaps_text(salvaged.offset_gaps))
    for gap in salvaged.offset_gaps[:_TOLD]:
        yield labelled("", _gap_text(salvaged, gap))
    yield from _more(len(salvaged.offset_gaps))
    if left:
        yield labelled("not taken", _left_text(left))
        pieces = [one for one in selection.left if one.size and one.why in left]
        for one in pieces[:_TOLD]:
            yield labelled("", _piece_text(salvaged, one))
        yield from _more(len(pieces))
    yield from _transaction_lines(salvaged)
    for error in selection.errors:
        yield labelled("UNREAD", printable(error))
    yield from proof_lines(salvaged, len(salvaged.logs), "SHA-256 of every file written")
    yield from _way_back_lines(salvaged)


def _way_back_lines(salvaged: Salvaged) -> Iterator[str]:
    commands = salvaged.way_back
    if commands:
        yield labelled("back", "if no other replica is in sync, with the broker stopped:")
        for command in commands:
            yield from commanded("", command)


def _transaction_lines(salvaged: Salvaged) -> Iterator[str]:
    ends = salvaged.ends
    if not ends:
        return
    yield labelled(
        "markers",
        f"{count_text(len(ends), 'transaction')} ended, or may have ended, where offsets are "
        f"missing; last stable offset {salvaged.last_stable_offset}",
    )
    for each in ends[:_TOLD]:
        yield labelled("", _end_text(each))
    yield from _more(len(ends))


def _end_text(each: TransactionEnd) -> str:
    end = each.end
    what = {
        Fate.COMMITTED: "was committed",
        Fate.ABORTED: f"was aborted at {end.ended}" if end.exact else "was aborted",
        Fate.UNDECIDED: "nothing shows whether it was committed",
    }[end.fate]
    lost = f"{TRANSACTION_END_LOST.name}: " if each.lost else ""
    marker = "; no new marker"
    if each.marker is not None:
        kind = "abort" if end.fate is Fate.ABORTED else "commit"
        marker = f"; new {kind} marker at {each.marker}"
    missing = f"{end.first}..{'' if end.last is None else end.last}"
    return (
        f"producer {end.producer} from offset {end.begin}, marker missing in {missing}: "
        f"{lost}{what}{marker}; {consequence(each)}"
    )


def _sums_text(sums: Sums) -> str:
    batches = count_text(sums.batches, "batch", "batches")
    return f"{count_text(sums.records, 'record')} in {batches}, {size_text(sums.size)}"


def _gaps_text(offset_gaps: Sequence[OffsetGap]) -> str:
    if not offset_gaps:
        return "none"
    known = sum(gap.count or 0 for gap in offset_gaps)
    unbounded = any(gap.count is None for gap in offset_gaps)
    most = f"{count_text(known, 'offset')} at most" if known or not unbounded else ""
    behind = "and what followed the end" if unbounded else ""
    return f"{len(offset_gaps):,}: {' '.join(part for part in (most, behind) if part)}"


def _gap_text(salvaged: Salvaged, gap: OffsetGap) -> str:
    last = "" if gap.last is None else gap.last
    text = f"{gap.first}..{last}"
    if gap.left is None:
        return f"{text}: no batch is there"
    log = salvaged.selection.segments[gap.left.log].log.name
    marker = " (was a transaction marker)" if gap.left.marker else ""
    more = f" and {gap.pieces - 1:,} more" if gap.pieces > 1 else ""
    return (
        f"{text}: {_WHYS[gap.left.why]}{marker}{more}, {size_text(gap.size)} from position "
        f"{gap.left.start} of {printable(log)}"
    )


def _left_text(left: dict[Reason | Why, Sums]) -> str:
    parts = []
    for why, sums in left.items():
        what = f"{count_text(sums.batches, 'batch', 'batches')}, " if sums.batches else ""
        parts.append(f"{_WHYS[why]}: {what}{size_text(sums.size)}")
    return "; ".join(parts)


def _piece_text(salvaged: Salvaged, left: Left) -> str:
    log = printable(salvaged.selection.segments[left.log].log.name)
    offsets = ""
    if left.batches:
        offsets = f", offsets {left.first_offset}..{left.last_offset}"
    marker = ", was a transaction marker" if left.marker else ""
    return f"{log} at position {left.start} +{left.size}: {left.why.value}{offsets}{marker}"


def _more(count: int) -> Iterator[str]:
    if count > _TOLD:
        yield labelled("", f"and {count - _TOLD:,} more: see the receipt")
