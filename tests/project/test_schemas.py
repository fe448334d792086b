"""The schemas of JSON lines describe what the code prints: each line, field and value."""

from __future__ import annotations

import ast
import json
import shutil
from collections.abc import Iterator, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest
from jsonschema import Draft202012Validator

from kdump.audit.finding_code import Outcome, Severity
from kdump.audit.replay.fates import Fate
from kdump.audit.sizes.leftovers import MAY_GO, Leftover
from kdump.audit.startup.outcome import RecoveryReason, Release
from kdump.audit.verdicts.cures import OPTIONS, CureKind
from kdump.audit.verdicts.state import RunState
from kdump.cli.main import cli
from kdump.commands.check.check import FileFault
from kdump.commands.compare import report as compare
from kdump.commands.dump.files import KINDS
from kdump.commands.dump.lines import BATCH_KINDS
from kdump.commands.explain.broker_log.message import Subject as LogSubject
from kdump.commands.groups import report as groups
from kdump.commands.groups.consumption import Outside
from kdump.commands.groups.group import GroupKind, GroupState
from kdump.commands.metadata import entries
from kdump.commands.metadata.entries import EntryKind
from kdump.commands.quorum.election import Answer
from kdump.commands.quorum.problems import ProblemKind
from kdump.commands.salvage.stretches import Why
from kdump.commands.transactions import report as transactions
from kdump.commands.transactions.transactions import TransactionVerdict
from kdump.copies.comparison import ComparisonState, DifferenceKind
from kdump.history.records import EndReason
from kdump.storage.liveness import BrokerState
from kdump.storage.repair_record import RepairState
from kdump.storage.walk import Reason
from kdump.ui.table import ReportTable
from support.commands import Ran, kdump, repair
from support.crashing.running import run
from support.fixtures_loader import ROOT
from support.forge import flip
from support.json_lines import COMMANDS, COMMON, FOLDER, bundled, check_line, kinds
from support.maps import PACKAGE

pytestmark = pytest.mark.once

BROKERS = ROOT / "brokers/4.3.1"
SCHEMAS = {name: bundled(name) for name in COMMANDS}


