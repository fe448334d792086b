"""The report of a salvage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

import click

from kdump.audit.checks.transactions import TRANSACTION_END_LOST
from kdump.audit.replay.fates import Fate
from kdump.commands.salvage.lost_markers import TransactionEnd, consequence
from kdump.commands.salvage.offset_gaps import OffsetGap
from kdump.commands.salvage.receipt import Salvaged, SalvageSums, encode
from kdump.commands.salvage.stretches import Left, Why
from kdump.format.lines.text import printable
from kdump.storage.paths import AnyPath
from kdump.storage.walk import Reason
from kdump.ui import jsonl
from kdump.ui.paragraphs import paragraph
from kdump.ui.repairs.outputs import (
    OutputReport,
    done_lines,
    print_error,
    proof_lines,
    receipt_line,
)
from kdump.ui.repairs.text import command_lines
from kdump.ui.units import count_text, size_text

#: The number of offset gaps, and of pieces that were not taken, in the text.
_LISTED = 20
_WHYS: dict[Reason | Why, str] = {
    **{reason: reason.words for reason in Reason},
    Why.HUNTED: "found by search (--hunted takes them)",
    Why.BACKWARDS: "offsets go backwards, or were already taken",
    Why.INVERTED: "last offset below the base offset",
    Why.OUT_OF_RANGE: "offsets that its segment cannot hold",
    Why.WRAPPER: "wrappers of an old format that cannot be read",
    Why.REFUSED: "a broker that replays producers stops there",
    Why.UNREAD: "could not be read",
}


def start_report(form: Literal["text", "json"], paths: Sequence[AnyPath]) -> OutputReport[Salvaged]:
    """Return the report of a run, after printing its header if ``form`` is JSON."""
    return _Json(paths) if form == "json" else _Text()


class _Text:
    def receipt(self, output: Salvaged) -> None:
        for line in lines(output):
            click.echo(line)

    def error(self, error: Exception) -> None:
        print_error(error)

    def finish(self, exit_code: int) -> None:
        pass


class _Json:
    def __init__(self, paths: Sequence[AnyPath]) -> None:
        self._done = 0
        click.echo(jsonl.line("header", jsonl.header("salvage", paths)))

    def receipt(self, output: Salvaged) -> None:
        self._done += 1
        back = [list(command) for command in output.way_back]
        click.echo(receipt_line(output, {**encode(output), "way_back": back}))

    def error(self, error: Exception) -> None:
        print_error(error)

    def finish(self, exit_code: int) -> None:
        click.echo(jsonl.line("summary", {"exit": exit_code, "partitions": self._done}))


def lines(receipt: Salvaged) -> Iterator[str]:
    """Yield the lines of a receipt as text."""
    selection, taken = receipt.selection, receipt.taken
    # Preallocated zeros hold no data.
    left: dict[Reason | Why, SalvageSums] = {
        why: sums for why, sums in receipt.left.items() if why is not Reason.PREALLOCATED
    }
    yield from done_lines(receipt, "salvage")
    offsets = ""
    if selection.stretches:
        first, last = selection.stretches[0].first_offset, selection.stretches[-1].last_offset
        offsets = f"; offsets {first}..{last}"
    yield paragraph(
        "taken",
        f"{_sums_text(taken)}{offsets}; {len(receipt.logs):,} of "
        f"{count_text(len(selection.segments), 'segment')}",
    )
    if receipt.copies:
        sizes = Counter[str]()
        for _, run in receipt.runs:
            sizes[str(run.log.parent)] += run.size
        for path in receipt.copies[1:]:
            yield paragraph("replica", f"{printable(str(path))}: {size_text(sizes[str(path)])}")
    yield paragraph(
        "result",
        f"log start offset {receipt.logs[0].base_offset}, log end offset {receipt.log_end}",
    )
    yield paragraph("missing", _gaps_text(receipt.offset_gaps))
    for gap in receipt.offset_gaps[:_LISTED]:
        yield paragraph("", _gap_text(receipt, gap))
    yield from _more(len(receipt.offset_gaps))
    if left:
        yield paragraph("not taken", _skipped_text(left))
        pieces = [piece for piece in selection.left if piece.size and piece.why in left]
        for piece in pieces[:_LISTED]:
            yield paragraph("", _piece_text(receipt, piece))
        yield from _more(len(pieces))
    yield from _transaction_lines(receipt)
    for error in selection.errors:
        yield paragraph("UNREAD", printable(error))
    yield from proof_lines(receipt, len(receipt.logs), "SHA-256 of every file written")
    yield from _way_back_lines(receipt)


def _way_back_lines(receipt: Salvaged) -> Iterator[str]:
    commands = receipt.way_back
    if commands:
        yield paragraph("back", "if no other replica is in sync, with the broker stopped:")
        for command in commands:
            yield from command_lines("", command)


def _transaction_lines(receipt: Salvaged) -> Iterator[str]:
    ends = receipt.ends
    if not ends:
        return
    yield paragraph(
        "markers",
        f"{count_text(len(ends), 'transaction')} ended, or may have ended, where offsets are "
        f"missing; last stable offset {receipt.last_stable_offset}",
    )
    for transaction in ends[:_LISTED]:
        yield paragraph("", _end_text(transaction))
    yield from _more(len(ends))


def _end_text(transaction: TransactionEnd) -> str:
    end = transaction.end
    what = {
        Fate.COMMITTED: "was committed",
        Fate.ABORTED: f"was aborted at {end.ended}" if end.exact else "was aborted",
        Fate.UNDECIDED: "nothing shows whether it was committed",
    }[end.fate]
    lost = f"{TRANSACTION_END_LOST.name}: " if transaction.lost else ""
    marker = "; no new marker"
    if transaction.marker is not None:
        kind = "abort" if end.fate is Fate.ABORTED else "commit"
        marker = f"; new {kind} marker at {transaction.marker}"
    missing = f"{end.first}..{'' if end.last is None else end.last}"
    return (
        f"producer {end.producer} from offset {end.begin}, marker missing in {missing}: "
        f"{lost}{what}{marker}; {consequence(transaction)}"
    )


def _sums_text(sums: SalvageSums) -> str:
    batches = count_text(sums.batches, "batch", "batches")
    return f"{count_text(sums.records, 'record')} in {batches}, {size_text(sums.size)}"


def _gaps_text(offset_gaps: Sequence[OffsetGap]) -> str:
    if not offset_gaps:
        return "none"
    known = sum(gap.count or 0 for gap in offset_gaps)
    unbounded = any(gap.count is None for gap in offset_gaps)
    most = f"{count_text(known, 'offset')} at most" if known or not unbounded else ""
    open_end = "and the offsets after the end" if unbounded else ""
    return f"{len(offset_gaps):,}: {' '.join(part for part in (most, open_end) if part)}"


def _gap_text(receipt: Salvaged, gap: OffsetGap) -> str:
    last = "" if gap.last is None else gap.last
    text = f"{gap.first}..{last}"
    if gap.left is None:
        return f"{text}: no batch is there"
    log = receipt.selection.segments[gap.left.log].log.name
    marker = " (was a transaction marker)" if gap.left.marker else ""
    more = f" and {gap.pieces - 1:,} more" if gap.pieces > 1 else ""
    return (
        f"{text}: {_WHYS[gap.left.why]}{marker}{more}, {size_text(gap.size)} from position "
        f"{gap.left.start} of {printable(log)}"
    )


def _skipped_text(left: dict[Reason | Why, SalvageSums]) -> str:
    parts = []
    for why, sums in left.items():
        what = f"{count_text(sums.batches, 'batch', 'batches')}, " if sums.batches else ""
        parts.append(f"{_WHYS[why]}: {what}{size_text(sums.size)}")
    return "; ".join(parts)


def _piece_text(receipt: Salvaged, left: Left) -> str:
    log = printable(receipt.selection.segments[left.log].log.name)
    offsets = ""
    if left.batches:
        offsets = f", offsets {left.first_offset}..{left.last_offset}"
    marker = ", was a transaction marker" if left.marker else ""
    return f"{log} at position {left.start} +{left.size}: {left.why.value}{offsets}{marker}"


def _more(count: int) -> Iterator[str]:
    if count > _LISTED:
        yield paragraph("", f"and {count - _LISTED:,} more: see the receipt")
