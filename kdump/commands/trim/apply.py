"""carry_out(): all that a plan names, removed partition by partition."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kdump.audit.commands import Remedy
from kdump.commands.trim.plan import TrimmedLeftovers, TrimPlan
from kdump.errors import KdumpError, Refused, Unfinished
from kdump.repair.removal import remove_segments, remove_unused
from kdump.repair.saved_segments import save_segments
from kdump.repair.transaction.interruption import cause_text


def carry_out(
    plan: TrimPlan,
    removed: Callable[[int], None],
    resume: Callable[[], Remedy],
    *,
    assume_stopped: bool,
    backup: Path | None = None,
) -> list[Path]:
    """Remove all that a plan names; ``removed`` gets the bytes of what is gone.

    With ``backup`` the segments of each partition are saved there first. Returns the partitions
    whose leader epochs could not be cut. Raises Refused if nothing was removed; Unfinished, with
    the command that ``resume`` returns.
    """
    uncut = []
    for number, part in enumerate(plan.places):
        try:
            if isinstance(part, TrimmedLeftovers):
                remove_unused(part.gone, assume_stopped=assume_stopped)
                removed(part.bytes)
                continue
            if backup is not None:
                save_segments(part.gone, backup, plan.id, assume_stopped=assume_stopped)
            if not remove_segments(part.gone, removed, assume_stopped=assume_stopped):
                uncut.append(part.gone.path)
        except (KdumpError, OSError, KeyboardInterrupt, SystemExit) as error:
            if number == 0 and isinstance(error, Refused):
                raise
            text = f"the trim {plan.id} was interrupted: {cause_text(error)}. A broker can start"
            raise Unfinished(f"{text} all the same", resume()) from error
    return uncut
