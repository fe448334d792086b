"""The metrics of a scrub, read by Prometheus's own parser."""

from __future__ import annotations

import math
import os
import re
import stat
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kdump.audit.facts.space import Space
from kdump.audit.sizes.growth import HORIZONS, Growth
from kdump.audit.sizes.totals import DirectoryTotals
from kdump.commands.scrub.metrics import metrics_lines
from kdump.errors import StateError
from kdump.history.records import DirectoryRun, DirectoryStatus, EndReason, PastRun
from kdump.output.files import replace_file
from support.commands import kdump as command
from support.scrubs import World, rewrite, status

Samples = dict[tuple[str, str, str], float]


def samples(text: str) -> Samples:
    """The samples by name, path, and code or topic; every metric is a gauge with a help."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert (family.type, family.documentation[-1]) == ("gauge", ".")
        # The name ends with a unit of Prometheus's, or counts what it names.
        assert re.fullmatch(r"kdump_scrub_(\w+_(seconds|bytes|code)|findings)", family.name), (
            family.name
        )
        for sample in family.samples:
            key = sample.name.removeprefix("kdump_scrub_"), sample.labels["log_dir"]
            found[*key, sample.labels.get("code", sample.labels.get("topic", ""))] = sample.value
    return found


def of(path: str, *, success_ms: int | None = 5) -> DirectoryStatus:
    run = PastRun(1000, 2500, EndReason.DONE, 60)
    findings = {("error", "batch-crc-mismatch"): 3, ("warning", "segment-rewritten"): 1}
    return DirectoryStatus(
        1, Path(path), run, DirectoryRun(7, findings, 4), success_ms, 10, 5, 3, 2, None
    )


def test_they_are_what_the_run_reports(tmp_path: Path) -> None:
    world = World.make(tmp_path)
    log = world.log("codec-none-0")
    rewrite(log, log.read_bytes()[:-5] + b"x" * 5, silently=False)
    file = tmp_path / "kdump.prom"
    file.write_text("old")
    old = os.umask(0o077)
    try:
        ran = world.scrub("--prometheus", file)
    finally:
        os.umask(old)
    shown, path = status(ran), str(world.data)
    found = samples(file.read_text())
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert found["findings", path, "batch-crc-mismatch"] == 1
    assert found["last_run_timestamp_seconds", path, ""] == shown["end_ms"] / 1000
    assert found["oldest_read_timestamp_seconds", path, ""] == shown["oldest_ms"] / 1000
    assert found["last_run_exit_code", path, ""] == ran.code == 4
    assert found["max_age_seconds", path, ""] == 30 * 86_400
    for name, field in (
        ("last_run_read_bytes", "bytes"), ("log_bytes", "log_bytes"), ("due_bytes", "due_bytes"),
    ):  # fmt: skip
        assert found[name, path, ""] == shown[field]
    assert 0 < found["due_bytes", path, ""] == log.stat().st_size
    assert ("last_success_timestamp_seconds", path, "") not in found
    assert sorted(each.name for each in tmp_path.glob("*kdump.prom*")) == ["kdump.prom"]


def test_of_several_directories_and_odd_names() -> None:
    paths = ["/data/a", '/data/"b"\\\n', "/data/\udcff"]
    text = "".join(metrics_lines([of(path) for path in paths]))
    found = samples(text)
    shown = {path for _, path, _ in found}
    assert shown == {"/data/a", '/data/"b"\\\n', "/data/\\udcff"}
    for path in shown:
        assert found["findings", path, "segment-rewritten"] == 1
        assert found["last_run_duration_seconds", path, ""] == 1.5


def test_what_is_unknown_is_left_out() -> None:
    names = {name for name, _, _ in samples("".join(metrics_lines([of("/a", success_ms=None)])))}
    assert not {"last_success_timestamp_seconds", "oldest_read_timestamp_seconds"} & names
    assert "".join(metrics_lines([])) == ""


def test_where_it_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="cannot be written: No such file"):
        replace_file(tmp_path / "none" / "file", b"text", 0o644, None)
    target = tmp_path / "directory"
    target.mkdir()
    with pytest.raises(StateError, match="cannot be written: Is a directory"):
        replace_file(target, b"text", 0o644, None)
    assert list(tmp_path.iterdir()) == [target]
    world = World.make(tmp_path / "world")
    ran = world.scrub("--prometheus", tmp_path / "none" / "file")
    assert (ran.code, ran.lines) == (5, ())
    assert not world.state.exists()
    ran = world.scrub("--prometheus", target)  # found out at the end: the run counts
    assert ran.code == 5
    assert status(world.scrub())["bytes"] == 0


def totals(path: str, *, growth: Growth | None, free_bytes: int = 5) -> DirectoryTotals:
    space = Space(1, 100, free_bytes, None)
    return DirectoryTotals(
        Path(path),
        {"a": 7, "b": 0},
        None if growth is None else 3,
        None if growth is None else space,
        growth,
    )


def test_the_space_of_directories() -> None:
    """One directory fills its disk at one of its two rates, and of the other nothing is known."""
    filling = Growth(5, 0, tuple(range(len(HORIZONS))))
    known = [totals("/a", growth=filling), totals("/b", growth=None)]
    text = "".join(metrics_lines([of("/a"), of("/b")], known))
    found = samples(text)
    assert found["topic_bytes", "/a", "a"] == 7
    assert found["topic_bytes", "/b", "b"] == 0
    assert found["retention_overdue_bytes", "/a", ""] == 3
    assert found["file_system_free_bytes", "/a", ""] == 5
    assert found["full_earliest_seconds", "/a", ""] == HORIZONS[5] / 1000
    assert found["full_latest_seconds", "/a", ""] == math.inf
    assert 'kdump_scrub_full_latest_seconds{log_dir="/a"} +Inf\n' in text
    unknown = {"retention_overdue_bytes", "file_system_free_bytes", "full_earliest_seconds"}
    assert not {name for name, path, _ in found if path == "/b"} & unknown


def test_the_space_is_what_kdump_space_says(tmp_path: Path) -> None:
    world = World.make(tmp_path, "4.3.1/clean")
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={world.data}\nlog.retention.ms=1000\n")
    file, path = tmp_path / "kdump.prom", str(world.data)
    for log in world.data.glob("*/*.log"):
        os.utime(log, (1_790_000_000, 1_790_000_000))
    world.scrub("--prometheus", file, "--config", config)
    found = samples(file.read_text())
    ran = command("space", "--config", config, world.data, searching=False)
    for line in ran.of("topic"):
        assert found["topic_bytes", path, line["topic"]] == line["bytes"]
    (system,) = ran.of("file_system")
    assert 0 < found["file_system_free_bytes", path, ""] <= system["total_bytes"]
    for name in ("full_earliest_seconds", "full_latest_seconds"):
        assert found[name, path, ""] > 0
    assert found["retention_overdue_bytes", path, ""] >= 0
    bare = tmp_path / "bare.prom"
    world.scrub("--prometheus", bare)  # without the file, retention may be another one
    assert found.keys() - samples(bare.read_text()).keys() == {
        ("retention_overdue_bytes", path, "")
    }


def test_of_a_partition_alone_no_space_is_written(tmp_path: Path) -> None:
    world = World.make(tmp_path)
    file = tmp_path / "kdump.prom"
    partition = world.data / "codec-none-0"
    command("scrub", partition, "--state", world.state, "--prometheus", file, searching=False)
    assert not [name for name, _, _ in samples(file.read_text()) if name == "topic_bytes"]
