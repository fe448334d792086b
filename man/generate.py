"""Writes the manual pages: ``python man/generate.py [DIRECTORY]``.

The pages of section 1 say of each command what its ``--help`` says. The guides beside this file are
of section 7, or 5 for files, made by pandoc; ``kdump-findings.md`` is written first, from
``kdump.audit.codes``, and ``kdump-json.md``, from the JSON Schemas in ``schemas/``.

Spec: man(7), for groff and mandoc.
"""

from __future__ import annotations

import inspect
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import wrap
from typing import Any

import click

from kdump.audit.codes import FAMILIES
from kdump.audit.finding_code import FindingCode
from kdump.cli.main import cli
from kdump.commands.dump.differences import DIFFERENCES
from kdump.commands.explain.broker_log.table import messages_of
from kdump.ui.command import paragraphs

HERE = Path(__file__).parent
VERSION = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]["version"]

#: A guide begins with its title line: ``# NAME(SECTION): what it is about``.
_TITLE = re.compile(r"# (?P<name>[a-z-]+)\((?P<section>[57])\): (?P<about>.*)\n")
_COMMENT = re.compile(r"^ *<!--.*?-->\n", re.MULTILINE | re.DOTALL)
#: A link inside the repository, of which a page shows the text alone.
_LINK = re.compile(r"\[([^]]+)]\((?!https?:)[^)]+\)")
#: pandoc's Markdown, but for what a forge does not know.
_MARKDOWN = "markdown-smart-citations-tex_math_dollars-raw_tex-raw_html-subscript-superscript"

_EXIT_CODES = "Exit codes: "
_EXIT_CODE = re.compile(r"(\d+(?:, \d+)*) (.*)")


def pages() -> dict[str, str]:
    """The text of each page by file name: kdump(1), and one for each command."""
    top = click.Context(cli, info_name="kdump", **cli.context_settings)
    subs = {name: cli.get_command(top, name) for name in cli.list_commands(top)}
    commands = {name: command for name, command in subs.items() if command is not None}
    titles = ["kdump (1)", *(f"kdump-{name} (1)" for name in commands)]
    titles += [f"{name} ({_title(name, text)['section']})" for name, text in guides().items()]
    texts = {"kdump": _page("kdump", top, titles, _commands(commands))}
    for name, command in commands.items():
        context = click.Context(command, info_name=name, parent=top)
        more = _MORE.get(name, lambda: iter(()))()
        texts[f"kdump-{name}"] = _page(f"kdump-{name}", context, titles, more)
    return {f"{title}.1": text for title, text in texts.items()}


def guides() -> dict[str, str]:
    """The text of each guide in Markdown by name, those in ``MADE`` from what they are made of."""
    texts = {path.stem: path.read_text() for path in HERE.glob("*.md")}
    return dict(sorted((texts | {name: make() for name, make in MADE.items()}).items()))


def _title(name: str, text: str) -> re.Match[str]:
    """The title line of a guide."""
    title = _TITLE.match(text)
    if title is None or title["name"] != name:
        raise ValueError(f"expected '# {name}(7): ABOUT' as the first line of the guide")
    return title


