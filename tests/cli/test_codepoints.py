"""No control, format, separator or surrogate code point leaves raw, wherever it came from.

Each of them in turn stands in keys, values, header keys and control records, in the names of
topics and files, in the text files beside the logs, and in what is typed.
"""

from __future__ import annotations

import json
import os
import sys
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unicodedata import category

import pytest

from kdump.cli.main import main
from support.forge import KRAFT_VOTERS, batch, control_batch, flip, message, record, segment
from support.long_samples import first_of

pytestmark = pytest.mark.loops

JsonObject = dict[str, Any]
Capture = pytest.CaptureFixture[bytes]

UNSAFE = [
    char
    for char in map(chr, range(sys.maxunicode + 1))
    if category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
]
#: All that a file's name may hold.
IN_NAMES = UNSAFE[1:]
#: A few at a time, for what takes a run of the command each.
FEW = ["".join(IN_NAMES[start : start + 32]) for start in range(0, len(IN_NAMES), 32)]
LOG = f"{0:020}.log"


def raw(char: str) -> bytes:
    """The code point as bytes, between letters; what a surrogate becomes is no UTF-8."""
    return f"a{char}b".encode(errors="surrogatepass")


def is_text(char: str) -> bool:
    return category(char) != "Cs"


def escaped(char: str) -> str:
    """How text shows a code point in a name: of a surrogate, whose bytes are no UTF-8, each."""
    if not is_text(char):
        return "".join(f"\\udc{byte:02x}" for byte in char.encode(errors="surrogatepass"))
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def run(capture: Capture, *args: str | Path) -> tuple[int, str, str]:
    """The exit code and both outputs, which are UTF-8 without an unsafe code point but newlines."""
    code = main([str(arg) for arg in args])
    out, err = (output.decode() for output in capture.readouterr())
    assert (set(out) | set(err)) & set(UNSAFE) <= {"\n"}
    return code, out, err


def objects(out: str) -> list[JsonObject]:
    return [json.loads(line) for line in out.splitlines()]


def path_of(line: JsonObject) -> bytes:
    return b64decode(line["path_base64"]) if "path_base64" in line else os.fsencode(line["path"])


def test_every_unsafe_code_point_is_there() -> None:
    assert {"\0", "\n", "\x1b", "\x7f", "\x9b", "\xad", "\u200b", "\u2028"} < set(UNSAFE)
    assert {"\u2029", "\u202e", "\ufeff", "\U000e0001"} < set(UNSAFE)
    assert set(map(chr, range(0xD800, 0xE000))) < set(UNSAFE)
    assert len(UNSAFE) > 2200


# --- keys, values, header keys, control records


def records_with_headers() -> bytes:
    return batch(0, [record(raw(c), raw(c), [(raw(c), raw(c))]) for c in UNSAFE])


def records_without_headers() -> bytes:
    return batch(0, [record(raw(c), raw(c)) for c in UNSAFE], codec="zstd")


def messages() -> bytes:
    return segment([message(place, raw(c), raw(c)) for place, c in enumerate(UNSAFE)])


DATA = [records_with_headers, records_without_headers, messages]


@pytest.mark.parametrize("data", DATA)
def test_in_text_records_show_them_escaped(data: Any, tmp_path: Path, capfdbinary: Capture) -> None:
    path = tmp_path / LOG
    path.write_bytes(data())
    code, out, err = run(capfdbinary, "dump", "--data", path)
    lines = [line for line in out.splitlines() if line.startswith("| offset: ")]
    assert (code, err, len(lines)) == (0, "", len(UNSAFE))
    for char, line in zip(UNSAFE, lines, strict=True):
        # What is no UTF-8 is U+FFFD in Java.
        shown = f"a{escaped(char)}b" if is_text(char) else "a\ufffdb"
        assert line.endswith(f" key: {shown} payload: {shown}")
        assert (f" headerKeys: [{shown}]" in line) == (data is records_with_headers)


