"""The differences between two images for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from kdump.commands.metadata.entries import EntryDifference, EntryKind, Fields, differences
from kdump.commands.metadata.json_lines import change_word, shown_fields
from kdump.commands.metadata.problems import ending, problem_text, problems
from kdump.format.lines.text import json_text, printable
from kdump.metadata.replay import MetadataState
from kdump.ui.units import count_text


def print_differences(
    emit: Callable[[str], None], before: MetadataState, after: MetadataState
) -> int:
    """Print what differs, and return the exit code."""
    emit(printable(f"METADATA from {_side(before)} to {_side(after)}"))
    found = [*problems(before), *problems(after)]
    for problem in found:
        emit(printable(problem_text(problem)))
    counts: Counter[str] = Counter()
    for difference in differences(before.image, after.image):
        counts[change_word(difference)] += 1
        emit(printable(_line(difference)))
    emit(
        f"{count_text(counts['added'], 'addition')}, {count_text(counts['removed'], 'removal')}, "
        f"{count_text(counts['changed'], 'change')}"
    )
    return ending(found).exit_code


def _side(state: MetadataState) -> str:
    return f"{state.path} before offset {state.end_offset}"


def _line(difference: EntryDifference) -> str:
    kind, key = difference.kind, difference.key
    before = shown_fields(kind, key, difference.before)
    after = shown_fields(kind, key, difference.after)
    title = f"{change_word(difference)} {kind.value.replace('_', ' ')} {_key_text(kind, key)}"
    if before is not None and after is not None:
        parts = [f"{name} {_text(before[name])} -> {_text(after[name])}" for name in after]
    else:
        parts = [f"{name} {_text(value)}" for name, value in (before or after or {}).items()]
    return f"{title.rstrip()}: {', '.join(parts)}"


def _key_text(kind: EntryKind, key: Fields) -> str:
    if kind is EntryKind.PARTITION:
        return f"{key['topic']}-{key['partition']}"
    return " ".join(map(_text, key.values()))


def _text(value: object) -> str:
    return value if isinstance(value, str) and value else json_text(value)