def guide_page(name: str, text: str) -> tuple[str, str]:
    """The file name and the text of the page that pandoc makes of a guide."""
    title = _title(name, text)
    body = _LINK.sub(r"\1", _COMMENT.sub("", text[title.end() :]))
    made = subprocess.run(
        [
            "pandoc",
            "-f",
            _MARKDOWN,
            "-t",
            "man",
            "--ascii",
            "--columns=72",
            "--shift-heading-level-by=-1",
        ],
        input=body,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    made = re.sub(r"\\f\[(?:V|CR?)]", r"\\f[B]", made)  # other releases of pandoc have other fonts
    made = re.sub(r"(?<![\\'])-", r"\\-", made)  # what is copied has to be a minus
    made = re.sub(r"lw\(([\d.]+)n\)", _narrower, made)
    lines = [
        *_head(name, int(title["section"]), f"man/{name}.md"),
        _name(name, title["about"]),
        ".SH DESCRIPTION",
        made,
    ]
    tables = ["'\\\" t"] if "\n.TS\n" in made else []  # has man(1) run tbl
    return f"{name}.{title['section']}", "\n".join(tables + lines)


def _narrower(width: re.Match[str]) -> str:
    """The width of a column of a table: pandoc gives all of them 70, man(7) indents by 7."""
    return f"lw({float(width[1]) * 0.87:.1f}n)"


def _head(name: str, section: int, source: str) -> list[str]:
    return [
        f'.\\" Written by man/generate.py from {source}.',
        f'.TH {_text(name.upper())} {section} "" "kdump {VERSION}" "kdump manual"',
        ".nh",  # no word broken in two: commands are copied from here
        ".ad l",
        ".SH NAME",
    ]


def _name(name: str, about: str) -> str:
    return f"{_text(name)} \\- {_text(about)}"


def _page(title: str, context: click.Context, titles: list[str], more: Iterator[str]) -> str:
    command = context.command
    first, *others = paragraphs(command.help)
    lines = [
        *_head(title, 1, "the help of the commands"),
        _name(title, _name_line(first)),
        ".SH SYNOPSIS",
        f".B {_text(context.command_path)}",
        _text(" ".join(command.collect_usage_pieces(context))),
        ".SH DESCRIPTION",
        *_prose(first),
        *_further(others),
        *_parameters(context),
        *more,
        *_epilog(command.epilog or ""),
        ".SH SEE ALSO",
        ",\n".join(f".BR {_text(other)}" for other in titles if other != f"{title} (1)"),
    ]
    return "\n".join(lines) + "\n"


def _name_line(paragraph: str) -> str:
    sentence = " ".join(paragraph.split()).split(". ")[0].rstrip(".")
    return sentence[0].lower() + sentence[1:]


def _further(texts: list[str]) -> Iterator[str]:
    for paragraph in texts:
        yield ".PP"
        yield from _prose(paragraph)


def _prose(paragraph: str) -> Iterator[str]:
    if paragraph.startswith("\b\n"):  # Click's mark for lines to be left as they are
        yield ".nf"
        yield from map(_text, paragraph.splitlines()[1:])
        yield ".fi"
    else:
        yield from _wrapped(paragraph)


def _parameters(context: click.Context) -> Iterator[str]:
    records = [
        parameter.get_help_record(context) for parameter in context.command.get_params(context)
    ]
    yield ".SH OPTIONS"
    for names, help_text in filter(None, records):
        if help_text:  # an argument without is in the synopsis
            yield from _item(names, help_text)


def _commands(commands: dict[str, click.Command]) -> Iterator[str]:
    yield ".SH COMMANDS"
    for name, command in commands.items():
        yield from _item(name, command.get_short_help_str(limit=200))


def _findings() -> str:
    """The guide of the finding codes, family by family."""
    parts = [
        "# kdump-findings(7): what kdump finds, what a broker does there, and what to do\n",
        "<!-- Written by man/generate.py from kdump/audit/codes.py. -->\n",
        inspect.cleandoc(_FINDINGS) + "\n",
    ]
    for title, family in FAMILIES.items():
        parts += [f"## {title}\n", *map(_finding, family)]
    return "\n".join(parts)


_FINDINGS = """
    A finding has a code, which never changes its meaning. `kdump explain CODE` prints one entry
    of this page; `kdump explain 'LINE'` finds the entries for a line of a broker's log. The
    severity belongs to the code:

    - **error**: records are lost, a broker serves them wrongly, or it does not start, or leaves
      the log directory out. The exit code is 4.
    - **incomplete**: something could not be checked; no corruption is known. The exit code is 5.
    - **warning**: a broker repairs the problem at startup, or ignores it, at a cost. With
      `--fail-on warning` the exit code is 4.
    - **info**: normal operation leaves this. The text report counts these; `--info` lists them.
"""


def _finding(code: FindingCode) -> str:
    rows = [("Broker", _markdown(code.broker)), ("Do", _markdown(code.advice))]
    rows += [("Logs", _code_span(message.replace("{}", "…"))) for message in messages_of(code)]
    items = (f"- {label}: {text}" for label, text in rows)
    lines = [f"**{code.severity.value}**: {_markdown(code.meaning)}", "", *items]
    return f"### {code.name}\n\n" + "\n".join(lines) + "\n"


def _json() -> str:
    """The guide of the JSON lines, command by command."""
    schemas = {
        path.stem: json.loads(path.read_text()) for path in (HERE / "schemas").glob("*.json")
    }
    common = schemas.pop("common")["$defs"]
    names = [name for name in cli.list_commands(click.Context(cli)) if name in schemas]
    headers = [schemas[name]["$defs"]["header"]["properties"] for name in names]
    shared = {
        name: field for name, field in headers[0].items() if all(name in each for each in headers)
    }
    shared["command"] = {"enum": names, "description": "The command."}
    parts = [
        "# kdump-json(7): the lines of --format json, and each of their fields\n",
        "<!-- Written by man/generate.py from man/schemas. -->\n",
        inspect.cleandoc(_JSON) + "\n",
        "## header\n\nThe first line of every command. Some have more fields in it.\n",
        "\n".join(_fields({"properties": shared, "required": list(shared)}, 0)) + "\n",
    ]
    for name in names:
        parts.append(f"## {name}\n")
        own = schemas[name]["$defs"]
        for field in shared:
            del own["header"]["properties"][field]
        for line in schemas[name]["oneOf"]:
            kind = line["$ref"].rpartition("/")[2]
            if kind not in own:
                about = common[kind]["description"]
                parts.append(f"### {name} `{kind}`\n\n{about} See *{kind}* below.\n")
            elif (definition := own.pop(kind)).get("properties") != {}:
                parts.append(_definition(f"{name} `{kind}`", definition))
        parts += [_definition(f"{name} `{kind}`", each) for kind, each in own.items()]
    parts.append("## Lines of several commands\n")
    parts += [_definition(f"`{kind}`", each) for kind, each in common.items() if _is_line(each)]
    parts.append("## Objects of several lines\n")
    parts += [_definition(f"`{kind}`", each) for kind, each in common.items() if not _is_line(each)]
    return "\n".join(parts)


_JSON = """
    With `--format json` a command prints an object on each line: a header first, a summary last,
    and between them what it finds. The `type` of a line tells its fields.

    ## What is stable

    Until release 2.0.0:

    - The types of lines, and the names, types and meanings of fields. If one ever changes, `schema`
      in the header increases.
    - Finding codes, and all values that this page lists.
    - A field is always there, unless this page calls it optional. It is null where there is no
      value.
    - The header comes first and the summary last, with the exit code as `exit`. A run that prints
      no summary did not come to its end.

    Later releases may add lines, fields and values: ignore those that you do not know. Sentences,
    such as `text`, `detail` and `advice`, are for people, and may change. So may the order of
    lines, but for those of which this page says that they follow others.

    Sizes and positions are in bytes. Timestamps and fields with `_ms` are in ms, those with `_ns`
    in ns, both since 1970; other times are ISO 8601, UTC. A command is a list of words. A string
    that is not valid UTF-8, such as a path, is base64 under the name of its field with `_base64`,
    in place of that field.

    The lines of each command have a JSON Schema (draft 2020-12) in `share/doc/kafka-kdump/schemas`,
    where this page is installed. `kdump help verify.json` prints that of `verify`, and
    `kdump help common.json` what the schemas share.
"""


def _is_line(schema: dict[str, Any]) -> bool:
    return "const" in schema.get("properties", {}).get("type", {})


def _definition(title: str, schema: dict[str, Any]) -> str:
    """A section about a line or an object, which may have several forms."""
    parts = [f"### {title}\n\n{schema['description']}\n"]
    for form in schema.get("oneOf", [schema]):
        if "$ref" in form:
            parts.append(f"As *{form['$ref'].rpartition('/')[2]}* below, or:\n")
        elif form is not schema:
            parts.append(f"{form['description']}\n")
        parts.append("".join(f"{line}\n" for line in _fields(form, 0)))
    return "\n".join(filter(None, parts))


def _fields(schema: dict[str, Any], depth: int) -> Iterator[str]:
    """An item for each field of an object, with those of the objects in it."""
    fields = schema.get("properties", {})
    for name, field in fields.items():
        base = name.removesuffix("_base64")
        if (name == "type" and "const" in field) or (base != name and base in fields):
            continue
        needed = name in schema["required"] or f"{name}_base64" in fields
        sort = _sort(field) + ("" if needed else ", optional")
        about = f". {field['description']}" if "description" in field else ""
        yield f"{'  ' * depth}- `{name}`: {sort}{about}"
        yield from _fields(_innermost(field), depth + 1)


def _innermost(field: dict[str, Any]) -> dict[str, Any]:
    """The object in lists and maps."""
    inner = field.get("items") or field.get("additionalProperties")
    return _innermost(inner) if inner else field


def _sort(field: dict[str, Any]) -> str:
    """The type of a field in words."""
    if "const" in field:
        return f"`{str(field['const']).lower()}`"
    if "enum" in field:
        return _either("null" if value is None else f"`{value}`" for value in field["enum"])
    if "$ref" in field:
        return f"*{field['$ref'].rpartition('/')[2]}*"
    if "anyOf" in field:
        return _either(map(_sort, field["anyOf"]))
    types = field.get("type", "any")
    first, *others = [types] if isinstance(types, str) else types
    if first == "array":
        first = f"list of {_several(field['items'])}"
    elif "additionalProperties" in field:
        first = f"object of {_several(field['additionalProperties'])} by name"
    return _either([first, *others])


def _several(field: dict[str, Any]) -> str:
    """The type of each item of a list or an object in words."""
    return re.sub(r"^(?:list|object|string|integer)", r"\g<0>s", _sort(field))


def _either(texts: Iterable[str]) -> str:
    *others, last = texts
    return f"{', '.join(others)} or {last}" if others else last


def _markdown(text: str) -> str:
    """``text`` as Markdown takes it: nothing in it is a mark."""
    return re.sub(r"[\\`*_<\[]", r"\\\g<0>", text)


def _code_span(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _differences() -> Iterator[str]:
    yield ".SH DIFFERENCES FROM KAFKA'S TOOL"
    for name, text in DIFFERENCES.items():
        yield from _item(name, text)


#: What the pages of some commands have beside their help's options.
_MORE = {"dump": _differences}


def _epilog(epilog: str) -> Iterator[str]:
    for paragraph in paragraphs(epilog):
        if paragraph.startswith(_EXIT_CODES):
            yield ".SH EXIT STATUS"
            yield from _exit_codes(" ".join(paragraph.split()))
        else:
            yield from _further([paragraph])


def _exit_codes(sentence: str) -> Iterator[str]:
    for item in sentence.removeprefix(_EXIT_CODES).removesuffix(".").split("; "):
        match = _EXIT_CODE.fullmatch(item)
        if match is None:
            raise ValueError(f"expected 'CODE[, CODE] MEANING' in an epilog, found {item!r}")
        yield from _item(match[1], match[2])


def _item(term: str, text: str) -> Iterator[str]:
    yield ".TP"
    yield f".B {_text(term)}"
    yield from _wrapped(text)


def _wrapped(text: str) -> Iterator[str]:
    """``text`` in lines that leave room for their escapes; roff joins them again."""
    yield from map(_text, wrap(text, 72, break_long_words=False, break_on_hyphens=False))


def _text(text: str) -> str:
    """``text`` as roff takes it: nothing in it is a request or an escape."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    escaped = re.sub(r"[^\x20-\x7e]", lambda found: f"\\[u{ord(found[0]):04X}]", escaped)
    return "\\&" + escaped if escaped.startswith((".", "'")) else escaped


#: The guides that are made, each of one source.
MADE = {"kdump-findings": _findings, "kdump-json": _json}


def main(directory: Path) -> None:
    """Write the pages to ``directory``, and the guides that are made."""
    for name, text in pages().items():
        (directory / name).write_text(text)
    for name, make in MADE.items():
        (directory / f"{name}.md").write_text(make())
    if shutil.which("pandoc") is None:
        raise SystemExit("no pandoc command: the pages of guides are not written")
    for name, text in guides().items():
        page, written = guide_page(name, text)
        (directory / page).write_text(written)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
