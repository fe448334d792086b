"""``kdump next-start``: what it prints and its exit codes."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import kdump.cli.main
from kdump.ui import exits
from support.crashing.running import run
from support.damaged import RECIPES
from support.fixtures_loader import copy_fixture
from support.forge_metadata import METADATA
from support.recipes_directory import RECIPES as DIRECTORY_RECIPES

pytestmark = pytest.mark.once


_SPACE = re.compile(r"disk [\d.]+ \w+ of [\d.]+ \w+ free, [\d,]+ inodes free")


class Cli:
    """Runs ``kdump next-start`` in this process and keeps what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def text(self, *arguments: str | Path, code: int) -> str:
        """What a run prints that ends with ``code``, without its breaks and the machine's space."""
        assert kdump.cli.main.main(["next-start", *map(str, arguments)]) == code
        printed = self.capsys.readouterr()
        assert printed.err == ""
        return _SPACE.sub("disk SPACE", " ".join(printed.out.split()))

    def json(self, *arguments: str | Path, code: int) -> list[dict[str, Any]]:
        """The objects of a run in JSON."""
        assert kdump.cli.main.main(["next-start", "--format", "json", *map(str, arguments)]) == code
        return [json.loads(line) for line in self.capsys.readouterr().out.splitlines()]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    copy_fixture("4.3.1/clean", Path("data"))
    return Path("data")


def test_a_clean_directory_starts_and_loses_nothing(cli: Cli, data: Path) -> None:
    assert cli.text("--scan", data, code=exits.OK) == (
        "OK 22 partitions; only what recovery reads was read. Startup recovers 18.94 KiB and "
        "removes no valid record. data startup nothing here stops the broker; recovery reads 18.94 "
        "KiB; removes no valid record disk SPACE recovers metadata log, at every startup: the last "
        "segment of 1 partition checked 22 partitions"
    )
    (start,) = cli.json("--scan", data, code=exits.OK)[-1]["next_starts"]
    counts = {key: start[key] for key in ("partitions", "partitions_total", "exact", "set_aside")}
    assert counts == {"partitions": 22, "partitions_total": 22, "exact": True, "set_aside": 0}


@pytest.mark.slow
def test_what_was_not_read_is_no_promise(cli: Cli, data: Path) -> None:
    text = cli.text(data, code=exits.OK)  # every start recovers the metadata log
    assert "22 partitions checked, 1 by its end alone; nothing seen that stops the broker; " in text
    (data / ".kafka_cleanshutdown").unlink()
    assert cli.text(data, code=exits.OK) == (
        "NOT CHECKED 22 partitions: nothing wrong in what was read (names, small files, ends of "
        "logs and indexes). Startup recovers at least 70.54 KiB; it may remove records. check with "
        "kdump next-start --scan data data startup 22 partitions checked, 22 by their ends alone; "
        "nothing seen that stops the broker; recovery reads at least 70.54 KiB; nothing seen that "
        "removes valid records disk SPACE recovers metadata log, at every startup: the last "
        "segment of 1 partition past the recovery point after an unclean shutdown: the last "
        "segment of 21 partitions checked 22 partitions, 22 of them by their ends alone (more with "
        "--scan)"
    )
    (start,) = cli.json(data, code=exits.OK)[-1]["next_starts"]
    assert not start["exact"]
    assert "startup nothing here stops the broker; recovery" in cli.text(
        "--scan", data, code=exits.OK
    )


def test_a_selection_is_not_the_whole_directory(cli: Cli, data: Path) -> None:
    (data / "transfers-0" / "abc.log").touch()
    text = cli.text("--topic", "codec*", data, code=exits.OK)
    assert "5 of 22 partitions checked; nothing seen that stops the broker; recovery" in text
    assert "the broker DOES NOT START" in cli.text(data, code=exits.PROBLEMS)


