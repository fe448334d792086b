"""JSON Lines: a line for each part of an image, or for each difference.

Scripts rely on it: fields may be added, but none is changed or removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from kdump.commands.metadata.entries import (
    EntryDifference,
    EntryKind,
    Fields,
    differences,
    image_entries,
)
from kdump.commands.metadata.problems import ending, problems
from kdump.format.messages.forms import REDACTED, is_secret_setting
from kdump.metadata.replay import MetadataState
from kdump.ui import jsonl
from kdump.ui.exits import Ending


def emit_image(emit: Callable[[str], None], state: MetadataState) -> int:
    """Emit the lines of an image, and return the exit code."""
    emit(jsonl.line("header", {**jsonl.header("metadata", [state.path]), **_state_fields(state)}))
    code = _emit_problems(emit, state).exit_code
    counts: Counter[str] = Counter()
    for entry in image_entries(state.image):
        counts[entry.kind] += 1
        fields = shown_fields(entry.kind, entry.key, entry.fields)
        emit(jsonl.line(entry.kind.value, {**entry.key, **(fields or {})}))
    emit(jsonl.line("summary", {"exit": code, "counts": dict(counts)}))
    return code


def emit_differences(
    emit: Callable[[str], None], before: MetadataState, after: MetadataState
) -> int:
    """Emit the lines of what differs, and return the exit code."""
    paths = [before.path, after.path]
    header = jsonl.header("metadata", paths)
    sides: Fields = {"before": _state_fields(before), "after": _state_fields(after)}
    emit(jsonl.line("header", {**header, **sides}))
    code = (_emit_problems(emit, before) | _emit_problems(emit, after)).exit_code
    counts: Counter[str] = Counter()
    for difference in differences(before.image, after.image):
        word = change_word(difference)
        counts[word] += 1
        emit(
            jsonl.line(
                "change", {"change": word, "kind": difference.kind.value, **_sides(difference)}
            )
        )
    emit(jsonl.line("summary", {"exit": code, "counts": dict(counts)}))
    return code


def change_word(difference: EntryDifference) -> str:
    """Return what happened to the entry, in a word."""
    if difference.before is None:
        return "added"
    return "removed" if difference.after is None else "changed"


def shown_fields(kind: EntryKind, key: Fields, fields: Fields | None) -> Fields | None:
    """Return the fields of an entry without secrets."""
    if fields and kind is EntryKind.CONFIG and is_secret_setting(str(key["name"])):
        return {**fields, "value": REDACTED}
    return fields


def _sides(difference: EntryDifference) -> Fields:
    kind, key = difference.kind, difference.key
    return {
        "key": key,
        "before": shown_fields(kind, key, difference.before),
        "after": shown_fields(kind, key, difference.after),
    }


def _state_fields(state: MetadataState) -> Fields:
    snapshot = state.snapshot
    return {
        **jsonl.path_field(state.path),
        "end_offset": state.end_offset,
        "snapshot": snapshot
        and {
            **jsonl.path_field(snapshot.path),
            "end_offset": snapshot.end_offset,
            "epoch": snapshot.epoch,
        },
        "open_transaction": state.transaction,
    }


def _emit_problems(emit: Callable[[str], None], state: MetadataState) -> Ending:
    found = list(problems(state))
    for problem in found:
        fields: Fields = {
            "kind": problem.kind,
            **jsonl.path_field(problem.path),
            "offset": problem.offset,
            "last_offset": problem.last_offset,
            "record": problem.record,
            "reason": problem.reason,
        }
        emit(jsonl.line("problem", fields))
    return ending(found)
