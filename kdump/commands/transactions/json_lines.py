"""JSON Lines: a line for each transactional id and each open transaction.

Scripts rely on it: fields may be added, but none is changed or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kdump.audit.commands import abort_command
from kdump.commands.transactions.selection import Shown
from kdump.commands.transactions.transaction_state import TransactionState
from kdump.commands.transactions.transactions import PartitionTransaction, TransactionVerdict
from kdump.storage.paths import AnyPath
from kdump.ui import jsonl
from kdump.ui.coordinator_logs import fault_fields


def emit_transactions(shown: Shown, paths: Iterable[AnyPath], emit: Callable[[str], None]) -> int:
    """Emit all lines, and return the exit code."""
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
    for state in shown.states:
        emit(jsonl.line("transactional_id", _state_fields(state)))
    for each in shown.open:
        emit(jsonl.line("transaction", _open_fields(each)))
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


def _state_fields(state: TransactionState) -> dict[str, object]:
    return {
        "transactional_id": state.transactional_id,
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "state": state.state,
        "timeout_ms": state.timeout_ms,
        "start_ms": state.start_ms,
        "update_ms": state.update_ms,
        "partitions": [
            {"topic": topic, "partition": number} for topic, number in sorted(state.partitions)
        ],
        "partition": state.partition,
    }


def _open_fields(each: PartitionTransaction) -> dict[str, object]:
    found, log, state = each.found, each.log, each.state
    hangs = each.verdict is TransactionVerdict.HANGING and found is not None
    return {
        "topic": each.topic,
        "partition": each.partition,
        **({"path": None} if log is None else jsonl.path_field(log.path)),
        "verdict": each.verdict.value,
        "transactional_id": state and state.transactional_id,
        "state": state and state.state,
        "producer_id": each.producer_id,
        "producer_epoch": found.producer_epoch if found else state and state.producer_epoch,
        "first_offset": found and found.first_offset,
        "last_offset": found and found.last_offset,
        "last_batch_ms": found and found.timestamp,
        "last_stable_offset": log and log.stable_offset,
        "log_end_offset": log and log.end_offset,
        "holds_stable_offset": each.holds_stable_offset,
        "waiting_records_at_most": log and log.end_offset - log.stable_offset,
        "waiting_bytes": log and log.waiting_bytes,
        "damaged": log and log.damaged,
        "abort": abort_command(each.topic, each.partition, found.first_offset)
        if hangs and found is not None
        else None,
    }