def test_a_partition_is_told_what_stands_in_its_directory(cli: Cli, data: Path) -> None:
    (data / "lost+found").mkdir()
    text = cli.text(data / "codec-none-0", code=exits.PROBLEMS)
    assert text.startswith("DO NOT START The broker DOES NOT START. No lost record was seen; ")
    assert "the broker DOES NOT START: data/lost+found: " in text
    assert "codec-none-0: removes no valid record; " in text
    summary = cli.json(data / "codec-none-0", code=exits.PROBLEMS)[-1]
    assert [reason["path"] for reason in summary["reasons"]] == ["data/lost+found"]


def test_what_is_not_there_is_named(cli: Cli, data: Path) -> None:
    for paths, part in ((["nosuch"], ""), ([str(data), "nosuch"], "UNREAD vanished nosuch: ")):
        assert kdump.cli.main.main(["next-start", *paths]) == exits.INCOMPLETE
        printed = cli.capsys.readouterr()
        assert printed.err.startswith("kdump: nosuch: cannot be read: No such file or directory")
        assert part in " ".join(printed.out.split())
        assert bool(printed.out) is bool(part)
    lines = cli.json("nosuch", code=exits.INCOMPLETE)
    assert [line["type"] for line in lines] == ["header", "finding", "summary"]
    assert lines[1]["path"] == "nosuch"


def test_what_is_not_forecast_is_named(cli: Cli, data: Path) -> None:
    log = data / "codec-none-0" / "00000000000000000060.log"
    assert cli.text(log, code=exits.OK) == f"not checked {log}: a segment alone"
    assert cli.json(log, code=exits.OK)[-1]["not_judged"] == [str(log)]


def test_the_metadata_log_stops_a_start(cli: Cli, data: Path) -> None:
    metadata = data / METADATA
    assert (
        f"{METADATA}: nothing seen that removes valid records; recovers 1 segment: 0 (metadata "
        "log, at every startup); reads at least 18.94 KiB"
    ) in cli.text(metadata, code=exits.OK)
    (metadata / "quorum-state").write_text("garbage")
    for path in (metadata, data):
        text = cli.text(path, code=exits.PROBLEMS)
        assert text.count("DOES NOT START: data/__cluster_metadata-0/quorum-state") >= 1


def test_replicas_that_are_set_aside_are_told(cli: Cli, data: Path) -> None:
    (data / "codec-none-0" / "partition.metadata").unlink()
    text = cli.text(data, code=exits.PROBLEMS)
    assert text.startswith(
        "DO NOT START If the broker starts now, it renames 1 partition to -stray, not served. No "
        "lost record was seen; "
    )
    assert (
        "codec-none-0: renames it to -stray: its records stay on disk, but are not served" in text
    )
    assert "; renames 1 partition to -stray: records stay on disk, but are not served" in text
    lines = cli.json(data, code=exits.PROBLEMS)
    aside = {line["topic"]: line["set_aside"] for line in lines if line["type"] == "forecast"}
    assert aside["codec-none"] == "topic-id-missing"
    assert aside["codec-zstd"] is None


@pytest.mark.root
@pytest.mark.parametrize("command", ["verify", "next-start"])
def test_what_another_user_may_not_read_says_nothing_of_the_broker(command: str) -> None:
    with TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)
        _denied(command, copy_fixture("4.3.1/clean", Path(scratch) / "data"))


@pytest.mark.root
def test_a_repair_that_may_not_read_has_not_nothing_to_do() -> None:
    with TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)
        data = copy_fixture("4.3.1/clean", Path(scratch) / "data")
        min((data / "codec-none-0").glob("*.log")).chmod(0o600)
        command = ["reindex", str(data / "codec-none-0")]
        ran = run(command, prepare=lambda: os.setresuid(65534, 65534, 65534))
    assert ran.code == exits.INCOMPLETE, ran
    assert "could not be read to its end" in " ".join(ran.out.split())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("command", ["verify", "next-start"])