@pytest.mark.parametrize("data", DATA)
def test_in_json_records_show_them_without_loss(
    data: Callable[[], bytes], tmp_path: Path, capfdbinary: Capture
) -> None:
    path = tmp_path / LOG
    path.write_bytes(data())
    code, out, err = run(capfdbinary, "dump", "--format", "json", "--records", path)
    lines = [line for line in objects(out) if line["type"] == "record"]
    assert (code, err, len(lines)) == (0, "", len(UNSAFE))
    for char, line in zip(UNSAFE, lines, strict=True):
        for fields in (line, *line["headers"]):
            for name in ("key", "value"):
                if is_text(char):
                    assert fields[name] == f"a{char}b"
                else:
                    assert b64decode(fields[f"{name}_base64"]) == raw(char)


def voters(name: bytes) -> bytes:
    """A KRaftVotersRecord with one voter, whose endpoint and host have that name."""
    text = bytes([len(name) + 1]) + name
    return b"".join(
        (
            bytes.fromhex("0000 02 00000001") + bytes(16) + b"\x02",
            text + text + bytes.fromhex("1f90 00 0000 0001 00 00 00"),
        )
    )


def test_control_records_show_them_escaped(tmp_path: Path, capfdbinary: Capture) -> None:
    path = tmp_path / LOG
    path.write_bytes(
        segment(control_batch(i, KRAFT_VOTERS, voters(raw(c))) for i, c in enumerate(UNSAFE))
    )
    code, out, err = run(capfdbinary, "dump", "--records", path)
    lines = [line for line in out.splitlines() if line.startswith("| offset: ")]
    assert (code, err, len(lines)) == (0, "", len(UNSAFE))
    for char, line in zip(UNSAFE, lines, strict=True):
        shown = json.loads(line.partition(" KRaftVoters ")[2])
        (endpoint,) = shown["voters"][0]["endpoints"]
        # What is not UTF-8 is replaced, as in Java.
        name = f"a{char}b" if is_text(char) else raw(char).decode(errors="replace")
        assert (endpoint["name"], endpoint["host"]) == (name, name)


# --- names of topics and files


