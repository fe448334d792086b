"""``kdump check``: each difference between the files of an export and its manifest is found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from zstandard import ZstdCompressor, ZstdDecompressor

from kdump.cli.main import main
from kdump.commands.export.manifest import decode_manifest
from kdump.commands.export.output import FileFormat
from kdump.errors import DecodeError
from kdump.ui import exits
from support.commands import Ran, kdump
from support.exports import copies, exported, one_batch
from support.forge import segment

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("unsearched")]


@pytest.fixture(params=FileFormat)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An export of two partitions, by the hour."""
    paths = copies(tmp_path / "in", segment([one_batch(0), one_batch(3)]), segment([one_batch(0)]))
    exported(paths, tmp_path / "out", form=request.param, hourly=True)
    return tmp_path / "out"


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """The same as JSON Lines."""
    paths = copies(tmp_path / "in", segment([one_batch(0), one_batch(3)]), segment([one_batch(0)]))
    exported(paths, tmp_path / "out")
    return tmp_path / "out"


def the_file(to: Path) -> Path:
    (file,) = to.rglob("part-*")
    return file


def statuses(ran: Ran) -> list[str]:
    return [line["status"] for line in ran.of("file")]


def edit(to: Path, change: Callable[[dict[str, Any]], None]) -> None:
    manifest = json.loads((to / "_manifest.json").read_text())
    change(manifest)
    (to / "_manifest.json").write_text(json.dumps(manifest))


def put(to: Path, data: bytes) -> None:
    """Give the only file of an export other content, of the size and digest in the manifest."""
    the_file(to).write_bytes(data)

    def change(manifest: dict[str, Any]) -> None:
        manifest["files"][0]["bytes"] = len(data)
        manifest["files"][0]["sha256"] = hashlib.sha256(data).hexdigest()

    edit(to, change)


