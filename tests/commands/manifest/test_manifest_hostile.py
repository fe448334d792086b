"""Mutated manifests, most of them with matching checksums: kdump's own errors, and no others."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from commands.manifest.manifest_mutations import mutated, plain_manifest
from kdump.audit.run.prescan import Small
from kdump.errors import KdumpError
from support.all_recipes import RECIPES
from support.long_samples import first_of
from support.manifests import compared, found_in

#: Recipes whose manifests have all kinds of sections: markers, old wrappers, damage, odd indexes.
_BASES = 6
#: Mutants of one test.
_EACH = 125
#: Longer than any mutant takes, on a busy machine.
_SECONDS = 30
_FIRST = int(os.environ.get("KDUMP_FUZZ_FIRST", "1000"))


@contextmanager
def _alarm() -> Iterator[None]:
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)


def _read(file: Path, beside: Path) -> bool:
    """Read all of a manifest, also beside a sound one; return whether it could be opened."""
    try:
        for small in (Small.HEADERS, Small.ENDS):
            found_in(file, small)
        compared(file, beside)
    except KdumpError:
        return False
    return True


def _try_mutants(seed: int, count: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    logs = tmp_path / "logs"
    for recipe in rng.sample(RECIPES, 3):
        recipe.write(logs)
    (logs / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    file, beside = tmp_path / "logs.kdm", tmp_path / "beside.kdm"
    data = plain_manifest(file, logs)
    beside.write_bytes(data)
    assert _read(file, beside)
    opened = 0
    for number in range(count):
        file.write_bytes(mutated(rng, data))
        with _alarm():
            try:
                opened += _read(file, beside)
            except BaseException:
                kept = tmp_path / f"mutant-{seed}-{number}.kdm"
                kept.write_bytes(file.read_bytes())
                raise
    assert opened > count // 4  # the checksums of most match


@pytest.mark.parametrize("seed", first_of(range(_BASES)))
def test_a_mutated_manifest_gives_kdumps_own_errors(seed: int, tmp_path: Path) -> None:
    _try_mutants(seed, _EACH, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + 100))
def test_a_hundred_thousand_mutated_manifests(seed: int, tmp_path: Path) -> None:
    _try_mutants(seed, 1_000, tmp_path)