#: What ``verify`` finds wrong with each of them.
CODE = "batch-crc-mismatch"


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory with a damaged partition for each code point that a name can hold."""
    directory = tmp_path_factory.mktemp("named")
    (directory / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    for char in IN_NAMES:
        partition = directory / os.fsdecode(raw(char) + b"-0")
        partition.mkdir()
        (partition / LOG).write_bytes(flip(batch(0, [record()]), -1))
        (partition / LOG).with_suffix(".index").touch()
    return directory


@pytest.mark.once
@pytest.mark.parametrize(
    "command", first_of([("dump",), ("verify", "--info", "--jobs", "1"), ("dump", "--summary")])
)
@pytest.mark.slow
def test_in_text_names_show_them_escaped(
    command: tuple[str, ...], named: Path, capfdbinary: Capture
) -> None:
    # Of a log directory, verify names three partitions with the same error.
    paths = named.glob("*-0") if command[0] == "verify" else [named]
    code, out, _ = run(capfdbinary, *command, *paths)
    assert code == 4
    shown = "\n" + out.replace(f"{named}/", "\n")
    for char in IN_NAMES:
        assert f"\na{escaped(char)}b-0" in shown or f" a{escaped(char)}b-0" in shown, char


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("command", first_of(["dump", "verify"]))
def test_in_json_paths_that_are_no_text_are_base64(
    command: str, named: Path, capfdbinary: Capture
) -> None:
    code, out, _ = run(capfdbinary, command, "--format", "json", named)
    told = [line for line in objects(out) if "path" in line or "path_base64" in line]
    told = [line for line in told if line["type"] != "step"]  # of the log directory
    lines = [line for line in told if line.get("code", CODE) == CODE and "outcome" not in line]
    assert (code, len(lines)) == (4, len(IN_NAMES))
    found = {path_of(line): "path" in line for line in lines}
    assert found == {
        b"%s/%s-0/%s" % (os.fsencode(named), raw(char), LOG.encode()): is_text(char)
        for char in IN_NAMES
    }


@pytest.mark.once
@pytest.mark.parametrize("command", ["dump", "verify"])
@pytest.mark.parametrize("form", first_of(["text", "json"]))
@pytest.mark.slow
def test_paths_that_are_not_there_are_told_escaped(
    command: str, form: str, tmp_path: Path, capfdbinary: Capture
) -> None:
    paths = [tmp_path / os.fsdecode(raw(char)) for char in IN_NAMES]
    code, out, err = run(capfdbinary, command, "--format", form, *paths)
    assert code == 5
    if command == "dump" or form == "text":
        for char in IN_NAMES:
            assert f"{tmp_path}/a{escaped(char)}b" in err, char
    else:
        found = [path_of(line) for line in objects(out) if line["type"] == "finding"]
        assert found == [os.fsencode(path) for path in paths]


def test_files_of_another_kind_are_told_escaped(tmp_path: Path, capfdbinary: Capture) -> None:
    for chars in FEW:
        path = tmp_path / os.fsdecode(raw(chars))
        path.touch()
        code, out, err = run(capfdbinary, "dump", path)
        assert (code, out) == (5, "")
        assert f"a{''.join(map(escaped, chars))}b" in err


# --- text files beside the logs

FILES = {
    "meta.properties": b"cluster.id=?\n?=1\n",
    "recovery-point-offset-checkpoint": b"0\n1\n? 0 5\n",
    "leader-epoch-checkpoint": b"0\n1\n? 5\n",
    "partition.metadata": b"version: 0\ntopic_id: ?",
    "quorum-state": b'{"clusterId":"?","leaderId":1,"leaderEpoch":1,"data_version":0}',
    ".kafka_cleanshutdown": b'{"version":0,"brokerEpoch":"?"}',
}


@pytest.mark.once
@pytest.mark.parametrize("name", first_of(FILES))
@pytest.mark.slow
def test_text_files_show_them_escaped(name: str, tmp_path: Path, capfdbinary: Capture) -> None:
    paths = []
    for place, char in enumerate(UNSAFE):
        path = tmp_path / f"{place}" / name
        path.parent.mkdir()
        path.write_bytes(FILES[name].replace(b"?", raw(char)))
        paths.append(path)
    _, out, err = run(capfdbinary, "dump", *paths)
    assert (err, out.count("Dumping ")) == ("", len(paths))
    _, out, err = run(capfdbinary, "dump", "--format", "json", *paths)
    assert err == ""
    said = [line for line in objects(out) if line["type"] not in ("header", "file", "summary")]
    assert len(said) >= len(paths)


# --- what is typed


@pytest.mark.parametrize(
    "words",
    [
        ("explain", "--format", "{}"),
        ("{}",),
        ("dump", "--{}", "x"),
        ("dump", "--format", "{}", "x"),
        ("dump", "--offsets", "{}", "x"),
        ("dump", "--since", "{}", "x"),
        ("dump", "--key-base64", "{}", "x"),
        ("verify", "--jobs", "{}", "x"),
        ("verify", "--fail-on", "{}", "x"),
    ],
)
def test_wrong_words_are_refused_escaped(words: tuple[str, ...], capfdbinary: Capture) -> None:
    """A shell cannot type all of them, but programs start programs too."""
    for chars in FEW:
        code, out, err = run(capfdbinary, *(word.format(f"a{chars}b") for word in words))
        assert (code, out) == (2, "")
        assert "\\ud" in err or set(map(category, chars)) != {"Cs"}


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_line_of_a_log_is_explained_escaped(form: str, capfdbinary: Capture) -> None:
    for chars in FEW:
        code, out, err = run(capfdbinary, "explain", "--format", form, f"ERROR a{chars}b")
        assert (code, err) == (5, "")
        assert out