@pytest.mark.parametrize("mode", [0o700, 0o744], ids=["closed", "unsearched"])
@pytest.mark.parametrize("place", [".", "codec-none-0"])
def test_a_directory_that_may_not_be_searched_says_who_may(
    place: str, mode: int, command: str
) -> None:
    with TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)
        data = copy_fixture("4.3.1/clean", Path(scratch) / "data")
        (data / place).chmod(mode)
        ran = run([command, str(data / place)], prepare=lambda: os.setresuid(65534, 65534, 65534))
        text = " ".join(ran.out.split())
        assert ran.code == exits.INCOMPLETE, ran
        assert ran.err == ""
        assert "UNREAD denied" in text
        assert str(data / place) in text
        assert "cannot be read: Permission denied: run kdump as its owner, root" in text
        assert "OFFLINE" not in text and "DOES NOT START" not in text


def _denied(command: str, data: Path) -> None:
    for path in (data / "codec-none-0").iterdir():
        path.chmod(0o600)
    (data / "codec-zstd-0").chmod(0o700)
    (data / "replication-offset-checkpoint").chmod(0o600)
    ran = run([command, str(data)], prepare=lambda: os.setresuid(65534, 65534, 65534))
    text = " ".join(ran.out.split())
    assert ran.code == exits.INCOMPLETE, ran
    assert "; nothing seen that stops the broker; " in text and "OFFLINE" not in text
    assert "Permission denied: run kdump as its owner, root" in text


def test_recovered_segments_and_harmless_tails_are_listed(cli: Cli, tmp_path: Path) -> None:
    (torn,) = (one for one in RECIPES if one.name == "torn-last")
    path = torn.write(tmp_path)
    (forecast,) = (one for one in cli.json("--scan", path, code=exits.OK) if "cuts" in one)
    (cut,) = forecast["cuts"]
    assert forecast["recovered_segments"] == [0, 100]
    text = cli.text("--scan", path, code=exits.OK)
    assert (
        f"removes {cut['size']} bytes without records at offset {cut['offset']} "
        f"(position {cut['position']} of {cut['segment']:020}.log); recovers 2 segments: 0, 100 "
        "(no recovery point after an unclean shutdown); reads "
    ) in text


@pytest.mark.slow
def test_partitions_that_recover_their_last_segment_alone_are_counted(cli: Cli, data: Path) -> None:
    (data / ".kafka_cleanshutdown").unlink()
    text = cli.text("--scan", data, code=exits.OK)
    listed = [one for one in cli.json("--scan", data, code=exits.OK) if "recovered_segments" in one]
    usual = [one for one in listed if one["recovered_segments"] == one["segments"][-1:]]
    others = [one for one in listed if one not in usual]
    known = "past the recovery point after an unclean shutdown"
    assert f"{known}: the last segment of {len(usual) - 1} partitions" in text
    assert "recovers metadata log, at every startup: the last segment of 1 partition " in text
    for one in others:
        bases = ", ".join(map(str, one["recovered_segments"]))
        assert f"; {one['topic']}-{one['partition']}: {bases}" in text


def test_the_current_directory_has_a_name(
    cli: Cli, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data / "codec-none-0")
    assert " .: removes no valid record" in cli.text("--scan", ".", code=exits.OK)


def test_the_reason_of_a_recovery_is_named(cli: Cli, data: Path) -> None:
    partition = data / "codec-none-0"
    (partition / "00000000000000000000.index").unlink()
    assert "recovers index missing: codec-none-0: 0 metadata log, at every startup: " in cli.text(
        "--scan", data, code=exits.OK
    )
    (line,) = (
        one for one in cli.json("--scan", partition, code=exits.OK) if one["type"] == "forecast"
    )
    assert line["recovery"] == [{"segment": 0, "reason": "index-missing"}]
    assert line["recovered_segments"] == [0]


#: Harm that no number of records shows: the recipe, its code, what is lost, and the startup.
EMPTY = "Records may be missing: a replica is missing", "creates missing replicas again, empty"
UNSERVED = "does not serve all partitions"
SHORTENED = "replaces segments by a .swap file with fewer records, an unknown loss"
HARMS = [
    ("gone-alone", "replica-missing-only", *EMPTY),
    ("mark-number", "high-watermark-number", None, UNSERVED),
    ("id-of-other", "topic-id-mismatch", None, UNSERVED),
    ("swap-unknown-empty", "swap-shortened", None, SHORTENED),
]


