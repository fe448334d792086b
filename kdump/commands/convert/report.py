"""The report of a conversion to a new directory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import click

from kdump.audit.targets.scope import Scope
from kdump.commands.convert.receipt import ConvertedCopy, encode
from kdump.ui import jsonl
from kdump.ui.paragraphs import paragraph
from kdump.ui.repairs.logs import ConversionSums
from kdump.ui.repairs.outputs import (
    OutputReport,
    done_lines,
    print_error,
    proof_lines,
    receipt_line,
)
from kdump.ui.repairs.text import nothing_lines
from kdump.ui.units import count_text


def start_report(
    form: Literal["text", "json"], command: str, scope: Scope
) -> OutputReport[ConvertedCopy]:
    """Return the report of a run, after printing its header if ``form`` is JSON."""
    return _Json(command, scope) if form == "json" else _Text(command)


class _Text:
    """The text report. Partitions with nothing to do are counted, and reported at the end."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._done = self._failed = 0
        self._nothing: list[ConvertedCopy] = []

    def receipt(self, output: ConvertedCopy) -> None:
        if output.nothing:
            self._nothing.append(output)
            return
        self._done += 1
        for line in lines(output, self._command):
            click.echo(line)

    def error(self, error: Exception) -> None:
        self._failed += 1
        print_error(error)

    def finish(self, exit_code: int) -> None:
        """Print the sums over several partitions, or that there is nothing to do in one."""
        if self._done + self._failed + len(self._nothing) > 1:
            click.echo(paragraph("result", "; ".join(self._sums())))
            return
        for copy in self._nothing:
            for line in nothing_lines(copy.partition, copy.notes):
                click.echo(line)

    def _sums(self) -> Iterator[str]:
        """Yield the number of partitions for each result."""
        if self._done:
            yield f"{self._done:,} done"
        if self._failed:
            yield f"{self._failed:,} refused or failed"
        if idle := len(self._nothing):
            yield f"nothing to do in {count_text(idle, 'partition')}"


class _Json:
    """The JSON report."""

    def __init__(self, command: str, scope: Scope) -> None:
        self._done = self._nothing = self._failed = 0
        paths = [root.path for root in scope.roots]
        click.echo(jsonl.line("header", jsonl.header(command, paths)))

    def receipt(self, output: ConvertedCopy) -> None:
        if output.nothing:
            self._nothing += 1
            where = jsonl.path_value(output.partition)
            click.echo(jsonl.line("nothing", {"partition": where, "notes": list(output.notes)}))
            return
        self._done += 1
        click.echo(receipt_line(output, encode(output)))

    def error(self, error: Exception) -> None:
        self._failed += 1
        print_error(error)

    def finish(self, exit_code: int) -> None:
        fields: dict[str, object] = {
            "exit": exit_code,
            "partitions": self._done,
            "nothing": self._nothing,
            "failed": self._failed,
        }
        click.echo(jsonl.line("summary", fields))


def lines(copy: ConvertedCopy, command: str) -> Iterator[str]:
    """Yield the lines of a receipt as text."""
    conversion = _sums(copy)
    yield from done_lines(copy, command)
    yield paragraph(
        "converted",
        f"{conversion.logs}, {conversion.sizes}; "
        f"{count_text(copy.legacy, 'old message or wrapper', 'old messages and wrappers')}",
    )
    yield paragraph("read back", f"{conversion.count}: the same as before")
    if copy.untouched:
        others = count_text(len(copy.untouched), "other log")
        yield paragraph("copied", f"{others}, byte for byte")
    yield paragraph("result", f"log start offset {copy.log_start}, log end offset {copy.log_end}")
    proof = "SHA-256 of every file written, digests of the records before and after"
    yield from proof_lines(copy, len(copy.parts) + len(copy.untouched), proof)


def _sums(copy: ConvertedCopy) -> ConversionSums:
    return ConversionSums(
        len(copy.logs),
        len(copy.parts),
        copy.bytes_before,
        copy.bytes_after,
        copy.records,
        tuple(part.digest_after for part in copy.parts),
    )