def test_an_export_is_as_its_manifest_says(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (made, made / "_manifest.json"):
        assert main(["check", str(path)]) == exits.OK
        assert capsys.readouterr().out == f"{made}: 1 file, 9 records: all as in the manifest\n"
    ran = kdump("check", made)
    assert (ran.code, statuses(ran)) == (exits.OK, ["equal"])
    (summary,) = ran.of("summary")
    assert (summary["files"], summary["records"], summary["exit"]) == (1, 9, 0)


@pytest.mark.parametrize(
    ("damaged", "code", "label"),
    [(True, exits.PROBLEMS, "damage"), (False, exits.INCOMPLETE, "incomplete")],
)
def test_an_export_that_lacks_something_is_not_called_complete(
    damaged: bool, code: int, label: str, made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trouble = {"path": "/data/a-0", "position": None, "size": None, "reason": "gone"}
    edit(made, lambda manifest: manifest["troubles"].append({**trouble, "damaged": damaged}))
    assert main(["check", str(made)]) == code
    said = capsys.readouterr().out
    assert f"{label}: /data/a-0: gone\n" in said
    assert said.endswith(
        "all as in the manifest; not complete: the manifest names 1 part that could not be "
        "exported\n"
    )
    ran = kdump("check", made)
    assert ran.code == code
    (line,) = ran.of("trouble")
    assert (line["path"], line["reason"], line["damaged"]) == ("/data/a-0", "gone", damaged)
    (summary,) = ran.of("summary")
    assert (summary["damaged"], summary["incomplete"]) == (int(damaged), int(not damaged))


@pytest.mark.parametrize("name", ["4.3.1/killed"])
def test_the_export_of_a_fixture(name: str, grown: Callable[[str], Path], tmp_path: Path) -> None:
    to = tmp_path / "out"
    arguments = ["export", "--to", str(to), "--partition-by", "hour", str(grown(name))]
    assert main([*arguments, "--progress", "none"]) == exits.OK
    assert kdump("check", to).code == exits.OK


def test_each_difference_is_found(made: Path) -> None:
    file = the_file(made)
    data = file.read_bytes()
    file.write_bytes(data + b"x")
    assert (kdump("check", made).code, statuses(kdump("check", made))) == (4, ["size-differs"])
    for position in (0, len(data) // 2, len(data) - 1):
        file.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        ran = kdump("check", made)
        assert (ran.code, statuses(ran)) == (4, ["digest-differs"])
    file.write_bytes(data)
    (file.parent / "part-9.parquet").write_bytes(data)
    (made / "_hidden").write_bytes(b"")
    (file.parent / ".part.crc").write_bytes(b"")
    ran = kdump("check", made)
    assert (ran.code, statuses(ran)) == (4, ["equal", "not-in-manifest"])
    (file.parent / "part-9.parquet").unlink()
    file.unlink()
    ran = kdump("check", made)
    assert (ran.code, statuses(ran)) == (4, ["missing"])
    file.mkdir()
    ran = kdump("check", made)
    assert (ran.code, statuses(ran)) == (5, ["unreadable"])


@pytest.mark.parametrize("field", ["records", "first_offset", "last_offset", "path", "partition"])
def test_the_records_are_compared_too(made: Path, field: str) -> None:
    def change(manifest: dict[str, Any]) -> None:
        file = manifest["files"][0]
        log = file["logs"][0]
        if field == "records":
            log["records"] -= 1
            file["records"] -= 1
            manifest["records"] -= 1
            manifest["partitions"][0]["records"] -= 1
        elif field == "partition":
            for each in (*file["logs"], *manifest["partitions"]):
                each["partition"] = 7
        else:
            log[field] = "x" if field == "path" else log[field] + 1

    edit(made, change)
    ran = kdump("check", made)
    assert (ran.code, statuses(ran)) == (4, ["records-differ"])


@pytest.mark.parametrize(
    "content",
    [b"", b"no zstd", b'{"offset": 1}\n', b'{"offset": "1", "source_file": []}\n', b"[]\n"],
)
def test_a_file_that_is_none_of_an_export_is_unreadable(content: bytes, lines: Path) -> None:
    data = content if content == b"no zstd" else ZstdCompressor().compress(content)
    put(lines, data)
    ran = kdump("check", lines)
    assert (ran.code, statuses(ran)) in ((5, ["unreadable"]), (4, ["records-differ"]))
    assert (content == b"") == (ran.code == 4)


def test_a_parquet_file_that_is_none_is_unreadable(tmp_path: Path) -> None:
    to = tmp_path / "out"
    exported(copies(tmp_path / "in", one_batch(0)), to, form=FileFormat.PARQUET)
    data = b"PAR1" + bytes(100) + b"PAR1"
    put(to, data)
    ran = kdump("check", to)
    assert (ran.code, statuses(ran)) == (5, ["unreadable"])


def test_what_is_no_export_is_told(lines: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    ran = kdump("check", tmp_path / "empty")
    assert (ran.code, ran.lines) == (5, ())
    assert "found no _manifest.json: it was not finished" in ran.said
    assert kdump("check", tmp_path / "gone").code == 5
    ran = kdump("check", the_file(lines))
    assert (ran.code, ran.lines) == (5, ())
    assert "expected the manifest of an export, found no JSON" in ran.said


def test_a_file_too_large_for_a_manifest_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(bytes(101))
    monkeypatch.setattr("kdump.commands.check.check._MANIFEST_BYTES", 100)
    ran = kdump("check", tmp_path / "file")
    assert ran.code == 5
    assert "expected at most 100 bytes, found 101" in ran.said


def test_manifests_of_the_first_schema_are_read(lines: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["schema"] = 1
        more = {"records": 0, "first_offset": None, "last_offset": None, "path": "empty.log"}
        manifest["files"][0]["logs"].append({**manifest["files"][0]["logs"][0], **more})

    edit(lines, change)
    assert kdump("check", lines).code == exits.OK


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda fields: fields.update(schema=3), "schema 1 or 2, found 3"),
        (lambda fields: fields.update(files={}), "a list as 'files'"),
        (lambda fields: fields.update(records=True), "a number as 'records'"),
        (lambda fields: fields.update(records=1), "expected 1 records in the export"),
        (lambda fields: fields["files"][0].update(path="../x"), "below the export"),
        (lambda fields: fields["files"][0].update(path="/etc/x"), "below the export"),
        (lambda fields: fields["files"][0].update(records=1), "expected 1 records in topic="),
        (lambda fields: fields["files"][0]["logs"][0].update(host=1), "a string as 'host'"),
        (lambda fields: fields["files"].append(7), "a list as 'logs'"),
        (lambda fields: fields["partitions"].clear(), "expected 0 records in orders-0"),
    ],
)
def test_a_manifest_that_contradicts_itself_is_refused(
    lines: Path, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    edit(lines, change)
    with pytest.raises(DecodeError) as raised:
        decode_manifest((lines / "_manifest.json").read_bytes())
    assert said in str(raised.value)
    ran = kdump("check", lines)
    assert (ran.code, ran.lines) == (5, ())


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[]", b"null", bytes(64), b"[" * 100_000])
def test_what_is_no_manifest_is_an_error(data: bytes) -> None:
    with pytest.raises(DecodeError, match="expected the manifest of an export"):
        decode_manifest(data)


def test_lines_are_read_across_frames(lines: Path) -> None:
    """As other programs may have written them again."""
    text = ZstdDecompressor().stream_reader(the_file(lines).read_bytes()).read()
    frames = [ZstdCompressor().compress(line + b"\n") for line in text.splitlines()]
    data = b"".join(frames)
    put(lines, data)
    assert kdump("check", lines).code == exits.OK
