"""Manifests of directories, and what is found in both, without what must differ."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from kdump.audit.commands import place_of
from kdump.audit.run.groups import GroupWorkers
from kdump.audit.run.prescan import Small, quick_verdict
from kdump.audit.run.reconcile import reconcile_directories, requested_findings
from kdump.audit.targets.listing import list_scope
from kdump.audit.targets.target import TopicSelection
from kdump.audit.verdicts.next_start import add_forecast
from kdump.commands.compare.report import JsonComparisons, TextComparisons
from kdump.commands.manifest.making import Made, ManifestRequest, NamedRoot, make_manifest
from kdump.commands.manifest.names import Names
from kdump.commands.manifest.output import new_manifest
from kdump.commands.manifest.tree import bases_of
from kdump.copies.reading import CopyStages, group_copies
from kdump.errors import KdumpError
from kdump.storage import liveness, workers
from kdump.storage.manifests.path import paths_in
from kdump.storage.paths import AnyPath

#: The time of a report in a finding about times.
_PRESENT = re.compile(r"[-0-9T:.]+Z, the present")


def make(file: Path, *paths: Path, key: bytes | None = None, state: str = "stopped") -> Made:
    """Make a manifest of ``paths`` in ``file`` with no worker; with a ``key`` it is anonymous."""
    origin, bases = bases_of(paths, anonymous=key is not None)
    live = liveness.Liveness(liveness.BrokerState(state), "a test says so")
    request = ManifestRequest(
        origin=origin,
        bases=bases,
        roots=tuple(NamedRoot(path, live) for path in paths),
        made_by="a test",
        names=Names(key),
        jobs=1,
        pace=None,
        clock_ns=time.time_ns,
    )
    anonymous = key is not None
    with (
        new_manifest(file, [base.path for base in bases], anonymous=anonymous) as output,
        patch.object(workers, "run", _run_here),
    ):
        return make_manifest(request, output, lambda _: None)


def _run_here(
    work: Callable[[Any, Callable[[Any], None]], Any],
    tasks: Iterable[Any],
    jobs: int,
    *,
    retry: object = None,
    on_progress: Callable[[Any], None] | None = None,
    close_descriptors: object = (),
) -> Generator[workers.Result[Any, Any], None, None]:
    """Do what ``workers.run`` does, in this process."""
    for number, task in enumerate(tasks):
        try:
            value = work(task, on_progress or (lambda _: None))
        except KdumpError as error:
            value = error
        yield workers.Result(number, task, value)


@contextmanager
def no_processes() -> Generator[None, None, None]:
    """No other process has files open: the search for one takes longer than all else."""
    with patch.object(liveness, "_open_files", lambda *_: iter(())):
        yield


def compared(*files: Path) -> list[str]:
    """The reports of ``compare`` on manifests, as JSON and as text, made with no worker."""
    lines: list[str] = []
    with no_processes(), patch.object(workers, "run", _run_here):
        paths = [found for file in files for found in paths_in(file)]
        scope = list_scope(paths, None, TopicSelection())
        for root in scope.roots:
            if isinstance(root.content, Exception):
                raise root.content
        reports = (
            JsonComparisons(lines.append, [root.path for root in scope.roots]),
            TextComparisons(lines.append, ("kdump", "compare"), everything=True, wide=True),
        )
        here = GroupWorkers(scope.targets, scope.context, jobs=1)
        comparisons = here(CopyStages.of(scope), group_copies(scope))
        for comparison in comparisons:
            for report in reports:
                report.add(comparison)
    for report in reports:
        report.finish()
    return lines


def found_in(path: AnyPath, small: Small) -> list[str]:
    """All findings and forecasts at ``path``, a line each, with ROOT in the place of the path.

    So it is in the place of the path on the host of a manifest, which repairs are named with.
    ``small`` is what is read of each partition.
    """
    paths: Sequence[AnyPath] = paths_in(path)
    # A manifest does not tell what files take on their file system.
    files = patch("kdump.audit.startup.inputs.allocated_bytes", lambda _: None)
    leftovers = patch("kdump.audit.facts.small_files.allocated_bytes", lambda _: None)
    # Nor what the bytes of a corrupt batch are.
    mended = patch("kdump.audit.survey.survey.mended_header", lambda _source, _damage: None)
    with no_processes(), files, leftovers, mended:
        scope = list_scope(paths, None, TopicSelection())
        lines = [repr(root.content) for root in scope.roots]
        lines += map(repr, requested_findings(reconcile_directories(scope.context), scope))
        for target in scope.targets:
            verdict = quick_verdict(target, scope.context, small=small)
            verdict = add_forecast(verdict, segments=False)
            lines += map(repr, verdict.findings)
            lines += (repr(verdict.forecast), repr(verdict.covered))
    (root,) = paths
    text = "\n".join(lines).replace("PosixPath", "Path").replace("ManifestPath", "Path")
    typed = repr(root).partition("(")[2].rstrip(")").strip("'")
    for shown in (typed, str(root), str(place_of(root))):
        text = text.replace(shown, "ROOT")
    return _PRESENT.sub("the present", text).split("\n")
