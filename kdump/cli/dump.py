"""``kdump dump``: what stands in a segment, a partition or a log directory, damage in its place.

Spec: ``org.apache.kafka.tools.DumpLogSegments`` 4.3.1 for the text (KOD 8). It must never map a
file, because half a printout cannot be taken back.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command(
    short_help="Print batches and records, damage in its place.",
    epilog="Exit codes: 0 printed; 2 wrong usage; 4 damage was met and shown; 5 something could "
    "not be read, which comes before 4; 130, 143 ended by a signal; 141 the reader of the output "
    "went away.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Text as Kafka's own dump tool prints it, or JSON Lines without loss.",
)
@click.option("--records", is_flag=True, help="Print the records of each batch too.")
@click.option("--data", is_flag=True, help="Print keys and values in the text; implies --records.")
@click.option("--base64", is_flag=True, help="Print all bytes in JSON as base64, text or not.")
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path)
)
def dump(
    paths: tuple[Path, ...], output_format: str, records: bool, data: bool, base64: bool
) -> int:
    """Print the batches of PATH: a .log or .checkpoint file, a partition or a log directory.

    Damage is shown in its place, and the dump goes on behind it. In text, keys and values are
    printed only with --data, and characters that could upset a terminal are escaped.
    """
    from kdump.cli.dump_lines import JsonDump, TextDump
    from kdump.cli.dump_run import files, run

    if output_format == "json" and data:
        raise click.UsageError("--data is for text: use --records with --format json.")
    if output_format == "text" and base64:
        raise click.UsageError("--base64 is for JSON: use --format json.")
    batch_files = list(files(paths))
    renderer = JsonDump(paths, force_base64=base64) if output_format == "json" else TextDump(data)
    return run(batch_files, renderer, sys.stdout.buffer, records or data)
