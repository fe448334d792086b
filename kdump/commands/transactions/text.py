"""Tables of transactional ids and of open transactions, and commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kdump.audit.commands import abort_command, verify_command
from kdump.commands.transactions.selection import Shown
from kdump.commands.transactions.transaction_state import TransactionState
from kdump.commands.transactions.transactions import PartitionTransaction, TransactionVerdict
from kdump.format.lines.shell import shell_text
from kdump.format.lines.text import printable, time_text
from kdump.storage.names import TRANSACTION_TOPIC
from kdump.ui.coordinator_logs import undecodable_text
from kdump.ui.table import NONE, table
from kdump.ui.units import count_text, duration_text, size_text

_IDS: Final = (
    "TRANSACTIONAL-ID", "PRODUCER-ID", "EPOCH", "STATE", "TIMEOUT", "AGE", "UPDATED",
    "PARTITIONS",
)  # fmt: skip
_OPEN: Final = (
    "TOPIC", "PARTITION", "PRODUCER-ID", "EPOCH", "FIRST-OFFSET", "LAST-BATCH", "STABLE-OFFSET",
    "BEHIND", "VERDICT", "TRANSACTIONAL-ID",
)  # fmt: skip


def print_transactions(shown: Shown, emit: Callable[[str], None]) -> int:
    """Print the report, and return the exit code."""
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
        rows = [_id_cells(state, found.now_ms) for state in shown.states]
        for line in table(_IDS, rows, always=5):
            emit(line)
        emit("")
    if shown.open:
        emit("Open transactions:")
        for line in table(_OPEN, list(map(_open_cells, shown.open)), always=5):
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
            assert each.found is not None
            command = abort_command(each.topic, each.partition, each.found.first_offset)
            emit(f"  {shell_text(command)}")
        emit("")


def _id_cells(state: TransactionState, now_ms: int) -> tuple[str, ...]:
    age = NONE if state.start_ms is None else duration_text(max(now_ms - state.start_ms, 0) / 1000)
    places = " ".join(f"{topic}-{number}" for topic, number in sorted(state.partitions))
    return (
        state.transactional_id,
        str(state.producer_id),
        str(state.producer_epoch),
        state.state,
        duration_text(state.timeout_ms / 1000),
        age,
        time_text(state.update_ms),
        places or NONE,
    )


def _open_cells(each: PartitionTransaction) -> tuple[str, ...]:
    found, log, state = each.found, each.log, each.state
    epoch = found.producer_epoch if found is not None else state and state.producer_epoch
    behind = NONE
    if log is not None and each.holds_stable_offset:
        records = count_text(log.end_offset - log.stable_offset, "record")
        behind = f"{records}, {size_text(log.waiting_bytes)}"
    return (
        each.topic,
        str(each.partition),
        str(each.producer_id),
        str(epoch),
        NONE if found is None else str(found.first_offset),
        NONE if found is None else time_text(found.timestamp),
        NONE if log is None else str(log.stable_offset),
        behind,
        each.verdict.value,
        NONE if state is None else state.transactional_id,
    )
