"""Reports of commands that write new directories."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from kdump.errors import KdumpError, Refused, Unfinished
from kdump.format.lines.shell import operand, shell_text
from kdump.format.lines.text import printable
from kdump.repair.newdir.output import NewDirectory
from kdump.storage.repair_record import FOLDERS
from kdump.ui import jsonl
from kdump.ui.exits import Ending
from kdump.ui.paragraphs import LABEL, paragraph, wrap
from kdump.ui.units import count_text

if TYPE_CHECKING:
    from kdump.audit.targets.target import Target
    from kdump.ui.progress import Progress

Written = TypeVar("Written", bound=NewDirectory)
OutputT = TypeVar("OutputT", bound=NewDirectory, contravariant=True)


class OutputReport(Protocol[OutputT]):
    """The report of a run, as text or JSON."""

    def receipt(self, output: OutputT) -> None:
        """Print the receipt of a partition."""

    def error(self, error: Exception) -> None:
        """Print why a partition was not written."""

    def finish(self, exit_code: int) -> None:
        """Print the end of the report."""


def write_all(
    targets: Sequence[Target],
    write: Callable[[Target], Written],
    report: OutputReport[Written],
    meter: Progress,
) -> Ending:
    """Write the directory of each partition, also after errors; return the ending.

    A signal ends the work. The command that continues an interrupted one is printed at the end.
    """
    ending, resume = Ending(), None
    meter.expect(sum(target.size for target in targets))
    for target in targets:
        # A refused partition counts as if it had been read.
        counted = meter.done + target.size
        try:
            output = write(target)
        except (KdumpError, OSError) as error:
            with meter.paused():
                report.error(error)
            # After a failed write no file is left.
            failed = isinstance(error, OSError)
            ending |= Ending(refused=True) if failed else Ending.of(error)
            if isinstance(error, Unfinished):
                resume = shell_text(error.resume)
            if ending.stopped_by is not None:
                break
        else:
            with meter.paused():
                report.receipt(output)
            ending |= Ending(problems=output.has_errors)
        meter.advance(max(counted - meter.done, 0))
    if resume is not None:
        with meter.paused():
            click.echo(resume, err=True)
    return ending


def done_lines(output: NewDirectory, command: str) -> Iterator[str]:
    """Yield the first lines of a receipt as text."""
    origin, target = (printable(os.fspath(path)) for path in (output.partition, output.destination))
    yield from wrap(
        f"DONE {output.id}  {command} {origin} -> {target}: {output.begun}, {output.seconds} s; "
        "the source is unchanged",
        0,
    )


def proof_lines(output: NewDirectory, segments: int, proof: str) -> Iterator[str]:
    """Yield the last lines of a receipt: notes, what verify found, the proof, the next command."""
    for note in output.notes:
        yield paragraph("note", printable(note))
    codes = output.problem_codes
    yield paragraph(
        "checked",
        f"{count_text(segments, 'segment')}, every header and checksum: "
        f"{count_text(output.problems, 'problem')}" + (f" ({', '.join(codes)})" if codes else ""),
    )
    yield paragraph("proof", f"{FOLDERS}/{output.id}/receipt.json in it: {proof}")
    yield f"{'next':{LABEL}}{shell_text(('kdump', 'verify', operand(output.destination)))}"


def receipt_line(output: NewDirectory, encoded: dict[str, Any]) -> str:
    """Return the JSON line of a receipt; ``encoded`` holds all its fields but the paths."""
    fields = {
        **encoded,
        "partition": jsonl.path_value(output.partition),
        "target": jsonl.path_value(output.destination),
        "next": ["kdump", "verify", jsonl.path_value(operand(output.destination))],
    }
    return jsonl.line("receipt", fields)


def print_error(error: Exception) -> None:
    """Print on standard error why a partition was not written."""
    kind = "refused: " if isinstance(error, Refused) else ""
    click.echo(f"kdump: {kind}{printable(str(error))}", err=True)
