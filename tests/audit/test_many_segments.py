"""What a partition of very many segments costs grows with their number, not with its square."""

from __future__ import annotations

import gc
import json
import math
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.directory import make
from kdump.audit.checks.missing_offsets import OFFSETS_MISSING
from kdump.audit.run.prescan import Small, quick_verdict
from kdump.audit.run.quick_survey import quick_survey
from kdump.audit.survey.survey import survey
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target, assign, open_roots
from kdump.audit.verdicts.next_start import add_forecast
from kdump.audit.verdicts.verdict import Verdict
from kdump.storage.liveness import liveness
from kdump.storage.logdir import Segment, open_path
from kdump.ui import exits

CONTEXT = Context(now_ms=0)
#: Runs kdump from a small process: the memory of the one that a process is begun from counts as its
#: own. Prints the exit code, the seconds of CPU, and the most memory in KiB.
MEASURED = """
import json, os, sys
child = os.fork()
if not child:
    os.execv(sys.executable, [sys.executable, "-m", "kdump", *sys.argv[1:]])
_, status, usage = os.wait4(child, 0)
code = os.waitstatus_to_exitcode(status)
print(json.dumps([code, usage.ru_utime + usage.ru_stime, usage.ru_maxrss]), file=sys.stderr)
"""


def empty_segments(path: Path, count: int) -> Target:
    """A partition of so many empty segments; each leaves its one offset out."""
    path.mkdir()
    for base_offset in range(count):
        (path / f"{base_offset:020d}.log").touch()
    (target,) = (target for root in open_roots([path]) for target in assign(root))
    return target


def foreseen(target: Target, small: Small) -> Verdict:
    """What a worker does for ``verify`` and for ``next-start``."""
    return add_forecast(quick_verdict(target, CONTEXT, small=small), segments=False)


@pytest.fixture
def others_frozen() -> Iterator[None]:
    """The garbage collector passes over what other tests left: it takes time, and puts it off."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("others_frozen")
@pytest.mark.slow
@pytest.mark.parametrize("small", [Small.ENDS, Small.HEADERS])
def test_four_times_the_segments_take_four_times_as_long(tmp_path: Path, small: Small) -> None:
    targets = {count: empty_segments(tmp_path / f"t-{count}", count) for count in (1_000, 4_000)}
    took = dict.fromkeys(targets, math.inf)
    for count, target in 3 * tuple(targets.items()):
        start = time.process_time()
        verdict = foreseen(target, small)
        took[count] = min(took[count], time.process_time() - start)
        assert verdict.forecast is not None
        assert len(verdict.forecast.segments) == count
    assert took[4_000] < 6 * took[1_000] + 0.2


@pytest.mark.usefixtures("others_frozen")
@pytest.mark.parametrize(("small", "most_bytes"), [(Small.ENDS, 1_700), (Small.HEADERS, 2_400)])
def test_an_empty_segment_takes_little_memory(
    tmp_path: Path, small: Small, most_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What other processes map, of which the search for a broker reads, is none of the segments'.
    stopped = liveness(tmp_path)
    monkeypatch.setattr("kdump.audit.targets.target.liveness", lambda _: stopped)
    count = 1_000
    path = tmp_path / "t-0"
    empty_segments(path, count)
    foreseen(empty_segments(tmp_path / "first-0", 1), small)  # what is made once for all
    peaks = []
    for _ in range(3):  # what other threads of this process allocate meanwhile counts too
        tracemalloc.start()
        try:
            (target,) = (target for root in open_roots([path]) for target in assign(root))
            foreseen(target, small)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert min(peaks) < most_bytes * count


def test_a_quick_survey_reads_the_ends_of_a_small_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (log,) = make(tmp_path, partitions=1, segments_each=1, segment_bytes=200 << 10)
    segment = open_path(log)
    assert isinstance(segment, Segment)
    read: list[int] = []
    pread = os.pread

    def counted(descriptor: int, length: int, position: int) -> bytes:
        data = pread(descriptor, length, position)
        read.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counted)
    seen = quick_survey(segment, sealed=True, mapped=True)
    whole = survey(segment, lambda _: None, mapped=False, sealed=True, deep=False)
    assert (seen.first_offset, seen.last_offset) == (whole.first_offset, whole.last_offset)
    assert sum(read) < 100 << 10 < seen.size


def test_undecided_gaps_are_listed_up_to_a_limit_and_counted(tmp_path: Path) -> None:
    verdict = foreseen(empty_segments(tmp_path / "t-0", 1_000), Small.HEADERS)
    gaps = [finding for finding in verdict.findings if finding.code is OFFSETS_MISSING]
    assert len(gaps) == 100
    assert sum(1 + finding.repeats for finding in gaps) == 999


@pytest.mark.nightly
@pytest.mark.parametrize("command", ["verify", "next-start"])
def test_a_hundred_thousand_segments(command: str, tmp_path: Path) -> None:
    empty_segments(tmp_path / "t-0", 100_000)
    argv = [sys.executable, "-c", MEASURED, command, str(tmp_path / "t-0")]
    ran = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True)
    code, seconds, most_kib = json.loads(ran.stderr.splitlines()[-1])
    assert code in (exits.OK, exits.PROBLEMS)
    assert seconds < 60
    assert most_kib < 300_000
