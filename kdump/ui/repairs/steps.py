"""The steps of a plan in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from kdump.format.lines.text import printable
from kdump.repair.transaction.plan import (
    Assembly,
    Cut,
    Line,
    Plan,
    Prefix,
    Put,
    PutMarker,
    Remove,
    Rewrite,
    Step,
    TakeMarker,
)
from kdump.ui.repairs.logs import ConversionSums
from kdump.ui.units import count_text, size_text

#: Files of more segments than this are counted, not named.
_NAMED: Final = 3


def step_texts(plan: Plan) -> Iterator[str]:
    """Yield the steps of a plan in order; neighbouring steps of a kind make one sentence."""
    origins = _origins(plan)
    few = len(set(origins.values())) <= _NAMED

    def kind(step: Step) -> object:
        origin = origins.get(_stem(step.name)) if isinstance(step, Remove | Put) else None
        if origin is None:
            return _kind(step)
        return "convert", origin if few else ""

    for _, steps in groupby(plan.steps, key=kind):
        yield printable(_text(plan, list(steps)))


def offset_text(offset: int | None) -> str:
    """Return an offset as bare digits, so that it can be pasted; None is unknown."""
    return "unknown" if offset is None else str(offset)


def _kind(step: Step) -> object:
    match step:
        case Remove():
            return "remove"
        case Put(recipe=Prefix() | Assembly()):
            return id(step)
        case Put():
            return "put", step.replaces
        case _:
            return id(step)


def _origins(plan: Plan) -> dict[str, str]:
    """Return the old log of each converted log, both without extension."""
    return {_stem(put.name): _stem(recipe.log) for put, recipe in plan.conversions}


def _text(plan: Plan, steps: Sequence[Step]) -> str:
    conversion = ConversionSums.from_plan(plan, steps)
    if conversion.new:
        return f"{_replacement_text(steps)}; {conversion.sizes}, {conversion.count}"
    first = steps[0]
    match first:
        case Remove():
            return f"remove {_names_text([s.name for s in steps if isinstance(s, Remove)])}"
        case Put(recipe=Prefix()):
            size = plan.files[first.name].size
            return f"truncate a copy of {first.name}, which has other links: {size} -> {first.size}"
        case Put(recipe=Assembly() as recipe):
            return _assembly_text(plan, first, recipe)
        case Put():
            verb = "replace" if first.replaces else "write"
            return f"{verb} {_names_text([s.name for s in steps if isinstance(s, Put)])}"
        case Cut():
            return f"truncate {first.name} {plan.files[first.name].size} -> {first.size}"
        case Line():
            before, after = (
                "no line" if offset is None else str(offset)
                for offset in (first.before, first.after)
            )
            return f"{first.checkpoint}, only this partition: {before} -> {after}"
        case Rewrite():
            return f"replace {first.checkpoint} of the log directory"
        case TakeMarker():
            return "remove the clean shutdown file"
        case PutMarker():
            return (
                "restore the clean shutdown file, empty: the next startup scans no other partition"
            )


def _assembly_text(plan: Plan, put: Put, recipe: Assembly) -> str:
    """Return a log that is put together: its size, and what comes from copies, if any."""
    size = size_text(sum(piece.size for piece in recipe.taken))
    taken = f"{size} from replicas, {count_text(len(recipe.taken), 'stretch', 'stretches')}"
    fields = sum(bool(piece.content) for piece in recipe.pieces)
    if fields:
        taken = f"{count_text(fields, 'field')} set"
    elif not recipe.taken:
        taken = "only its valid batches"
    if not put.replaces:
        return f"write {put.name}: {taken}"
    return f"replace {put.name}, {plan.files[put.name].size} -> {put.size}: {taken}"


def _replacement_text(steps: Sequence[Step]) -> str:
    """Return the files of converted segments: removed, written and replaced."""
    removed = {step.name for step in steps if isinstance(step, Remove)}
    puts = [step for step in steps if isinstance(step, Put)]
    replaced = removed.union(put.name for put in puts if put.replaces)
    names = [put.name for put in puts]
    parts = {
        "remove": sorted(removed.difference(names)),
        "write": [name for name in names if name not in replaced],
        "replace": [name for name in names if name in replaced],
    }
    return "; ".join(f"{verb} {_names_text(some)}" for verb, some in parts.items() if some)


def _stem(name: str) -> str:
    return name.partition(".")[0]


def _names_text(names: Sequence[str]) -> str:
    """Return file names, grouped by segment; for many segments only their numbers."""
    stems: dict[str, list[str]] = {}
    for name in names:
        stem, _, extension = name.partition(".")
        stems.setdefault(stem, []).append(extension)
    if len(stems) <= _NAMED:
        return ", ".join(_segment_names(stem, extensions) for stem, extensions in stems.items())
    kinds = Counter(f".{name.partition('.')[2]}" for name in names if "." in name)
    counts = [f"{count:,} {kind}" for kind, count in kinds.items()]
    numbered = sorted(stem for stem in stems if stem.isdigit())
    alone = [name for name in names if "." not in name]
    span = f", {numbered[0]} to {numbered[-1]}" if numbered else ""
    return f"{len(names):,} files{span}: {', '.join([*counts, *alone])}"


def _segment_names(stem: str, extensions: Sequence[str]) -> str:
    if len(extensions) == 1:
        return f"{stem}.{extensions[0]}" if extensions[0] else stem
    return f"{stem}.{{{','.join(extensions)}}}"
