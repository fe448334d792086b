"""carry_out(): all that a plan names, removed partition by partition."""

from __future__ import annotations

from collections.abc import Callable

from kdump.audit.commands import Remedy
from kdump.commands.trim.plan import TrimPlan
from kdump.errors import KdumpError, Refused, Unfinished
from kdump.repair.removal import remove_segments


def carry_out(plan: TrimPlan, resume: Callable[[int], Remedy], *, assume_stopped: bool) -> None:
    """Remove all that a plan names, partition by partition.

    Raises Refused if nothing was removed; Unfinished, with the command that ``resume`` returns for
    the bytes that are gone.
    """
    gone = [0]
    for part in plan.parts:
        try:
            remove_segments(part.old, gone.append, assume_stopped=assume_stopped)
        except (KdumpError, OSError, KeyboardInterrupt, SystemExit) as error:
            first = part is plan.parts[0]
            if first and isinstance(error, Refused):
                raise
            cause = str(error) or type(error).__name__
            raise Unfinished(
                f"the trim {plan.id} was interrupted: {cause}; {sum(gone):,} of {plan.bytes:,} "
                "bytes are free; a broker can start all the same",
                resume(sum(gone)),
            ) from error
