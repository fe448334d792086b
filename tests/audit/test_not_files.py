"""Links to nothing, directories and special files in the place of a partition's files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from audit.not_files import FAILS, NAMES, SHAPES, SOURCE, STATES, plant
from support.commands import kdump
from support.fixtures_loader import copy_fixture
from support.forge_metadata import METADATA
from support.long_samples import first_of

Modes = tuple[tuple[str, ...], ...]
MODES: tuple[Modes, ...] = (
    (("next-start",), ("verify",)),
    (("next-start", "--scan"), ("verify", "--quick")),
)
#: Each command in one of its two modes; the other ones are ``slow``.
WAYS = pytest.mark.parametrize("modes", first_of(MODES, every=1), ids=["plain", "other"])
QUICK = (("next-start",), ("verify", "--quick"))
VERSION = "4.3.1"


@WAYS
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_no_file_is_forecast_as_brokers_take_it(
    shape: str, state: str, modes: Modes, tmp_path: Path
) -> None:
    """A partition for each name, in one log directory without lines in checkpoints."""
    source = copy_fixture(f"{VERSION}/clean", tmp_path / "source")
    data = tmp_path / "data"
    data.mkdir()
    (data / "meta.properties").write_bytes((source / "meta.properties").read_bytes())
    if state == "clean":
        (data / ".kafka_cleanshutdown").touch()
    for number, name in enumerate(NAMES):
        plant(source, data / f"codec-none-{number}", name, shape)
    for mode in modes:
        ran = kdump(*mode, data, searching=False)
        starts = {line["partition"]: line for line in ran.of("forecast")}
        failing = {
            name for number, name in enumerate(NAMES) if starts[number]["outcome"] != "starts"
        }
        expected = {name for name in NAMES if state in FAILS.get((name, shape), ())}
        if state == "killed" and mode in QUICK:
            expected.discard("snapshot")  # where recovery ends, and writes one, is not known
        assert (mode, ran.code, failing) == (mode, 4, expected)


#: Names in a log directory, and the shapes in their place that stop a broker.
BESIDE: dict[str, set[str]] = {
    ".lock": {"nothing", "circle", "socket"},
    "recovery-point-offset-checkpoint": {"nothing", "circle", "new", "socket"},
    "meta.properties": {"nothing", "circle", "new", "socket"},
    ".kafka_cleanshutdown": set(),
    f"{METADATA}/{0:020}.index": {"nothing", "circle", "socket"},
    f"{METADATA}/{0:020}.timeindex": {"nothing", "circle", "socket"},
    f"{METADATA}/{0:020}.log": {"nothing", "circle", "socket"},
    f"{METADATA}/leader-epoch-checkpoint": {"nothing", "circle", "new", "socket"},
    f"{METADATA}/partition.metadata": {"socket"},
    f"{METADATA}/quorum-state": {"socket"},
    f"{METADATA}/00000000000000000303-0000000002.checkpoint": {"circle", "socket"},
    f"{METADATA}/00000000000000000118-0000000001.checkpoint": set(),
}


def beside() -> Iterator[object]:
    """Each name and shape; a link that does what one to nothing does is ``slow``."""
    for name, stopping in BESIDE.items():
        for shape in ("nothing", "circle", "new", "socket"):
            alike = (shape in stopping) == ("nothing" in stopping)
            marks = (pytest.mark.slow,) if alike and shape in ("circle", "new") else ()
            yield pytest.param(name, stopping, shape, marks=marks, id=f"{name}-{shape}")


@WAYS
@pytest.mark.parametrize(("name", "stopping", "shape"), [*beside()])
def test_what_is_no_file_beside_the_logs_of_topics_is_forecast_too(
    name: str, stopping: set[str], shape: str, modes: Modes, tmp_path: Path
) -> None:
    data = copy_fixture(f"{VERSION}/clean", tmp_path / "data")
    (data / name).unlink(missing_ok=True)
    SHAPES[shape](data / name)
    for mode in modes:
        ran = kdump(*mode, data, searching=False)
        (summary,) = ran.of("summary")
        starts = [start["outcome"] for start in summary["next_starts"]]
        # A metadata log that a broker creates anew lacks what it had.
        lost = (name, shape) == (f"{METADATA}/{0:020}.log", "new")
        assert (mode, starts != ["starts"], ran.code in (4, 5)) == (
            mode,
            shape in stopping,
            shape in stopping or lost,
        )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("name", "offsets"),
    [("first-log", {"first": 0, "last": 59}), ("log", {"first": 60, "last": 121})],
)
def test_what_is_no_log_is_named(
    name: str, offsets: dict[str, int], shape: str, tmp_path: Path
) -> None:
    """Its segment is missing for a broker, which starts."""
    source = copy_fixture(f"{VERSION}/clean", tmp_path / "source")
    data = copy_fixture(f"{VERSION}/clean", tmp_path / "data")
    shutil.rmtree(data / SOURCE)
    plant(source, data / SOURCE, name, shape)
    for mode in (("verify", "--quick"), ("verify",)):
        ran = kdump(*mode, data, searching=False)
        (found,) = (line for line in ran.of("finding") if line["code"] == "log-is-no-file")
        assert (found["severity"], found["path"]) == ("error", str(data / SOURCE / NAMES[name]))
        assert found["offsets"] == offsets
        (start,) = (line for line in ran.of("forecast") if line["topic"] == "codec-none")
        assert start["outcome"] == "starts"
    (said,) = kdump("next-start", data, searching=False).of("summary")
    assert said["exit"] == 4


def test_the_end_of_a_log_that_nothing_shows_is_unknown(tmp_path: Path) -> None:
    source = copy_fixture(f"{VERSION}/clean", tmp_path / "source")
    plant(source, tmp_path / SOURCE, "log", "nothing")
    for path in (tmp_path / SOURCE).iterdir():
        if path.suffix == ".snapshot" or path.name == "leader-epoch-checkpoint":
            path.unlink()
    ran = kdump("verify", tmp_path / SOURCE, searching=False)
    (found,) = (line for line in ran.of("finding") if line["code"] == "log-is-no-file")
    assert (ran.code, found["offsets"]) == (4, {"first": 60, "last": None})


def test_a_link_below_the_log_start_offset_has_no_record(tmp_path: Path) -> None:
    data = copy_fixture(f"{VERSION}/clean", tmp_path / "data")
    for path in (data / SOURCE).glob(f"{0:020}.*"):
        path.unlink()
    (data / SOURCE / NAMES["first-log"]).symlink_to("/not mounted/file")
    (data / "log-start-offset-checkpoint").write_text("0\n1\ncodec-none 0 60\n")
    codes = {line["code"] for line in kdump("verify", data, searching=False).of("finding")}
    assert "log-is-no-file" not in codes


@WAYS
@pytest.mark.parametrize("shape", ["nothing", "circle", "new"])
def test_a_link_to_nothing_in_place_of_the_topic_id_counts_as_none(
    shape: str, modes: Modes, tmp_path: Path
) -> None:
    data = copy_fixture(f"{VERSION}/clean", tmp_path / "data")
    (data / SOURCE / "partition.metadata").unlink()
    SHAPES[shape](data / SOURCE / "partition.metadata")
    for mode in modes:
        ran = kdump(*mode, data, searching=False)
        assert ran.code == 4
        if mode[0] == "verify":
            assert "topic-id-missing" in {line["code"] for line in ran.of("finding")}


def test_a_link_to_nothing_is_no_clean_shutdown_file(tmp_path: Path) -> None:
    data = copy_fixture(f"{VERSION}/clean", tmp_path / "data")
    (data / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (data / ".kafka_cleanshutdown").symlink_to("/not mounted/file")
    ran = kdump("next-start", data / SOURCE, searching=False)
    assert [line["reads_bytes"] > 0 for line in ran.of("forecast")] == [True]
