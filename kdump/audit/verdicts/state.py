"""State: how a run came out, as the first word of its report."""

from __future__ import annotations

from enum import Enum

from kdump.audit.finding_code import Severity


class RunState(Enum):
    """What is known after a run, as far as it was asked about.

    OK and WARNING are said only where everything was read that could show an error. An error that
    was found is one at any depth.
    """

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    NOT_CHECKED = "not-checked"  # nothing wrong, or warnings, in what was read; the rest was not
    INCOMPLETE = "incomplete"  # something that was asked for could not be read


def state_of(worst: Severity | None, *, whole: bool) -> RunState:
    """Return the state of a run whose ``worst`` finding is above INFO, None without one.

    ``whole``: everything was read that could show an error.
    """
    match worst:
        case Severity.ERROR:
            return RunState.ERROR
        case Severity.INCOMPLETE:
            return RunState.INCOMPLETE
    if not whole:
        return RunState.NOT_CHECKED
    return RunState.WARNING if worst is Severity.WARNING else RunState.OK
