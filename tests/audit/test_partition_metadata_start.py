"""What a start makes of a ``partition.metadata`` that a power loss leaves, by its content."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.commands import kdump, repair
from support.fixtures_loader import copy_fixture
from support.long_samples import first_of

NAME = "codec-none-0"
#: Content and the finding: the one stops the broker, the other takes the log directory offline.
CONTENTS = {
    "empty": (b"", "partition-metadata-fatal"),
    "line end": (b"\n", "partition-metadata-malformed"),
    "zeros": (bytes(43), "partition-metadata-malformed"),
    "first line": (b"version: 0\n", "partition-metadata-fatal"),
    "torn name": (b"version: 0\ntopic_", "partition-metadata-malformed"),
    "torn id": (b"version: 0\ntopic_id: cSIfB_6LTm", "partition-metadata-fatal"),
    "zeros as id": (b"version: 0\ntopic_id: " + bytes(22), "partition-metadata-fatal"),
    "no id": (b"version: 0\ntopic_id: not a uuid", "partition-metadata-fatal"),
    "zero id": (
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        "partition-metadata-malformed",
    ),
    "bytes": (b"version: 0\ntopic_id: \xff\xfe", "partition-metadata-malformed"),
}
OUTCOMES = {"partition-metadata-fatal": "refuses", "partition-metadata-malformed": "offline"}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("mode", first_of([("verify", "--quick"), ("next-start",)], every=1))
def test_each_content_is_forecast_after_an_unclean_stop(
    content: str, mode: tuple[str, ...], tmp_path: Path
) -> None:
    data = copy_fixture("4.3.1/killed", tmp_path / "data")
    written, code = CONTENTS[content]
    (data / NAME / "partition.metadata").write_bytes(written)
    command, *options = mode
    ran = kdump(command, *options, data)
    assert ran.code == 4
    (summary,) = ran.of("summary")
    assert [start["outcome"] for start in summary["next_starts"]] == [OUTCOMES[code]]
    if command == "verify":
        assert code in {found["code"] for found in ran.of("finding")}


def test_reindex_writes_what_the_metadata_log_has(tmp_path: Path) -> None:
    data = copy_fixture("4.3.1/killed", tmp_path / "data")
    file = data / NAME / "partition.metadata"
    before = file.read_bytes()
    for written, _ in CONTENTS.values():
        file.write_bytes(written)
        repair("reindex", data / NAME)
        assert file.read_bytes() == before
    assert kdump("next-start", data).code == 0
