"""The report of ``kdump check``: text, or JSON Lines with a line for each file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import Protocol

from kdump.commands.check.check import Export, FileDifference, FileFault
from kdump.commands.export.manifest import FileEntry
from kdump.format.lines.text import printable
from kdump.ui import jsonl
from kdump.ui.exits import Ending
from kdump.ui.units import count_text


class CheckReport(Protocol):
    """The report, file by file."""

    def add(self, path: str, file: FileEntry | None, difference: FileDifference | None) -> None:
        """Report the file at ``path`` below the export; ``file`` is its entry in the manifest."""

    def finish(self) -> int:
        """End the report, and return the exit code."""


class _Summary:
    def __init__(self, export: Export) -> None:
        self.kinds: Counter[FileFault] = Counter()
        self.damaged = sum(lack.damaged for lack in export.lacks)
        self.incomplete = len(export.lacks) - self.damaged

    @property
    def exit_code(self) -> int:
        """The code of the comparison, and of the export that it is about."""
        return Ending(
            unread=bool(self.kinds[FileFault.UNREAD] or self.incomplete),
            problems=bool(self.kinds.total() or self.damaged),
        ).exit_code


class TextCheck:
    """Prints the files that differ, and a last line."""

    def __init__(self, emit: Callable[[str], None], export: Export) -> None:
        self._emit = emit
        self._export = export
        self._summary = _Summary(export)
        for lack in export.lacks:
            kind = "damage" if lack.damaged else "incomplete"
            emit(printable(f"{kind}: {lack.path}: {lack.reason}"))

    def add(self, path: str, file: FileEntry | None, difference: FileDifference | None) -> None:
        """Print a line if the file differs."""
        if difference is not None:
            self._summary.kinds[difference.kind] += 1
            where = self._export.path / path
            self._emit(
                printable(
                    f"{where}: {difference.kind.value}: expected {difference.expected}, found "
                    f"{difference.found}"
                )
            )

    def finish(self) -> int:
        """Print the last line, and return the exit code."""
        export = self._export
        what = f"{count_text(len(export.files), 'file')}, {count_text(export.records, 'record')}"
        different = self._summary.kinds.total()
        ending = "all as in the manifest"
        if different:
            ending = f"{count_text(different, 'difference')} from the manifest"
        if export.lacks:
            parts = count_text(len(export.lacks), "part")
            ending += f"; not complete: the manifest names {parts} that could not be exported"
        self._emit(printable(f"{export.path}: {what}: {ending}"))
        return self._summary.exit_code


class JsonCheck:
    """Emits the header at once, and a line for each file as soon as it was compared.

    Scripts rely on it: fields may be added, but none is changed or removed.
    """

    def __init__(self, emit: Callable[[str], None], export: Export) -> None:
        self._emit = emit
        self._export = export
        self._summary = _Summary(export)
        emit(jsonl.line("header", jsonl.header("check", [export.path])))
        for lack in export.lacks:
            emit(jsonl.line("trouble", asdict(lack)))

    def add(self, path: str, file: FileEntry | None, difference: FileDifference | None) -> None:
        """Emit the line of a file."""
        if difference is not None:
            self._summary.kinds[difference.kind] += 1
        fields: dict[str, object] = {
            **jsonl.path_field(path),
            "status": "equal" if difference is None else difference.kind.value,
            "bytes": None if file is None else file.bytes,
            "records": None if file is None else file.records,
            "sha256": None if file is None else file.sha256,
            "expected": None if difference is None else difference.expected,
            "found": None if difference is None else difference.found,
        }
        self._emit(jsonl.line("file", fields))

    def finish(self) -> int:
        """Emit the last line, and return the exit code."""
        kinds = self._summary.kinds
        fields: dict[str, object] = {
            "exit": self._summary.exit_code,
            "files": len(self._export.files),
            "records": self._export.records,
            **{kind.value: kinds[kind] for kind in FileFault},
            "incomplete": self._summary.incomplete,
            "damaged": self._summary.damaged,
        }
        self._emit(jsonl.line("summary", fields))
        return self._summary.exit_code
