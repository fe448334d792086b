"""What ``kdump dump`` prints of the segments of a log directory, with every field as bytes."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from support.commands import kdump


def dumped(*arguments: str | Path) -> Iterator[dict[str, Any]]:
    """The lines of batches and damage in segments, with ``--records`` those of records alone.

    ``source_file`` is the file they are in.
    """
    kinds = ("record",) if "--records" in arguments else ("batch", "damage")
    file: dict[str, Any] = {}
    for line in kdump("dump", *arguments).lines:
        if line["type"] == "file":
            file = line
        elif line["type"] in kinds and file["kind"] == "log":
            yield {**_decoded(line), "source_file": file["path"]}


def served(root: Path, lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those at or above the log start offset of their partition."""
    checkpoint = root / "log-start-offset-checkpoint"
    text = checkpoint.read_text() if checkpoint.exists() else ""
    entries = [line.split() for line in text.splitlines()[2:]]
    starts = {f"{topic}-{partition}": int(offset) for topic, partition, offset in entries}
    return [
        line
        for line in lines
        if line["offset"] >= starts.get(Path(line["source_file"]).parent.name, 0)
    ]


def _decoded(fields: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if name.endswith("_base64"):
            found[name.removesuffix("_base64")] = b64decode(value)
        elif name in ("key", "value"):
            found[name] = None if value is None else value.encode()
        elif name == "headers":
            found[name] = [_decoded(header) for header in value]
        else:
            found[name] = value
    return found