@pytest.mark.parametrize("command", ["verify", "next-start"])
@pytest.mark.parametrize(("name", "code", "now", "start"), HARMS)
@pytest.mark.slow
def test_harm_without_a_number_of_records_is_no_all_clear(
    name: str,
    code: str,
    now: str | None,
    start: str,
    command: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (recipe,) = (each for each in DIRECTORY_RECIPES if each.name == name)
    recipe.write(tmp_path)
    arguments = [command, *(["--scan"] if command == "next-start" else []), str(tmp_path)]
    ends = exits.OK if code == "swap-shortened" else exits.PROBLEMS
    label = "WARNING" if code == "swap-shortened" else "DO NOT START"
    assert kdump.cli.main.main(arguments) == ends
    text = " ".join(capsys.readouterr().out.split())
    if now is not None:
        lost = now
    elif command == "verify":
        lost = "No record is lost so far"
    else:
        lost = "No lost record was seen; not all was read"
    assert text.startswith(f"{label} If the broker starts now, it {start}. {lost}. ")
    assert code in text
    # Not only in the first line.
    assert text.count(start) >= 2
    assert "loses no more" not in text and "removes no valid record" not in text
    assert kdump.cli.main.main([*arguments, "--format", "json"]) == ends
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert code in {line.get("code") for line in lines}
    losses = lines[-1]["losses"]
    assert losses["next_start_exact"] is False
    assert now is None or losses["now_exact"] is False


def test_a_partition_is_not_told_of_replicas_that_its_directory_lacks(
    cli: Cli, tmp_path: Path
) -> None:
    (recipe,) = (each for each in DIRECTORY_RECIPES if each.name == "gone-alone")
    partition = recipe.write(tmp_path)
    assert "replica-missing-only" in cli.text(tmp_path, code=exits.PROBLEMS)
    assert cli.text(partition, code=exits.OK).startswith("NOT CHECKED 1 partition: ")


# --- the first word is that of verify


@pytest.mark.parametrize(
    ("name", "word", "code"),
    [
        ("id-unknown", "DO NOT START", exits.PROBLEMS),
        ("id-unknown-leads", "DO NOT START", exits.PROBLEMS),
        ("id-unknown-shared", "WARNING", exits.OK),
        ("id-removed", "WARNING", exits.OK),
    ],
)
def test_a_start_that_no_longer_serves_a_partition_is_never_ok(
    name: str, word: str, code: int, cli: Cli, tmp_path: Path
) -> None:
    (recipe,) = (each for each in DIRECTORY_RECIPES if each.name == name)
    recipe.write(tmp_path)
    text = cli.text("--scan", tmp_path, code=code)
    assert text.startswith(word)
    assert "renames 1 partition to -stray: records stay on disk, but are not served" in text
    assert (first_word("verify", tmp_path), first_word("next-start", tmp_path)) == (
        word,
        word if code else "NOT CHECKED",
    )


def first_word(command: str, path: Path) -> str:
    out = run([command, str(path)], searching=False).out
    words = ("DO NOT START", "NOT CHECKED", "WARNING", "ERROR", "OK")
    return next(word for word in words if out.startswith(word))


@pytest.mark.parametrize("options", [[], ["--scan"]])
def test_a_directory_without_partitions_does_not_start(
    options: list[str], cli: Cli, tmp_path: Path
) -> None:
    (recipe,) = (each for each in DIRECTORY_RECIPES if each.name == "id-known")
    recipe.write(tmp_path)
    for partition in tmp_path.glob("*-0"):
        shutil.rmtree(partition)
    (tmp_path / "lost").mkdir()
    text = cli.text(*options, tmp_path, code=exits.PROBLEMS)
    assert text.startswith("DO NOT START")
    assert first_word("verify", tmp_path) == "DO NOT START"
