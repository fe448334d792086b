"""The metrics of a scrub, read by Prometheus's own parser."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kdump.commands.scrub.metrics import metrics_lines
from kdump.errors import StateError
from kdump.history.records import DirectoryRun, DirectoryStatus, EndReason, PastRun
from kdump.output.files import replace_file
from support.scrubs import World, rewrite, status

Samples = dict[tuple[str, str, str], float]


def samples(text: str) -> Samples:
    """The samples by name, path and code; every metric is a gauge with a help."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert (family.type, family.documentation[-1]) == ("gauge", ".")
        # The name ends with a unit of Prometheus's, or counts what it names.
        assert re.fullmatch(r"kdump_scrub_(\w+_(seconds|bytes|code)|findings)", family.name), (
            family.name
        )
        for sample in family.samples:
            key = sample.name.removeprefix("kdump_scrub_"), sample.labels["log_dir"]
            found[*key, sample.labels.get("code", "")] = sample.value
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
