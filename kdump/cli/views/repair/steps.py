"""The steps of a plan in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from kdump.cli.views.repair.logs import Conversion
from kdump.format.lines.text import printable
from kdump.repair.transaction.plan import (
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

#: Files of more segments than that are counted, not named.
_NAMED: Final = 3


def step_texts(plan: Plan) -> Iterator[str]:
    """Yield the steps of a plan in their order."""
    origins = _origins(plan)
    few = len(set(origins.values())) <= _NAMED

    def kind(step: Step) -> object:
        origin = origins.get(_stem(step.name)) if isinstance(step, Remove | Put) else None
        if origin is None:
            return _kind(step)
        return "convert", origin if few else ""

    for _, group in groupby(plan.steps, key=kind):
        yield printable(_text(plan, list(group)))


def offset_text(offset: int | None) -> str:
    """An offset, bare, so that it can be pasted; None is unknown."""
    return "unknown" if offset is None else str(offset)


def _kind(step: Step) -> object:
    match step:
        case Remove():
            return "remove"
        case Put(recipe=Prefix()):
            return id(step)
        case Put():
            return "put", step.replaces
        case _:
            return id(step)


def _origins(plan: Plan) -> dict[str, str]:
    """Of each new log that is converted from an old one that one, both without extension."""
    return {_stem(put.name): _stem(recipe.log) for put, recipe in plan.conversions}


def _text(plan: Plan, steps: Sequence[Step]) -> str:
    conversion = Conversion.of(plan, steps)
    if conversion.new:
        return f"{_replaced(steps)}; {conversion.sizes}, {conversion.count}"
    first = steps[0]
    match first:
        case Remove():
            return f"remove {_names([s.name for s in steps if isinstance(s, Remove)])}"
        case Put(recipe=Prefix()):
            size = plan.files[first.name].size
            return f"truncate a copy of {first.name}, which has other links: {size} -> {first.size}"
        case Put():
            verb = "replace" if first.replaces else "write"
            return f"{verb} {_names([s.name for s in steps if isinstance(s, Put)])}"
        case Cut():
            return f"truncate {first.name} {plan.files[first.name].size} -> {first.size}"
        case Line():
            before, after = (
                "no line" if each is None else str(each) for each in (first.before, first.after)
            )
            return f"{first.checkpoint}, only this partition: {before} -> {after}"
        case Rewrite():
            return f"replace {first.checkpoint} of the log directory"
        case TakeMarker():
            return "remove the clean shutdown marker"
        case PutMarker():
            return "restore the marker, empty: the next start scans no other partition"


def _replaced(steps: Sequence[Step]) -> str:
    """The files of whole segments by what becomes of them in the end."""
    away = {step.name for step in steps if isinstance(step, Remove)}
    puts = [step for step in steps if isinstance(step, Put)]
    replaced = away.union(put.name for put in puts if put.replaces)
    names = [put.name for put in puts]
    parts = {
        "remove": sorted(away.difference(names)),
        "write": [name for name in names if name not in replaced],
        "replace": [name for name in names if name in replaced],
    }
    return "; ".join(f"{verb} {_names(some)}" for verb, some in parts.items() if some)


def _stem(name: str) -> str:
    return name.partition(".")[0]


def _names(names: Sequence[str]) -> str:
    """Names of files; those of one segment together, and of many only how many there are."""
    stems: dict[str, list[str]] = {}
    for name in names:
        stem, _, extension = name.partition(".")
        stems.setdefault(stem, []).append(extension)
    if len(stems) <= _NAMED:
        return ", ".join(_together(stem, extensions) for stem, extensions in stems.items())
    kinds = Counter(f".{name.partition('.')[2]}" for name in names if "." in name)
    counts = [f"{count:,} {kind}" for kind, count in kinds.items()]
    numbered = sorted(stem for stem in stems if stem.isdigit())
    alone = [name for name in names if "." not in name]
    span = f", {numbered[0]} to {numbered[-1]}" if numbered else ""
    return f"{len(names):,} files{span}: {', '.join([*counts, *alone])}"


def _together(stem: str, extensions: Sequence[str]) -> str:
    if len(extensions) == 1:
        return f"{stem}.{extensions[0]}" if extensions[0] else stem
    return f"{stem}.{{{','.join(extensions)}}}"
