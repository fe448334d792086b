"""Reports of commands that write new directories."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from kdump.cli.ui import jsonl
from kdump.cli.ui.exits import INCOMPLETE, OK, PROBLEMS, REFUSED
from kdump.cli.ui.paragraphs import LABEL, labelled, wrapped
from kdump.cli.ui.units import count_text
from kdump.errors import KdumpError, Refused
from kdump.format.lines.shell import operand, shell_text
from kdump.format.lines.text import printable
from kdump.repair.newdir.output import Output
from kdump.storage.repair_record import FOLDERS

if TYPE_CHECKING:
    from kdump.audit.targets.target import Target
    from kdump.cli.ui.progress import Progress

Written = TypeVar("Written", bound=Output)
OutputT = TypeVar("OutputT", bound=Output, contravariant=True)


class Report(Protocol[OutputT]):
    """How a run is told."""

    def receipt(self, output: OutputT) -> None:
        """Tell what was done."""

    def failed(self, error: Exception) -> None:
        """Tell why something was not."""

    def finish(self, exit_code: int) -> None:
        """Tell how it ended."""


def write_all(
    targets: Sequence[Target],
    write: Callable[[Target], Written],
    told: Report[Written],
    shown: Progress,
) -> set[int]:
    """Write the directory of each partition, whatever becomes of the others; all exit codes."""
    codes = {OK}
    shown.expect(sum(target.size for target in targets))
    for target in targets:
        # What is refused counts as if it had been read.
        counted = shown.done + target.size
        try:
            output = write(target)
        except (KdumpError, OSError) as error:
            with shown.paused():
                told.failed(error)
            # What went wrong in writing has left nothing.
            codes.add(REFUSED if isinstance(error, Refused | OSError) else INCOMPLETE)
        else:
            with shown.paused():
                told.receipt(output)
            codes.add(PROBLEMS if output.has_errors else OK)
        shown.advance(max(counted - shown.done, 0))
    return codes


def done_lines(output: Output, command: str) -> Iterator[str]:
    """Yield the first lines of a receipt for people."""
    origin, target = (printable(os.fspath(path)) for path in (output.partition, output.destination))
    yield from wrapped(
        f"DONE {output.id}  {command} {origin} -> {target}: {output.begun}, {output.seconds} s; "
        "what was read is unchanged",
        0,
    )


def proof_lines(output: Output, segments: int, proof: str) -> Iterator[str]:
    """Yield the last lines: what is to be noted of it, what verify says, how to go on."""
    for note in output.notes:
        yield labelled("note", printable(note))
    codes = sorted({one.code.name for one in output.findings}) if output.problems else []
    yield labelled(
        "checked",
        f"{count_text(segments, 'segment')}, every header and checksum: "
        f"{count_text(output.problems, 'problem')}" + (f" ({', '.join(codes)})" if codes else ""),
    )
    yield labelled("proof", f"{FOLDERS}/{output.id}/receipt.json in it: {proof}")
    yield f"{'next':{LABEL}}{shell_text(('kdump', 'verify', operand(output.destination)))}"


def receipt_line(output: Output, encoded: dict[str, Any]) -> str:
    """A receipt for scripts; ``encoded`` is all of it but the paths."""
    fields = {
        **encoded,
        "partition": jsonl.path_value(output.partition),
        "target": jsonl.path_value(output.destination),
        "next": ["kdump", "verify", jsonl.path_value(operand(output.destination))],
    }
    return jsonl.line("receipt", fields)


def complain(error: Exception) -> None:
    """Tell why a partition was not written, on standard error."""
    kind = "refused: " if isinstance(error, Refused) else ""
    click.echo(f"kdump: {kind}{printable(str(error))}", err=True)
