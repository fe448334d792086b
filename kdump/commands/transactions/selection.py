"""Which transactions of a run are shown, and the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from kdump.commands.transactions.transaction_state import TransactionState
from kdump.commands.transactions.transactions import (
    PartitionTransaction,
    Transactions,
    TransactionVerdict,
)
from kdump.ui.exits import Ending
from kdump.values import frozen


@frozen
class Shown:
    """The transactions that match patterns for transactional ids, and with ``hanging`` that hang.

    A transaction whose id is not known matches no pattern.
    """

    found: Transactions
    patterns: Sequence[str]
    hanging: bool

    @property
    def states(self) -> list[TransactionState]:
        """The transactional ids."""
        if self.hanging:
            return []
        return [state for state in self.found.states if self._matches(state)]

    @property
    def open(self) -> list[PartitionTransaction]:
        """The open transactions."""
        return [
            each
            for each in self.found.open
            if (not self.hanging or each.verdict is TransactionVerdict.HANGING)
            and self._matches(each.state)
        ]

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        found = self.found
        hangs = any(each.verdict is TransactionVerdict.HANGING for each in self.open)
        return Ending(
            unread=any(not fault.damaged for fault in found.faults),
            problems=bool(hangs or found.faults or found.undecodable),
        ).exit_code

    def _matches(self, state: TransactionState | None) -> bool:
        return not self.patterns or (
            state is not None
            and any(fnmatchcase(state.transactional_id, pattern) for pattern in self.patterns)
        )
