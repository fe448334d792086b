"""The catalogue of starts that fail: each row is forecast in every mode that can see it."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from audit.fatal_starts import (
    MODES,
    RESTORED,
    ROWS,
    VERSION,
    FatalStart,
    appended,
    bootstrap,
    states,
)
from kdump.audit.facts.settings import read_config
from support import forge_metadata
from support.commands import kdump
from support.fixtures_loader import copy_fixture
from support.forge_metadata import METADATA
from support.long_samples import first_of
from support.pipeline import judge


def missed(row: FatalStart, state: str, tmp_path: Path, user: int = 0) -> list[str]:
    """The modes that do not forecast the row; the log directory is of ``user``."""
    data, config = states(row, state, tmp_path, user)
    wrong = []
    for mode in MODES:
        if mode in row.unseen:
            continue
        ways: list[list[str | Path]] = [["--config", config]]
        if not row.by_config:
            ways.append([data])
        for way in ways:
            ran = kdump(*mode, *way, searching=False)
            (summary,) = ran.of("summary")
            outcomes = {start["outcome"] for start in summary["next_starts"]}
            found = {line["code"] for line in ran.of("finding")}
            named = mode[0] == "next-start" or mode in row.unnamed or row.code in found
            absent = row.code.startswith("log-directory-")  # it has no forecast of its own
            if ran.code != 4 or not named or (row.outcome not in outcomes and not absent):
                wrong.append(f"{mode} {way}: {ran.code} {outcomes} {sorted(found)} {ran.said}")
    return wrong


@pytest.mark.parametrize("state", ["clean", "killed"])
@pytest.mark.parametrize("row", first_of(ROWS, every=40), ids=lambda row: row.name)
def test_each_row_is_forecast_in_every_mode(row: FatalStart, state: str, tmp_path: Path) -> None:
    assert missed(row, state, tmp_path) == []


#: A row of each code and kind of name that every mode sees in the one directory.
KINDS = {
    (row.code, row.name.partition("-")[0]): row
    for row in ROWS
    if not (row.unnamed or row.unseen or row.name.startswith("second-"))
    and not row.code.startswith("log-directory-")
}


@pytest.mark.parametrize("row", KINDS.values(), ids=lambda row: row.name)
def test_the_checks_find_a_row_of_each_kind(row: FatalStart, tmp_path: Path) -> None:
    data, config = states(row, "clean", tmp_path)
    found = judge(data, config=read_config(config))
    assert row.code in {finding.code.name for finding in found}


@pytest.mark.root
@pytest.mark.parametrize("state", ["clean", "killed"])
@pytest.mark.parametrize("row", first_of(RESTORED, every=4), ids=lambda row: row.name)
def test_each_row_about_rights_is_forecast(row: FatalStart, state: str, tmp_path: Path) -> None:
    assert missed(row, state, tmp_path, pwd.getpwnam("nobody").pw_uid) == []


@pytest.mark.parametrize(
    ("name", "stops"),
    [("record-no-topic", False), ("record-topic-twice", False), ("record-short", True)],
)
def test_a_node_without_a_controller_stops_only_at_what_it_cannot_read(
    name: str, stops: bool, tmp_path: Path
) -> None:
    (row,) = (row for row in ROWS if row.name == name)
    data, config = states(row, "clean", tmp_path)
    config.write_text(f"node.id=1\nprocess.roles=broker\nlog.dirs={data}\n")
    ran = kdump("next-start", "--config", config, searching=False)
    assert ran.code == (4 if stops else 0)


@pytest.mark.parametrize("name", [".kafka_cleanshutdown", f"{METADATA}/quorum-state.tmp"])
def test_an_empty_directory_that_a_start_removes_stops_nothing(name: str, tmp_path: Path) -> None:
    data = copy_fixture(f"{VERSION}/clean", tmp_path / "data")
    (data / name).unlink(missing_ok=True)
    (data / name).mkdir()
    ran = kdump("next-start", data, searching=False)
    (summary,) = ran.of("summary")
    assert [start["outcome"] for start in summary["next_starts"]] == ["starts"]


@pytest.mark.parametrize(
    ("level", "codes"),
    [(6, {"metadata-version-old"}), (7, set()), (21, set()), (22, {"feature-unsupported"})],
)
def test_the_release_that_registered_decides_about_the_metadata_version(
    level: int, codes: set[str], tmp_path: Path
) -> None:
    data = copy_fixture("3.9.1/clean", tmp_path / "data")
    appended(forge_metadata.feature("metadata.version", level))(data)
    ran = kdump("verify", "--quick", "--info", data, searching=False)
    found = {line["code"] for line in ran.of("finding")}
    assert found & {"metadata-version-old", "feature-unsupported"} == codes


@pytest.mark.parametrize(
    ("version", "level", "codes"),
    [
        ("3.9.1", 23, set()),  # a level of 4.0, which 3.9 knew as one to come
        ("3.9.1", 24, {"feature-unsupported"}),
        # Releases from 4.1 on read the level when they begin a metadata log.
        ("4.3.1", 100, set()),
    ],
)
def test_a_release_up_to_4_0_refuses_a_level_that_it_does_not_know_in_bootstrap_checkpoint(
    version: str, level: int, codes: set[str], tmp_path: Path
) -> None:
    data = copy_fixture(f"{version}/clean", tmp_path / "data")
    (data / "bootstrap.checkpoint").write_bytes(bootstrap(level))
    for mode in MODES:
        ran = kdump(*mode, data, searching=False)
        (summary,) = ran.of("summary")
        outcomes = {start["outcome"] for start in summary["next_starts"]}
        assert ("refuses" in outcomes) == bool(codes)
        assert mode[0] == "next-start" or codes == {
            line["code"] for line in ran.of("finding") if line["severity"] == "error"
        }


def test_names_are_unique() -> None:
    assert len({row.name for row in (*ROWS, *RESTORED)}) == len(ROWS) + len(RESTORED)
