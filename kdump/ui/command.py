"""The class of all commands: a brief ``--help``, and the whole help."""

from __future__ import annotations

import inspect
import re
from typing import Final

import click

#: The sections of options by the names of their parameters; all others are common.
_SECTIONS: Final = {
    "Selection": (
        "config topics excluded patterns topic_name offsets since until key key_base64 producer_id "
        "limit below_log_start read_committed dedupe_replicas"
    ),
    "Output": (
        "form progress quiet info wide fail_on to file output metrics base64 "
        "file_bytes partition_by"
    ),
    "As Kafka's tool": "files print_data_log deep_iteration decoder",
    "State": "changed state state_file max_age_s status",
    "Spark": "master remote",
}
_COMMON: Final = "Common"
_SECTION_OF: Final = {
    name: section for section, names in _SECTIONS.items() for name in names.split()
}
#: Where the first sentence of a help ends.
_SENTENCE: Final = re.compile(r"(?<=[.])\s+(?=[A-Z]|\[(?!default))")
#: The widest names of options that stand on the line of their help.
_NAMES: Final = 22


def paragraphs(text: str | None) -> list[str]:
    """Return the paragraphs of a help, which is written as a docstring."""
    return inspect.cleandoc(text or "").split("\f")[0].strip().split("\n\n")


class Command(click.Command):
    """A command whose ``--help`` has its first paragraph, and a sentence for each option.

    ``manual`` returns all that is written, which the manual page says too.
    """

    def get_help(self, ctx: click.Context) -> str:
        """Return what ``--help`` prints."""
        formatter = ctx.make_formatter()
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(paragraphs(self.help)[0])
        sections: dict[str, list[tuple[str, str]]] = {name: [] for name in (_COMMON, *_SECTIONS)}
        for parameter in self.get_params(ctx):
            names, text = parameter.get_help_record(ctx) or ("", "")
            if text:  # an argument without is in the usage
                section = _SECTION_OF.get(parameter.name or "", _COMMON)
                sections[section].append((names, _SENTENCE.split(text)[0]))
        lengths = [len(names) for records in sections.values() for names, _ in records]
        width = max(length for length in lengths if length <= _NAMES)
        for section, records in sections.items():
            if records:
                with formatter.section(section):
                    rows = [(names.ljust(width), text) for names, text in records]
                    formatter.write_dl(rows, col_max=width)
        formatter.write_paragraph()
        formatter.write_text(f"Exit codes, and all about each option: kdump help {self.name}")
        return formatter.getvalue().rstrip("\n")

    def manual(self, ctx: click.Context) -> str:
        """Return the whole help."""
        return super().get_help(ctx)
