"""The report of an interrupted repair: steps done, steps left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from kdump.errors import KdumpError, Unfinished
from kdump.format.lines.shell import operand
from kdump.repair.transaction.folder import Folder
from kdump.repair.transaction.plan import Plan, finish_command
from kdump.repair.transaction.repair import Repair, StepState

_SIGNALS: Final = {KeyboardInterrupt: "SIGINT", SystemExit: "SIGTERM"}


def cause_text(error: BaseException) -> str:
    """Return what ended a block: the name of a signal, or the text of an error."""
    return _SIGNALS.get(type(error), str(error) or type(error).__name__)


class Interruption(Unfinished):
    """A repair or an undo that was interrupted.

    ``done`` is the plan with the finished steps only, ``left`` with the others. Both are None if
    the files do not show which steps are finished.
    """

    def __init__(
        self, message: str, resume: tuple[str, ...], done: Plan | None, left: Plan | None
    ) -> None:
        super().__init__(message, resume)
        self.done, self.left = done, left


@contextmanager
def report_interruption(plan: Plan, folder: Folder, *, undoing: bool = False) -> Iterator[None]:
    """Turn any error or signal in the block into an Interruption."""
    finish = finish_command(plan)
    undo = ("kdump", "undo", operand(plan.partition), "--plan", plan.id, "--apply")
    try:
        yield
    except (KdumpError, OSError, ValueError, KeyboardInterrupt, SystemExit) as error:
        work, end = ("undo", "undone") if undoing else ("repair", "done")
        done, left = _progress(plan, folder, undoing=undoing)
        count = "an unknown number" if done is None else str(len(done.steps))
        message = (
            f"{plan.partition}: the {work} of plan {plan.id} was interrupted: "
            f"{cause_text(error)}; {count} of {len(plan.steps)} steps are {end}; the backup is in "
            f"{folder.path}; finish it"
        )
        if not undoing:
            message += ", or undo it with kdump undo"
        raise Interruption(message, undo if undoing else finish, done, left) from error


def _progress(
    plan: Plan, folder: Folder, *, undoing: bool
) -> tuple[Plan, Plan] | tuple[None, None]:
    """Return the plan with the finished steps only, and the plan with the others."""
    end = StepState.PENDING if undoing else StepState.DONE
    try:
        repair = Repair(plan, folder, folder.start_record(plan), undoing=undoing)
        at_end = [repair.state(step) is end for step in plan.steps]
    except (KdumpError, OSError):
        return None, None
    pairs = list(zip(plan.steps, at_end, strict=True))
    return (
        replace(plan, steps=tuple(step for step, ended in pairs if ended)),
        replace(plan, steps=tuple(step for step, ended in pairs if not ended)),
    )
