"""The values that the owner of this repository sets: owner.py [NAME=VALUE]...

``PUBLISHING.md`` has them in a table, each with the files that hold it. Each NAME=VALUE is written
into these files and into the table. Then the values are listed that nobody has set, which have a
name that is reserved for examples (RFC 2606); the exit code is 1 if there are any.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

TABLE = "PUBLISHING.md"
_ROW = re.compile(r"^\| (?P<name>\w+) \| `(?P<value>[^`]+)` \| (?P<files>`.+`) \|", re.MULTILINE)
_RESERVED = re.compile(r"\.(?:invalid|example)\b")


@dataclass(frozen=True, slots=True)
class Value:
    """A value, and the files that hold it, by their paths in the repository."""

    name: str
    value: str
    files: tuple[str, ...]

    @property
    def is_set(self) -> bool:
        """Whether the value can be the owner's."""
        return _RESERVED.search(self.value) is None


def values(top: Path) -> dict[str, Value]:
    """Return the values of the table in the repository ``top``, by name."""
    rows = _ROW.finditer((top / TABLE).read_text())
    return {
        row["name"]: Value(row["name"], row["value"], tuple(re.findall("`([^`]+)`", row["files"])))
        for row in rows
    }


def spelled(value: str, file: str) -> str:
    """Return ``value`` as ``file`` spells it: manual pages escape each hyphen."""
    return value.replace("-", "\\-") if file.endswith((".5", ".7")) else value


def put(top: Path, old: Value, new: str) -> None:
    """Write ``new`` in the place of ``old`` into its files and the table."""
    for file in (*old.files, TABLE):
        path = top / file
        path.write_text(path.read_text().replace(spelled(old.value, file), spelled(new, file)))


def main(top: Path, *arguments: str) -> int:
    """Set what ``arguments`` name; list what is not set."""
    known = values(top)
    new = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
    if len(new) < len(arguments) or not new.keys() <= known.keys():
        sys.stderr.write(f"expected NAME=VALUE with a NAME of {', '.join(known)}\n")
        return 2
    for name, value in new.items():
        put(top, known[name], value)
    unset = [value for value in values(top).values() if not value.is_set]
    for each in unset:
        sys.stdout.write(f"{each.name} is not set: {each.value}\n")
    return 1 if unset else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parents[1], *sys.argv[1:]))
