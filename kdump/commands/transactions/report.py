"""Transactional ids and open transactions: tables and commands, and JSON Lines.

Scripts rely on JSON: fields may be added, but none is changed or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kdump.audit.commands import abort_command, verify_command
from kdump.commands.transactions.selection import Shown
from kdump.commands.transactions.transaction_state import TransactionState
from kdump.commands.transactions.transactions import PartitionTransaction, TransactionVerdict
from kdump.format.lines.shell import shell_text
from kdump.format.lines.text import printable, time_text
from kdump.storage.names import TRANSACTION_TOPIC
from kdump.storage.paths import AnyPath
from kdump.ui import jsonl
from kdump.ui.coordinator_logs import fault_fields, undecodable_text
from kdump.ui.table import FIELDS, NONE, Column, ReportTable
from kdump.ui.units import count_text, duration_text, size_text


def _ids(now_ms: int) -> ReportTable[TransactionState]:
    return ReportTable(
        "transactional_id",
        (
            Column("TRANSACTIONAL-ID", "transactional_id", lambda row: row.transactional_id),
            Column("PRODUCER-ID", "producer_id", lambda row: row.producer_id),
            Column("EPOCH", "producer_epoch", lambda row: row.producer_epoch),
            Column("STATE", "state", lambda row: row.state),
            Column("TIMEOUT", "timeout_ms", lambda row: row.timeout_ms, _duration),
            Column(
                "AGE", "start_ms", lambda row: row.start_ms,
                lambda start_ms: _duration(max(now_ms - start_ms, 0)),
            ),
            Column("UPDATED", "update_ms", lambda row: row.update_ms, time_text),
            Column("PARTITIONS", "partitions", _places, _places_text),
            Column(None, "partition", lambda row: row.partition),
        ),
        always=5,
    )  # fmt: skip


def _duration(ms: int) -> str:
    return duration_text(ms / 1000)


def _places(state: TransactionState) -> list[dict[str, object]]:
    return [{"topic": topic, "partition": number} for topic, number in sorted(state.partitions)]


def _places_text(places: list[dict[str, object]]) -> str:
    return " ".join(f"{place['topic']}-{place['partition']}" for place in places) or NONE


def _epoch(row: PartitionTransaction) -> object:
    return row.found.producer_epoch if row.found else row.state and row.state.producer_epoch


def _behind(row: PartitionTransaction) -> str | None:
    if row.log is None or not row.holds_stable_offset:
        return None
    records = count_text(row.log.end_offset - row.log.stable_offset, "record")
    return f"{records}, {size_text(row.log.waiting_bytes)}"


def _abort(row: PartitionTransaction) -> tuple[str, ...] | None:
    if row.verdict is not TransactionVerdict.HANGING or row.found is None:
        return None
    return abort_command(row.topic, row.partition, row.found.first_offset)


_OPEN: Final = ReportTable[PartitionTransaction](
    "transaction",
    (
        Column("TOPIC", "topic", lambda row: row.topic),
        Column("PARTITION", "partition", lambda row: row.partition),
        Column(
            None, FIELDS,
            lambda row: {"path": None} if row.log is None else jsonl.path_field(row.log.path),
        ),
        Column("VERDICT", "verdict", lambda row: row.verdict.value),
        Column(
            "TRANSACTIONAL-ID", "transactional_id",
            lambda row: row.state and row.state.transactional_id,
        ),
        Column(None, "state", lambda row: row.state and row.state.state),
        Column("PRODUCER-ID", "producer_id", lambda row: row.producer_id),
        Column("EPOCH", "producer_epoch", _epoch),
        Column("FIRST-OFFSET", "first_offset", lambda row: row.found and row.found.first_offset),
        Column(None, "last_offset", lambda row: row.found and row.found.last_offset),
        Column(
            "LAST-BATCH", "last_batch_ms", lambda row: row.found and row.found.timestamp,
            time_text,
        ),
        Column(
            "STABLE-OFFSET", "last_stable_offset", lambda row: row.log and row.log.stable_offset
        ),
        Column(None, "log_end_offset", lambda row: row.log and row.log.end_offset),
        Column(None, "holds_stable_offset", lambda row: row.holds_stable_offset),
        Column(
            None, "waiting_records_at_most",
            lambda row: row.log and row.log.end_offset - row.log.stable_offset,
        ),
        Column(None, "waiting_bytes", lambda row: row.log and row.log.waiting_bytes),
        Column(None, "damaged", lambda row: row.log and row.log.damaged),
        Column("BEHIND", None, _behind),
        Column(None, "abort", _abort),
    ),
    key=2,
    heads=(
        "TOPIC", "PARTITION", "PRODUCER-ID", "EPOCH", "FIRST-OFFSET", "LAST-BATCH",
        "STABLE-OFFSET", "BEHIND", "VERDICT",
    ),
    always=5,
)  # fmt: skip


def print_transactions(shown: Shown, emit: Callable[[str], None], *, wide: bool) -> int:
    """Print the report, with tables that may be ``wide``; return the exit code."""
    found = shown.found
    for fault in found.faults:
        kind = "damage" if fault.damaged else "incomplete"
        where = "" if fault.position is None else f" at position {fault.position}"
        check = f": {shell_text(verify_command(fault.path.parent))}" if fault.damaged else ""
        emit(printable(f"{kind}: {fault.path}{where}: {fault.reason}{check}"))
    for path, undecodable in found.undecodable:
        emit(printable(undecodable_text(path, undecodable)))
    if shown.states:
        emit(f"Transactional ids, in {count_text(len(found.partitions), 'partition')} of "
             f"{TRANSACTION_TOPIC}:")  # fmt: skip
        for line in _ids(found.now_ms).text(shown.states, wide=wide):
            emit(line)
        emit("")
    if shown.open:
        emit("Open transactions:")
        for line in _OPEN.text(shown.open, wide=wide):
            emit(line)
        emit("")
    _print_advice(shown, emit)
    counts = ", ".join(
        f"{number} {verdict.value}"
        for verdict in TransactionVerdict
        if (number := sum(each.verdict is verdict for each in shown.open))
    )
    emit(
        f"{count_text(len(shown.open), 'open transaction')}{f': {counts}' if counts else ''}; "
        f"{count_text(len(found.states), 'transactional id')}, "
        f"{count_text(found.logs, 'log')} read"
    )
    return shown.exit_code


def emit_transactions(shown: Shown, paths: Iterable[AnyPath], emit: Callable[[str], None]) -> int:
    """Emit all JSON lines, and return the exit code."""
    found = shown.found
    emit(jsonl.line("header", jsonl.header("transactions", paths)))
    for fault in found.faults:
        emit(jsonl.line("fault", fault_fields(fault)))
    for path, undecodable in found.undecodable:
        fields: dict[str, object] = {
            **jsonl.path_field(path),
            "offset": undecodable.offset,
            "reason": undecodable.reason,
        }
        emit(jsonl.line("undecodable", fields))
    for line in (*map(_ids(found.now_ms).json, shown.states), *map(_OPEN.json, shown.open)):
        emit(line)
    summary = {
        "exit": shown.exit_code,
        "transactional_ids": len(found.states),
        "open": len(shown.open),
        **{
            verdict.value.replace(" ", "_"): sum(each.verdict is verdict for each in shown.open)
            for verdict in TransactionVerdict
        },
        "partitions": list(found.partitions),
        "whole": found.whole,
        "logs": found.logs,
        "now_ms": found.now_ms,
    }
    emit(jsonl.line("summary", summary))
    return shown.exit_code


def _print_advice(shown: Shown, emit: Callable[[str], None]) -> None:
    found = shown.found
    if not found.whole and any(each.verdict is TransactionVerdict.UNKNOWN for each in shown.open):
        reason = "no partition" if not found.partitions else "not every partition"
        emit(
            f"Unknown: {reason} of {TRANSACTION_TOPIC} is at hand and whole, so that a coordinator "
            "may know these transactions. Give the log directories of all brokers."
        )
        emit("")
    hanging = [each for each in shown.open if each.verdict is TransactionVerdict.HANGING]
    if hanging:
        emit("No coordinator ends the hanging ones. With the broker running, these commands do:")
        for each in hanging:
            emit(f"  {shell_text(_abort(each) or ())}")
        emit("")
