"""Holds JSON lines against the schemas in ``man/schemas``, strictly: no field may be missing there.

To users a schema allows more fields, as later releases may add some.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any, AnyStr

import fastjsonschema
import pytest
from _pytest.capture import CaptureResult

from support.fixtures_loader import ROOT

FOLDER = ROOT.parent / "man/schemas"
#: What lines of several commands have; it is about no command.
COMMON = "common.json"
COMMANDS = sorted(path.stem for path in FOLDER.glob("*.json") if path.name != COMMON)

_HEADER = '{"type":"header",'


def bundled(command: str) -> dict[str, Any]:
    """The schema of a command, which has under ``common`` what it takes from the common one."""
    common, own = ((FOLDER / name).read_text() for name in (COMMON, f"{command}.json"))
    shared = json.loads(common.replace("#/$defs/", "#/common/"))["$defs"]
    return {**json.loads(own.replace(f"{COMMON}#/$defs/", "#/common/")), "common": shared}


def kinds(schema: dict[str, Any]) -> dict[str, str]:
    """The types of the lines of a command, with the references to their definitions."""
    refs = [line["$ref"] for line in schema["oneOf"]]
    return {ref.rpartition("/")[2]: ref for ref in refs}


def closed(schema: Any) -> Any:
    """The schema, where objects have no other fields than those that it describes."""
    if isinstance(schema, list):
        return list(map(closed, schema))
    if not isinstance(schema, dict):
        return schema
    found = {name: closed(value) for name, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "required" in schema:
        found["additionalProperties"] = False
    return found


@cache
def _strict(command: str) -> dict[str, Any]:
    schema: dict[str, Any] = closed(bundled(command))
    return schema


@cache
def _check_of(command: str, kind: str) -> Callable[[Any], Any]:
    schema = _strict(command)
    refs = kinds(schema)
    assert kind in refs, f"kdump {command} prints {kind}, which {command}.json has not"
    line = {"$ref": refs[kind], "$defs": schema["$defs"], "common": schema["common"]}
    check: Callable[[Any], Any] = fastjsonschema.compile(line, use_default=False)
    return check


def check_line(command: str, line: dict[str, Any]) -> None:
    """Assert that the schema of the command describes the line."""
    try:
        _check_of(command, line["type"])(line)
    except fastjsonschema.JsonSchemaException as error:
        raise AssertionError(f"kdump {command}: {error}, in {json.dumps(line)}") from error


def check_lines(out: str | bytes) -> None:
    """Check what commands printed, if it begins with the header of JSON lines."""
    text = out if isinstance(out, str) else out.decode(errors="replace")
    if not text.startswith(_HEADER):
        return
    command = ""
    for line in text.split("\n")[:-1]:  # a broken pipe may have cut the last one
        if line.startswith('{"type":'):
            fields = json.loads(line)
            command = fields.get("command", command) if fields["type"] == "header" else command
            check_line(command, fields)


def checked(capture: pytest.CaptureFixture[AnyStr]) -> pytest.CaptureFixture[AnyStr]:
    """``capture``, which checks the lines that it reads."""
    read = capture.readouterr

    def readouterr() -> CaptureResult[AnyStr]:
        found = read()
        check_lines(found.out)
        return found

    capture.readouterr = readouterr  # type: ignore[method-assign]
    return capture
