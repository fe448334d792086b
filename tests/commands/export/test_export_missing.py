"""Offsets that a log lacks: an export names them, and does not end as if it had all records."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from kdump.audit.facts.settings import Overrides
from kdump.audit.targets.context import Context
from kdump.commands.export.command import _report
from kdump.commands.export.manifest import Manifest
from kdump.storage.selection import Selection
from support.commands import kdump
from support.crashing.running import run
from support.exports import exported, lines_of, one_batch
from support.fixtures_loader import copy_fixture
from support.forge import batch, checkpoint, message, record, wrapper, write_partition
from support.long_samples import first_of, wrong_seeds
from support.losses import NAMES, Losses, places
from support.metadata_ends import CHANGES as METADATA_CHANGES
from support.metadata_ends import vanished_with_indexes

pytestmark = pytest.mark.once

FEW: Final = 30
MISSING: Final = re.compile(r"offsets ([0-9., ]+) are missing")
#: A context in which all topics have configs, and none is compacted.
NEVER: Final = Context(now_ms=0, wanted=Overrides(compacted=False))


def offsets_in(manifest: dict[str, Any]) -> set[int]:
    """The offsets that troubles call missing."""
    reasons = [trouble["reason"] for trouble in manifest["troubles"]]
    named = (MISSING.fullmatch(reason) for reason in reasons)
    pairs = [pair.split("..") for found in named if found for pair in found[1].split(", ")]
    return {offset for first, last in pairs for offset in range(int(first), int(last) + 1)}


def reasons(manifest: Manifest) -> list[str]:
    return [trouble.reason for trouble in manifest.troubles]


def wrong(seed: int, top: Path) -> list[str]:
    """What an export says wrongly after losses by a seed, with and without transactions."""
    name = NAMES[seed % len(NAMES)]
    directory = copy_fixture("4.3.1/clean", top / "data")
    everything = {
        offset
        for log in sorted((directory / name).glob("*.log"))
        for place in places(log)
        for offset in place.offsets
    }
    lost = Losses(seed, directory / name).lost
    to, more = top / "out", ("--read-committed",) if seed % 2 and name != "transactions-0" else ()
    arguments = "--format", "jsonl", "--topic", name.rpartition("-")[0], *more, "--to", to
    ran = run(["export", str(directory), *map(str, arguments)], searching=False)
    said = []
    if ran.code != (4 if lost else 0):
        said.append(f"{name}: exit code {ran.code}: {ran.out}")
    if run(["check", str(to)], searching=False).code != ran.code:
        said.append(f"{name}: check takes it for whole")
    manifest = json.loads((to / "_manifest.json").read_text())
    if named := offsets_in(manifest) - lost:
        said.append(f"{name}: {sorted(named)} are not missing")
    records = len(everything - lost)
    if manifest["records"] != records and not more:
        said.append(f"{name}: {manifest['records']} records, expected {records}")
    return said


@pytest.mark.parametrize("seed", first_of(range(FEW), 10, every=1))
def test_an_export_is_whole_only_if_nothing_is_lost(seed: int, tmp_path: Path) -> None:
    assert wrong(seed, tmp_path) == []


@pytest.mark.nightly
def test_an_export_is_whole_only_if_nothing_is_lost_in_many_logs(tmp_path: Path) -> None:
    assert wrong_seeds(wrong, tmp_path, FEW, 1000) == {}


def partition(top: Path, *bases: int, segments: int = 1) -> Path:
    """A partition with batches of three records at ``bases``, and no config of its topic."""
    per = -(-len(bases) // segments)
    parts = [bases[at : at + per] for at in range(0, len(bases), per)]
    made = {part[0]: [one_batch(base) for base in part] for part in parts}
    top.mkdir()
    return write_partition(top, "orders", 0, made)


@pytest.mark.parametrize(
    ("bases", "segments", "missing"),
    [
        ((0, 3, 6, 9), 2, None),
        ((0, 3, 9, 12), 1, "6..8"),
        ((0, 3, 9, 12), 2, "6..8"),
        ((0, 6, 12, 15), 2, "3..5, 9..11"),
    ],
)
@pytest.mark.parametrize("more", [{}, {"read_committed": True}, {"dedupe_replicas": True}])
def test_missing_offsets_are_named(
    bases: tuple[int, ...],
    segments: int,
    missing: str | None,
    more: dict[str, bool],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = partition(tmp_path / "data", *bases, segments=segments)
    manifest = exported([path], tmp_path / "out", context=NEVER, **more)
    assert [line["offset"] for line in lines_of(tmp_path / "out", manifest)] == [
        offset for base in bases for offset in range(base, base + 3)
    ]
    named = ", ".join(found[1] for found in map(MISSING.fullmatch, reasons(manifest)) if found)
    assert named == (missing or "")
    assert _report(manifest, quiet=False) == (4 if missing else 0)
    assert "unknown configs" not in capsys.readouterr().out
    assert run(["check", str(tmp_path / "out")], searching=False).code == (4 if missing else 0)


def test_of_unknown_configs_it_says_that_it_did_not_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = partition(tmp_path / "data", 0, 6)
    manifest = exported([path], tmp_path / "out")
    assert (manifest.troubles, manifest.partitions[0].compacted) == ((), None)
    assert _report(manifest, quiet=False) == 0
    assert (
        "Not all missing offsets can be seen in 1 partition: unknown configs"
        in capsys.readouterr().out
    )


def test_compaction_leaves_gaps(tmp_path: Path) -> None:
    path = partition(tmp_path / "data", 0, 6)
    compacted = Context(now_ms=0, wanted=Overrides(compacted=True))
    manifest = exported([path], tmp_path / "out", context=compacted)
    assert (manifest.troubles, manifest.partitions[0].compacted) == ((), True)


def test_another_replica_has_them(tmp_path: Path) -> None:
    """What all replicas lack is missing, and without --dedupe-replicas what one of them lacks."""
    paths = [
        partition(tmp_path / "1", 0, 6, 12),
        partition(tmp_path / "2", 0, 3, 12),
    ]
    merged = exported(paths, tmp_path / "merged", context=NEVER, dedupe_replicas=True)
    offsets = sorted(line["offset"] for line in lines_of(tmp_path / "merged", merged))
    assert offsets == [*range(9), *range(12, 15)]
    assert reasons(merged) == ["offsets 9..11 are missing"] * 2
    apart = exported(paths, tmp_path / "apart", context=NEVER)
    assert reasons(apart) == ["offsets 3..5, 9..11 are missing", "offsets 6..11 are missing"]


@pytest.mark.parametrize(
    ("first", "last", "missing"),
    [(0, 5, []), (0, 6, ["6..8"]), (8, 20, ["6..8"]), (9, 20, []), (12, 12, [])],
)
def test_offsets_that_are_not_selected_are_not_missing(
    first: int, last: int, missing: list[str], tmp_path: Path
) -> None:
    path = partition(tmp_path / "data", 0, 3, 9, 12)
    selection = Selection(first_offset=first, last_offset=last)
    manifest = exported([path], tmp_path / "out", context=NEVER, selection=selection)
    assert reasons(manifest) == [f"offsets {each} are missing" for each in missing]


@pytest.mark.parametrize(("start", "missing"), [(3, "6..8"), (7, "7..8"), (9, None)])
def test_offsets_below_the_log_start_are_not_missing(
    start: int, missing: str | None, tmp_path: Path
) -> None:
    path = partition(tmp_path / "data", 0, 3, 9, 12)
    (path.parent / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    rows = checkpoint([("orders", 0, start)])
    (path.parent / "log-start-offset-checkpoint").write_bytes(rows)
    manifest = exported([path], tmp_path / "out", context=NEVER)
    assert reasons(manifest) == ([f"offsets {missing} are missing"] if missing else [])


def test_a_log_that_ends_below_its_high_watermark_lacks_the_rest(tmp_path: Path) -> None:
    path = partition(tmp_path / "data", 0, 3)
    (path.parent / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    rows = checkpoint([("orders", 0, 10)])
    (path.parent / "replication-offset-checkpoint").write_bytes(rows)
    assert reasons(exported([path], tmp_path / "out")) == ["offsets 6..9 are missing"]


def test_the_metadata_log_is_never_compacted(tmp_path: Path) -> None:
    directory = copy_fixture("4.3.1/clean", tmp_path / "data")
    manifest = exported([directory / "__cluster_metadata-0"], tmp_path / "out")
    assert (manifest.troubles, manifest.partitions[0].compacted) == ((), False)


def exported_from(
    data: Path, to: Path, *more: str, topic: str = "codec-none"
) -> tuple[int, list[str], str]:
    """The exit code of an export of a topic, its troubles, and what it prints."""
    arguments = ["export", "--format", "jsonl", "--topic", topic, "--to", str(to), *more]
    ran = run([*arguments, str(data)], searching=False)
    troubles = json.loads((to / "_manifest.json").read_text())["troubles"]
    return ran.code, [trouble["reason"] for trouble in troubles], ran.out


@pytest.mark.parametrize("more", [(), ("--read-committed",), ("--dedupe-replicas",)])
def test_the_first_segment_is_missing(more: tuple[str, ...], tmp_path: Path) -> None:
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    for path in (data / "codec-none-0").glob(f"{0:020}.*"):
        path.unlink()
    code, reasons, _ = exported_from(data, tmp_path / "out", *more)
    assert (code, reasons) == (4, ["offsets 0..59 are missing, before the first segment"])
    code, reasons, _ = exported_from(data, tmp_path / "above", *more, "--offsets", "60..200")
    assert (code, reasons) == (0, [])


def test_all_segments_are_missing(tmp_path: Path) -> None:
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    for path in (data / "codec-none-0").glob("*.log"):
        path.unlink()
    code, reasons, _ = exported_from(data, tmp_path / "out")
    assert (code, reasons) == (4, ["offsets 0..121 are missing, before the first segment"])


@pytest.mark.parametrize("more", [(), ("--read-committed",), ("--dedupe-replicas",)])
def test_a_whole_partition_is_missing(more: tuple[str, ...], tmp_path: Path) -> None:
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    shutil.rmtree(data / "codec-none-0")
    code, reasons, out = exported_from(data, tmp_path / "out", *more, topic="codec-*")
    where = f"no directory in {data}, where the cluster's metadata or a checkpoint has it"
    assert (code, reasons) == (4, [f"offsets 0..121 are missing: {where}"])
    assert f"damage: {data}/codec-none-0: offsets 0..121 are missing: " in out
    assert run(["check", str(tmp_path / "out")], searching=False).code == 4
    above = (*more, "--offsets", "122..200")
    assert exported_from(data, tmp_path / "above", *above, topic="codec-*")[:2] == (0, [])


def test_all_partitions_are_missing(tmp_path: Path) -> None:
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    for path in data.glob("*-[0-9]"):
        shutil.rmtree(path)
    ran = run(["export", "--format", "jsonl", "--to", str(tmp_path / "out"), str(data)])
    assert ran.code == 5
    assert len(ran.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_what_one_broker_knows_of_a_topic_counts_for_all(tmp_path: Path) -> None:
    """Both lack a batch, and one has no metadata log."""
    first = copy_fixture("4.3.1/clean", tmp_path / "1")
    log = first / "codec-none-0" / f"{0:020}.log"
    data = log.read_bytes()
    gone = places(log)[2]
    log.write_bytes(data[: gone.position] + data[gone.end :])
    second = tmp_path / "2"
    shutil.copytree(first, second)
    shutil.rmtree(second / "__cluster_metadata-0")
    for number, pair in enumerate(((first, second), (second, first))):
        arguments = ["--format", "jsonl", "--topic", "codec-none", "--dedupe-replicas"]
        ran = run(
            ["export", *arguments, "--to", str(tmp_path / f"out{number}"), *map(str, pair)],
            searching=False,
        )
        assert ran.code == 4
        assert f"offsets {gone.base}..{gone.last} are missing" in ran.out


@pytest.mark.parametrize(
    ("last", "sure"),
    [
        (batch(9, [record(), record(), record()]), True),
        (batch(9, [record(), record(offset_delta=2)]), False),  # as the cleaner leaves it
        (message(9), True),
        (wrapper(11, [message(number) for number in range(3)], codec="gzip"), False),
    ],
    ids=["whole", "short", "message", "wrapper"],
)
def test_what_hides_missing_offsets_is_said(
    last: bytes, sure: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir()
    batches = [one_batch(0), one_batch(6), last]
    path = write_partition(tmp_path / "data", "orders", 0, {0: batches})
    manifest = exported([path], tmp_path / "out", context=NEVER)
    assert manifest.partitions[0].compacted is (False if sure else None)
    _report(manifest, quiet=False)
    assert ("Not all missing offsets can be seen" in capsys.readouterr().out) is not sure
    if sure:
        assert reasons(manifest) == ["offsets 3..5 are missing"]


METADATA: Final = "__cluster_metadata"


@pytest.mark.parametrize("change", METADATA_CHANGES)
@pytest.mark.parametrize("release", first_of(["4.3.1", "3.9.1", "4.4.0"], every=1))
def test_the_end_of_the_metadata_log_is_missing(release: str, change: str, tmp_path: Path) -> None:
    data = copy_fixture(f"{release}/clean", tmp_path / "data")
    METADATA_CHANGES[change](data)
    found = kdump("verify", data, searching=False).of("finding")
    (lost,) = (each["offsets"] for each in found if each["code"] == "metadata-end-missing")
    expected = [f"offsets {lost['first']}..{lost['last']} are missing, at the end of the log"]
    code, reasons, _ = exported_from(data, tmp_path / "out", topic=METADATA)
    assert (code, reasons) == (4, expected)
    assert kdump("check", tmp_path / "out").code == 4
    before = f"0..{lost['first'] - 1}"
    code, reasons, _ = exported_from(data, tmp_path / "above", "--offsets", before, topic=METADATA)
    assert (code, reasons) == (0, [])
    shutil.copytree(data / f"{METADATA}-0", tmp_path / "alone" / f"{METADATA}-0")
    alone = tmp_path / "alone" / f"{METADATA}-0"
    code, reasons, _ = exported_from(alone, tmp_path / "of", topic=METADATA)
    assert (code, reasons) == (4, expected)


@pytest.mark.parametrize("fixture", ["3.9.1/killed", "4.3.1/clean", "4.3.1/killed", "4.4.0/killed"])
def test_a_metadata_log_is_whole(fixture: str, tmp_path: Path) -> None:
    data = copy_fixture(fixture, tmp_path / "data")
    assert exported_from(data, tmp_path / "out", topic=METADATA)[:2] == (0, [])


def test_a_node_that_fetches_lacks_the_end_of_the_metadata_log_too(tmp_path: Path) -> None:
    """For its next startup that is no error; for what an export has it is."""
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    vanished_with_indexes(data)
    meta = data / "meta.properties"
    meta.write_text(re.sub("node.id=.*", "node.id=77", meta.read_text()))
    codes = {each["code"] for each in kdump("verify", data, searching=False).of("finding")}
    assert "metadata-end-behind" in codes
    code, reasons, _ = exported_from(data, tmp_path / "out", topic=METADATA)
    assert code == 4
    assert reasons[0].endswith("are missing, at the end of the log")


@pytest.mark.parametrize("lines", [True, False])
def test_a_future_log_alone_is_not_exported(lines: bool, tmp_path: Path) -> None:
    """Startup makes it the current log; it is no log of the partition before."""
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    future = data / f"codec-none-0.{'0' * 32}-future"
    (data / "codec-none-0").rename(future)
    if not lines:
        for path in data.glob("*-checkpoint"):
            path.write_text("0\n0\n")
    code, reasons, _ = exported_from(data, tmp_path / "out")
    offsets = "offsets 0..121" if lines else "offset 0 and later"
    why = f"{future}, before a startup of the broker decides over it"
    expected = f"{offsets} are in a -future log, not read: {why}"
    assert (code, reasons) == (5, [expected])
    assert kdump("check", tmp_path / "out").code == 5
    assert exported_from(data, tmp_path / "zstd", topic="codec-zstd")[:2] == (0, [])
    # With the log of another broker, or a current log in another directory of this one, it is.
    copy_fixture("4.3.1/clean", tmp_path / "other")
    code, reasons, _ = exported_from(data, tmp_path / "both", str(tmp_path / "other"))
    assert (code, reasons) == (0, [])


def test_a_future_log_beside_its_current_log_is_left_out(tmp_path: Path) -> None:
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    other = tmp_path / "other"
    other.mkdir()
    meta = (data / "meta.properties").read_text()
    named = re.sub("directory.id=.*", "directory.id=AAABBBCCCDDDEEEFFFGGGw", meta)
    (other / "meta.properties").write_text(named)
    shutil.copytree(data / "codec-none-0", other / "codec-none-0")
    (data / "codec-none-0").rename(data / f"codec-none-0.{'0' * 32}-future")
    code, reasons, _ = exported_from(data, tmp_path / "out", str(other))
    assert (code, reasons) == (0, [])
