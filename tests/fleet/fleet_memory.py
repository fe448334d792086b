"""``verify`` on Spark of partitions that are not there: what the driver and its JVM hold.

Executors list log directories of ``EACH`` partitions that exist nowhere, and give for each of them
the verdict on a real one. All the rest is as ever: jobs, results, and the report.

``python fleet_memory.py BROKERS TOP`` prints the largest resident size of this process, and what is
left in the heap of the JVM after a collection, both in bytes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

EACH = 4000


def list_absent(path: Path, order: Any) -> Any:
    """In the place of ``_list_path``: a log directory with its checkpoints, and its targets."""
    from kdump.audit.facts.small_files import DirectoryFacts, Offsets, Read
    from kdump.audit.targets.target import Root, Target
    from kdump.fleet.verify.listing import _Part
    from kdump.fleet.verify.packed import pack_root
    from kdump.fleet.verify.packed_targets import PackedTargets
    from kdump.storage.liveness import BrokerState, Liveness
    from kdump.storage.logdir import LogDirectory, Partition, Segment, directory_name

    topic = f"events-of-{path.name}"
    paths = tuple(path / f"{topic}-{number}" for number in range(EACH))
    lines = {(topic, number): number * 7919 for number in range(EACH)}
    stopped = Liveness(BrokerState.STOPPED, "a test says so")
    content = LogDirectory(path, paths, ())
    points: Read[Offsets] = Read(path / "points", dict(lines))
    marks: Read[Offsets] = Read(path / "marks", dict(lines))
    facts = DirectoryFacts(content, stopped, True, None, points, marks, None, None, None)
    root = pack_root(Root(path, content, stopped, facts))

    def target(where: Path) -> Target:
        log, index, times = (where / f"{0:020d}{end}" for end in (".log", ".index", ".timeindex"))
        segments = (Segment(0, log, index, times, None, None, ""),)
        partition = Partition(where, directory_name(where), segments, (), ())
        return Target(where, segments, None, True, 0, None, partition, root.directory)

    return (_Part(root, PackedTargets.of(map(target, paths))),)


def verify_absent(task: Any, conclude: Any, found: Any) -> Any:
    """In the place of ``run_task``: the result ``found``, with another path and other numbers."""
    path, verdict = task.target.path, found.conclusion
    offset = hash(path) % 10**12  # what differs compresses worse
    verdict = replace(
        verdict,
        target=replace(verdict.target, path=path),
        forecast=replace(verdict.forecast, log_end_offset=offset),
        covered=replace(verdict.covered, records=offset),
    )
    (line,) = found.lines
    return replace(found, conclusion=verdict, lines=(replace(line, path=path / line.path.name),))


def measure(brokers: int, top: Path) -> dict[str, int]:
    """Verify so many brokers' partitions."""
    from pyspark import cloudpickle

    from fleet import fleet_memory  # by its own name, also as a program
    from kdump.audit.run import target_tasks as task
    from kdump.audit.run.verification import Verification
    from kdump.audit.targets.context import Context
    from kdump.audit.targets.inventory import Inventory
    from kdump.audit.targets.target import assign, open_roots
    from kdump.audit.verdicts.next_start import Conclusion
    from kdump.cli.main import main
    from kdump.commands.verify import engine as verify_engine
    from kdump.fleet.verify import listing, verify
    from kdump.ui.options.spark import spark_session
    from support import forge

    forge.write_partition(top, "real", 0, {0: [forge.batch(0, [forge.record()])]})
    (root,) = open_roots([top / "real-0"])
    (target,) = assign(root)
    one = task.TargetTask(target, Inventory.of(target), Verification(Context(0)))
    conclude = task.WithoutDirectory(Conclusion(frozenset()))
    found = task.run_task(one, conclude=conclude)
    start, taken = spark_session, dict[str, int]()

    @contextmanager
    def watched(*arguments: Any) -> Iterator[Any]:
        with start(*arguments) as session:
            yield session
            java = cast("Any", session.spark)._jvm.java.lang
            java.System.gc()
            runtime = java.Runtime.getRuntime()
            taken["heap"] = runtime.totalMemory() - runtime.freeMemory()

    cloudpickle.register_pickle_by_value(fleet_memory)  # type: ignore[no-untyped-call]
    with (
        patch.object(verify_engine, "spark_session", watched),
        patch.object(listing, "_list_path", fleet_memory.list_absent),
        patch.object(verify, "run_task", partial(fleet_memory.verify_absent, found=found)),
    ):
        paths = [str(top / f"broker{number}") for number in range(brokers)]
        taken["code"] = main(["verify", "--master", "local[2]", "--format", "json", *paths])
    status = Path("/proc/self/status").read_text()
    taken["driver"] = int(status.partition("VmHWM:")[2].split()[0]) << 10
    return taken


if __name__ == "__main__":
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        measured = measure(int(sys.argv[1]), Path(sys.argv[2]))
    print(json.dumps(measured))