def resolved(schema: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """A part of a schema, or what it refers to."""
    while "$ref" in part:
        _, group, name = part["$ref"].split("/")
        part = schema[group][name]
    return part


def line(command: str, kind: str) -> dict[str, Any]:
    """The definition of a line."""
    schema = SCHEMAS[command]
    return resolved(schema, {"$ref": kinds(schema)[kind]})


def field(path: str) -> dict[str, Any]:
    """The definition of a field: ``COMMAND LINE FIELD...``, through lists to what is in them."""
    command, kind, *names = path.split()
    schema, part = SCHEMAS[command], line(command, kind)
    for name in names:
        part = resolved(schema, part["properties"][name])
        part = resolved(schema, part.get("items", part))
    return part


def objects(schema: object) -> Iterator[dict[str, Any]]:
    """Every definition of an object in a schema."""
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            yield schema
        for value in schema.values():
            yield from objects(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from objects(value)


def test_each_command_with_json_lines_has_a_schema() -> None:
    top = click.Context(cli)
    with_lines = {
        name
        for name in cli.list_commands(top)
        if (command := cli.get_command(top, name))
        for option in command.params
        if option.name == "form" and "json" in getattr(option.type, "choices", ())
    }
    assert with_lines == set(COMMANDS)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.name)
def test_a_schema_is_one_of_json_schema(path: Path) -> None:
    schema = json.loads(path.read_text())
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(schema)
    for each in objects(schema):
        assert set(each["required"]) <= set(each["properties"])
        assert "additionalProperties" not in each, "later releases may add fields"
    if path.name != COMMON:
        command = bundled(path.stem)["$defs"]["header"]["properties"]["command"]
        assert command == {"const": path.stem}
        Draft202012Validator.check_schema(bundled(path.stem))


#: The lines whose type is no word in the code that prints them.
NAMED_ELSEWHERE = {*map(str, EntryKind), "undone", "discarded"}


def test_the_lines_are_those_that_the_code_names() -> None:
    printing = {"line", "_json", "say", "ReportTable", "Entries", "_entries"}
    named = set()
    rooms = (PACKAGE / name for name in ("commands", "ui", "format/lines"))
    for path in (path for room in rooms for path in room.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call) and node.args:
                called = node.func.value if isinstance(node.func, ast.Subscript) else node.func
                name = called.attr if isinstance(called, ast.Attribute) else ast.unparse(called)
                kind = node.args[0]
            elif isinstance(node, ast.Dict) and node.keys and node.keys[0] is not None:
                name, kind = ast.unparse(node.keys[0]), node.values[0]
            else:
                continue
            if name in printing | {"'type'"} and isinstance(kind, ast.Constant):
                named.add(kind.value)
    described = {kind for schema in SCHEMAS.values() for kind in kinds(schema)}
    assert named | NAMED_ELSEWHERE == described


#: Tables, each with the fields that come before its columns.
TABLES: dict[str, tuple[ReportTable[Any], Sequence[str]]] = {
    "groups offset": (groups._OFFSETS, ["group"]),
    "transactions transactional_id": (transactions._ids(0), []),
    "transactions transaction": (transactions._OPEN, []),
    "compare copy": (compare._COPIES, ["topic", "partition"]),
    **{
        f"metadata {table.kind}": (table, [])
        for table in vars(entries).values()
        if isinstance(table, ReportTable)
    },
}


@pytest.mark.parametrize("name", TABLES)
def test_the_fields_of_a_table_are_its_columns(name: str) -> None:
    table, above = TABLES[name]
    columns = [column.name for column in table.columns if column.name is not None]
    fields = line(*name.split())["properties"]
    assert list(fields)[: 1 + len(above)] == ["type", *above]
    assert [each for each in fields if each in columns] == [each for each in columns if each != "*"]
    others = set(fields) - set(columns) - {"type", *above}
    assert not others or "*" in columns  # a mapping, of which the column names no field


def values(*enums: type[Enum]) -> set[str]:
    return {str(each.value) for enum in enums for each in enum}


ENUMS: dict[str, set[str] | set[str | None]] = {
    "verify finding severity": values(Severity),
    "verify forecast outcome": values(Outcome),
    "verify forecast reasons outcome": values(Outcome),
    "verify forecast recovery reason": values(RecoveryReason),
    "verify forecast release": {*values(Release), None},
    "verify forecast cures cure": values(CureKind),
    "verify forecast cures option": {*OPTIONS.values(), None},
    "repair cure cure": values(CureKind),
    "verify header liveness state": values(BrokerState),
    "verify summary state": values(RunState),
    "verify summary verdict": values(Severity) - {"info"} | {"sound"},
    "verify summary losses outcome": values(Outcome),
    "next-start summary state": values(RunState),
    "next-start summary next_starts outcome": values(Outcome),
    "scrub scrub reason": values(EndReason),
    "scrub scrub findings severity": values(Severity),
    "compare difference kind": values(DifferenceKind),
    "compare partition state": values(ComparisonState),
    "groups group kind": values(GroupKind),
    "groups group state": values(GroupState),
    "groups offset outside": {*values(Outside), None},
    "transactions transaction verdict": values(TransactionVerdict),
    "metadata change kind": values(EntryKind),
    "quorum problem kind": values(ProblemKind),
    "quorum copy use": {*values(BrokerState), None},
    "quorum copy damage reason": values(Reason),
    "quorum election votes answer": {each.name.lower() for each in Answer},
    "dump damage reason": values(Reason) | {"remainder", "unreadable", "wrong-count"},
    "explain code severity": values(Severity),
    "explain message about": values(LogSubject) | {"unknown"},
    "check file status": values(FileFault) | {"equal"},
    "space leftovers kind": values(Leftover),
    "trim leftovers kind": {each.value for each in MAY_GO},
    "reindex pending state": values(RepairState),
    "undo backup state": values(RepairState),
    "salvage receipt left reason": values(Reason, Why),
    "salvage receipt transaction_ends fate": values(Fate),
}


@pytest.mark.parametrize("path", ENUMS)
def test_the_values_of_a_field_are_those_of_its_type(path: str) -> None:
    assert set(field(path)["enum"]) == ENUMS[path]


def test_the_kinds_of_files_are_those_that_a_dump_reads() -> None:
    assert set(field("dump file kind")["enum"]) == {each.value for each in (*BATCH_KINDS, *KINDS)}


#: The lines that neither the runs below nor those in ``tests/ui/recorded`` have, and where tests
#: see them.
ELSEWHERE = {
    ("check", "trouble"): "tests/commands/check: an export that left something out",
    ("dump", "unread"): "tests/commands/dump: a batch with a checksum that matches what is corrupt",
    ("next-start", "finding"): "tests/commands/next_start: what cannot be read, or does harm",
    ("quorum", "voters"): "tests/commands/quorum: voters that changed",
    ("transactions", "fault"): "tests/commands/transactions: a corrupt log",
    (
        "space",
        "unreadable",
    ): "tests/commands/space/test_space.py: a partition that cannot be listed",
    ("space", "removed_files"): "tests/commands/space: files that a process still has open",
    ("space", "move"): "tests/commands/space/test_ways.py: a stopped broker with two disks",
    ("space", "reassignment"): "tests/commands/space/test_ways.py: a running broker",
    ("space", "delete_records"): "tests/commands/space/test_ways.py: a running broker",
    ("move", "reassignment"): "tests/commands/move: beside a running broker",
    ("trim", "unreadable"): "tests/commands/trim: a partition that cannot be measured",
    ("repair", "journal"): "tests/commands/repair: a repair that was killed",
    ("transactions", "undecodable"): "tests/commands/transactions: a record that no release has",
    **{
        (command, "pending"): "tests/ui/test_repairs.py, tests/crash: a repair that was killed"
        for command in ("reindex", "truncate-to-valid", "heal", "convert-v0-v2")
    },
}


def runs(top: Path, lossy: Path) -> Iterator[Ran]:
    """Commands that print all lines that can be had without a long preparation."""
    of, mended = (partial(runner, searching=False) for runner in (kdump, repair))
    clean, tiered, replicas = (BROKERS / name for name in ("clean", "tiered", "replicas"))
    state, exported = ("--state", top / "scrub.db"), top / "exported"
    files = [*(clean / "transactions-0").iterdir(), clean / "meta.properties"]
    files += (
        clean / name
        for name in (
            "__cluster_metadata-0/quorum-state",
            "recovery-point-offset-checkpoint",
            ".kafka_cleanshutdown",
        )
    )
    yield of("verify", lossy.parent)
    yield of("next-start", "--scan", lossy.parent)
    yield of("scrub", *state, lossy.parent)
    yield of("scrub", *state, "--status")
    left = lossy / "00000000000000000900.log.deleted"
    left.write_bytes(b"x")
    yield of("space", lossy.parent)
    yield of("space", "--free", "40KiB", clean)
    (top / "server.properties").write_text("node.id=1\n")
    yield of("trim", "--config", top / "server.properties", "--free", "40KiB", clean)
    yield of("trim", "--leftovers", lossy.parent)
    two = top / "two"
    shutil.copytree(clean, top / "one")
    two.mkdir()
    meta = (clean / "meta.properties").read_text()
    (two / "meta.properties").write_text(meta.replace("directory.id=0", "directory.id=1"))
    yield of("move", "--to", two, top / "one" / "codec-lz4-0", "--apply")
    left.unlink()
    yield of("dump", "--records", "--limit", "3", lossy)
    preallocated = top / "00000000000000000000.index"
    preallocated.write_bytes(bytes.fromhex("0000000500000100").ljust(80, b"\0"))
    yield of("dump", *files, preallocated)
    yield of("dump", lossy)
    yield of("dump", "--summary", lossy)
    yield of("explain", "batch-crc-mismatch")
    yield of("explain", "[2026-11-24 09:31:00,000] ERROR Failed (x)")
    run(["export", "--format", "jsonl", str(clean / "codec-zstd-0"), "--to", str(exported)])
    yield of("check", exported)
    yield of("salvage", lossy, "--output", top / "salvaged")
    yield mended("truncate-to-valid", lossy)
    yield of("undo", lossy)
    yield of("undo", lossy, "--apply")
    again = mended("truncate-to-valid", lossy)
    yield of("undo", lossy, "--plan", *again.ids, "--discard")
    next(lossy.glob("*.index")).unlink()
    yield mended("repair", lossy.parent)
    yield of("undo", lossy.parent)
    yield of("undo", lossy, "--apply")
    yield mended("reindex", lossy)
    healed = Path(shutil.copytree(replicas / "3/same-0", top / "3/same-0"))
    log = healed / "00000000000000000000.log"
    log.write_bytes(flip(log.read_bytes(), 600))
    yield of("repair", healed.parent)
    yield mended("heal", healed, "--from", replicas / "1/same-0")
    old = shutil.copytree(ROOT / "brokers/0.10.2.2/clean/codec-lz4-0", top / "codec-lz4-0")
    yield of("convert-v0-v2", old, "--output", top / "converted")
    yield of("convert-v0-v2", tiered / "local-0", "--output", top / "nothing")
    yield mended("convert-v0-v2", old)


def recorded() -> Iterator[tuple[str, str]]:
    """The commands and types of the lines in ``tests/ui/recorded``, checked when they are made."""
    for path in (Path(__file__).parents[1] / "ui/recorded").glob("*.txt"):
        for text in path.read_text().splitlines()[:-1]:
            yield path.stem.partition("-")[0], json.loads(text)["type"]


def test_each_line_is_seen_and_described(place: Path, lossy: Path) -> None:
    seen = set[tuple[str, str]]()
    checks = {name: Draft202012Validator(schema) for name, schema in SCHEMAS.items()}
    for ran in runs(place, lossy):
        assert ran.lines, ran
        command = ran.lines[0]["command"]
        assert ran.lines[-1]["exit"] == ran.code
        for each in ran.lines:
            if (command, each["type"]) not in seen:
                checks[command].validate(each | {"later": 1})
                assert not checks[command].is_valid({"type": each["type"]})
                seen.add((command, each["type"]))
    described = {(name, kind) for name, schema in SCHEMAS.items() for kind in kinds(schema)}
    assert described - seen - set(recorded()) == set(ELSEWHERE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"later": 1}, "later"),
        ({"exit": "0"}, "exit"),
        ({"state": "good"}, "state"),
        ({"type": "sum"}, "sum"),
        ({"losses": {}}, "losses"),
    ],
)
def test_a_line_that_is_not_described_fails(
    lossy: Path, change: dict[str, object], message: str
) -> None:
    summary = kdump("verify", lossy).lines[-1]
    check_line("verify", summary)
    with pytest.raises(AssertionError, match=message):
        check_line("verify", summary | change)
