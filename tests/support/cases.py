"""Cases of damage: each follows from its seed, and says what was done to which file."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from support.fixtures_loader import ROOT
from support.mutations import ANYWHERE
from support.resealing import resealed


@dataclass(frozen=True, slots=True)
class Case:
    """What a file has become: ``recipe`` says how, ``path`` is the fixture's, below ``fixtures/``.

    ``resealed`` says that changes inside a batch were given a right checksum.
    """

    seed: int
    path: Path
    data: bytes
    recipe: str
    resealed: bool

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.path}: {self.recipe}"


@cache
def corpus() -> dict[str, list[Path]]:
    """The stored files of single brokers by kind: the end of the name from its first dot on."""
    kinds: dict[str, list[Path]] = {}
    for path in sorted((ROOT / "brokers").rglob("*")):
        if path.is_file() and "replicas" not in path.parts:
            kind = path.suffix if path.name[0].isdigit() else path.name
            kinds.setdefault(kind, []).append(path)
    return {kind: paths for kind, paths in kinds.items() if not kind.endswith(".json")}


def case(seed: int, kinds: Sequence[str] | None = None) -> Case:
    """The case of a seed: a file of one of ``kinds`` (default any) with one to four changes."""
    rng = random.Random(seed)
    kind = rng.choice(list(kinds or corpus()))
    path = rng.choice(corpus()[kind])
    data, steps, any_resealed = path.read_bytes(), [], False
    has_batches = kind in (".log", ".checkpoint")
    for _ in range(rng.choice((1, 1, 2, 4))):
        donor = rng.choice(rng.choice(list(corpus().values())))
        reseal = has_batches and rng.random() < 0.5
        mutation = resealed if reseal else rng.choice(ANYWHERE)
        data = mutation(rng, data, donor.read_bytes())
        any_resealed = any_resealed or reseal
        steps.append(f"{mutation.__name__.lstrip('_')} -> {len(data)} bytes")
    return Case(seed, path.relative_to(ROOT), data, ", ".join(steps), any_resealed)
