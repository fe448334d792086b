"""Reading a large segment beside a broker leaves the page cache exactly as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.audit.survey.survey import survey
from kdump.storage import source
from kdump.storage.logdir import read_partition
from storage.caching import assert_left_as_it_was, bring_in, cached, drop_cache
from support import forge

MIB = 1 << 20


def write_segment(log_directory: Path, size_mib: int) -> Path:
    """A partition with a segment of some ``size_mib``, and an empty one after it."""
    directory = forge.write_partition(log_directory, "large", 0, {0: [], size_mib: []})
    log = directory / f"{0:020d}.log"
    with log.open("wb") as file:
        for offset in range(size_mib):
            value = offset.to_bytes(4, "big") * (MIB // 4 - 25)
            file.write(forge.batch(offset, [forge.record(value)]))
    return log


@pytest.mark.parametrize(
    "size_mib", [64, pytest.param(1024, marks=pytest.mark.nightly)], ids=lambda size: f"{size}-MiB"
)
@pytest.mark.parametrize("way", ["direct", "advised"])
def test_a_scrub_leaves_the_page_cache_as_it_was(
    size_mib: int, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not source._O_DIRECT:
        pytest.skip("needs Linux")
    log = write_segment(tmp_path, size_mib)
    segment = read_partition(log.parent).segments[0]
    if way == "advised":
        monkeypatch.setattr(source, "_O_DIRECT", 0)

    def scrub() -> None:
        found = survey(segment, lambda _: None, mapped=False, sealed=True, deep=False)
        assert (found.batches, found.read_bytes) == (size_mib, log.stat().st_size)

    drop_cache(log)
    if any(cached(log)):
        pytest.skip("the file system of the test keeps its files in memory")
    scrub()
    assert sum(cached(log)) == 0

    bring_in(log, 5 * MIB + 8192, 2 * MIB)
    bring_in(log, 17 * MIB, 4096)
    bring_in(log, log.stat().st_size - MIB, MIB)
    before = cached(log)
    assert 700 <= sum(before) < 1000  # some of them together with others in one window
    scrub()
    assert_left_as_it_was(before, cached(log))
