"""Messages in the classes of a Kafka release: what is logged at WARN and above, and exceptions.

Spec: the class file format of the Java SE specification, chapter 4. A text is put together from the
constants of a method in their order; ``{}`` stands where a value does.
"""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

#: The calls that log at WARN and above, or hand a text to what does.
LEVELS = {
    "warn": "WARN", "error": "ERROR", "fatal": "FATAL", "handleFault": "ERROR",
    "maybeAddOfflineLogDir": "ERROR", "maybeHandleIOException": "ERROR",
}  # fmt: skip
#: The calls of Scala that throw with a text.
_CHECKS = {"require": "requirement failed: ", "assert": "assertion failed: ", "assume": ""}

#: Lengths of instructions by opcode, without the two that vary.
_ONE, _TWO, _THREE = 1, 2, 3
_LENGTHS = [1] * 256
for _code in (0x10, 0x12, *range(0x15, 0x1A), *range(0x36, 0x3B), 0xA9, 0xBC):
    _LENGTHS[_code] = 2
for _code in (
    0x11, 0x13, 0x14, 0x84, *range(0x99, 0xA9), *range(0xB2, 0xB9), 0xBB, 0xBD, 0xC0, 0xC1,
    0xC6, 0xC7,
):  # fmt: skip
    _LENGTHS[_code] = 3
_LENGTHS[0xC5] = 4
for _code in (0xB9, 0xBA, 0xC8, 0xC9):
    _LENGTHS[_code] = 5

Value = tuple[str, str] | str | int | tuple[str, int] | tuple[str, int, int]


@dataclass(frozen=True, order=True)
class ClassMessage:
    """A text of a class: ``kind`` is a level, or the name of the exception that carries it."""

    template: str
    kind: str
    where: str


@dataclass
class _Method:
    name: str
    code: bytes


@dataclass
class _Class:
    name: str
    pool: list[tuple[int, object]]
    methods: list[_Method] = field(default_factory=list)
    bootstraps: list[list[int]] = field(default_factory=list)

    def text(self, index: int) -> str:
        return self.pool[index][1]  # type: ignore[return-value]

    def name_of(self, index: int) -> str:
        return self.text(self.pool[index][1])  # type: ignore[arg-type]

    def member(self, index: int) -> tuple[str, str, str]:
        """Return class, name and descriptor of a method or field."""
        owner, pair = self.pool[index][1]  # type: ignore[misc]
        name, descriptor = self.pool[pair][1]  # type: ignore[misc]
        return self.name_of(owner), self.text(name), self.text(descriptor)


def read_messages(jar: Path, wanted: re.Pattern[str]) -> Iterator[ClassMessage]:
    """Yield the messages of the classes of ``jar`` whose names ``wanted`` matches, sorted."""
    with zipfile.ZipFile(jar) as archive:
        classes = {
            name[:-6]: _parse(archive.read(name))
            for name in archive.namelist()
            if name.endswith(".class") and wanted.match(name[:-6].replace("/", "."))
        }
    texts: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for name, cls in classes.items():
        for method in cls.methods:
            texts.setdefault((name, method.name), []).extend(_scan(cls, method, {}))
    # Scala passes texts as functions: what such a function returns is the text of the call.
    returned = {
        key: max((text for kind, text in found if kind == ""), key=len, default="")
        for key, found in texts.items()
    }
    # With Scala 2.11, a function is a class of its own.
    for (name, method), text in list(returned.items()):
        if "$$anonfun$" in name and method.startswith("apply") and text:
            returned[name, ""] = text
    found = {
        ClassMessage(text, kind, _where(name, method.name))
        for name, cls in classes.items()
        for method in cls.methods
        for kind, text in _scan(cls, method, returned)
        if kind and " " in text.replace("{}", "").strip()
    }
    yield from sorted(found)


def _where(name: str, method: str) -> str:
    short = name.rpartition("/")[2]
    outer, *inner = re.split(r"\$+", short)
    function = next((part for part in inner if part == "anonfun"), None)
    if function:
        rest = inner[inner.index("anonfun") + 1 :]
        method = rest[0] if rest else method
    else:
        method = re.sub(r"^\$+anonfun\$+|\$+\w*$", "", method) or method
        method = re.sub(r"^.*?\$lambda\$|^lambda\$", "", method)
        method = method.split("$")[0]
    return f"{outer}.{method}"


def _parse(data: bytes) -> _Class:
    (count,) = struct.unpack_from(">H", data, 8)
    pool: list[tuple[int, object]] = [(0, None)] * count
    at, index = 10, 1
    while index < count:
        tag = data[at]
        if tag == 1:
            (size,) = struct.unpack_from(">H", data, at + 1)
            pool[index] = (tag, data[at + 3 : at + 3 + size].decode("utf-8", "replace"))
            at += 3 + size
        elif tag in (3, 4):
            pool[index] = (tag, None)
            at += 5
        elif tag in (5, 6):
            at += 9
            index += 1
        elif tag in (7, 8, 16, 19, 20):
            pool[index] = (tag, struct.unpack_from(">H", data, at + 1)[0])
            at += 3
        elif tag == 15:
            pool[index] = (tag, struct.unpack_from(">BH", data, at + 1))
            at += 4
        else:
            pool[index] = (tag, struct.unpack_from(">HH", data, at + 1))
            at += 5
        index += 1
    _, this, _, interfaces = struct.unpack_from(">HHHH", data, at)
    at += 8 + 2 * interfaces
    cls = _Class("", pool)
    cls.name = cls.name_of(this)
    for members in ("fields", "methods"):
        (count,) = struct.unpack_from(">H", data, at)
        at += 2
        for _ in range(count):
            _, name, _, attributes = struct.unpack_from(">HHHH", data, at)
            at += 8
            for _ in range(attributes):
                attribute, size = struct.unpack_from(">HI", data, at)
                if members == "methods" and cls.text(attribute) == "Code":
                    (length,) = struct.unpack_from(">I", data, at + 10)
                    code = data[at + 14 : at + 14 + length]
                    cls.methods.append(_Method(cls.text(name), code))
                at += 6 + size
    (count,) = struct.unpack_from(">H", data, at)
    at += 2
    for _ in range(count):
        attribute, size = struct.unpack_from(">HI", data, at)
        if cls.text(attribute) == "BootstrapMethods":
            (number,) = struct.unpack_from(">H", data, at + 6)
            inside = at + 8
            for _ in range(number):
                _, arguments = struct.unpack_from(">HH", data, inside)
                cls.bootstraps.append(list(struct.unpack_from(f">{arguments}H", data, inside + 4)))
                inside += 4 + 2 * arguments
        at += 6 + size
    return cls


def _instructions(code: bytes) -> Iterator[tuple[int, int]]:
    """Yield each opcode and its position."""
    at = 0
    while at < len(code):
        opcode = code[at]
        yield opcode, at
        if opcode in (0xAA, 0xAB):
            aligned = at + 4 - at % 4
            if opcode == 0xAA:
                low, high = struct.unpack_from(">ii", code, aligned + 4)
                at = aligned + 12 + 4 * (high - low + 1)
            else:
                (pairs,) = struct.unpack_from(">i", code, aligned + 4)
                at = aligned + 8 + 8 * pairs
        elif opcode == 0xC4:
            at += 6 if code[at + 1] == 0x84 else 4
        else:
            at += _LENGTHS[opcode]


def _scan(
    cls: _Class, method: _Method, returned: dict[tuple[str, str], str]
) -> Iterator[tuple[str, str]]:
    """Yield kind and text of each message of a method; "" and the text for what it returns."""
    pending: list[str] = []
    builders: list[list[str]] = []
    thrown: list[tuple[str, int]] = []
    code, literal = method.code, False
    for opcode, at in _instructions(code):
        was_literal, literal = literal, False
        if opcode in (0x12, 0x13):
            index = code[at + 1] if opcode == 0x12 else struct.unpack_from(">H", code, at + 1)[0]
            tag, value = cls.pool[index]
            if tag == 8:
                pending.append(cls.text(value))  # type: ignore[arg-type]
                literal = True
        elif opcode == 0xBB:
            name = cls.name_of(struct.unpack_from(">H", code, at + 1)[0])
            if name in ("java/lang/StringBuilder", "scala/collection/mutable/StringBuilder"):
                builders.append([])
            elif name == "scala/StringContext":
                builders.append([])
                thrown.append(("StringContext", len(pending)))
            elif name.endswith(("Exception", "Error")):
                thrown.append((name.rpartition("/")[2].rpartition("$")[2], len(pending)))
            elif (name, "") in returned:
                pending.append(returned[name, ""])
        elif opcode == 0xBA:
            (index,) = struct.unpack_from(">H", code, at + 1)
            number, pair = cls.pool[index][1]  # type: ignore[misc]
            arguments = cls.bootstraps[number]
            name = cls.text(cls.pool[pair][1][0])  # type: ignore[index]
            if name == "makeConcatWithConstants":
                text = cls.name_of(arguments[0])
                for argument in arguments[1:]:
                    tag, value = cls.pool[argument]
                    constant = cls.text(value) if tag == 8 else "{}"  # type: ignore[arg-type]
                    text = text.replace("\2", constant, 1)
                pending.append(text.replace("\1", "{}"))
                literal = True
            elif len(arguments) >= 3 and cls.pool[arguments[1]][0] == 15:
                owner, target, _ = cls.member(cls.pool[arguments[1]][1][1])  # type: ignore[index]
                text = returned.get((owner, target), "")
                # The body of a Scala function is in a method with an additional "$adapted".
                text = text or returned.get((owner, target.removesuffix("$adapted")), "")
                if text:
                    pending.append(text)
        elif opcode in (0xB6, 0xB7, 0xB8, 0xB9):
            owner, name, descriptor = cls.member(struct.unpack_from(">H", code, at + 1)[0])
            if owner.endswith("StringBuilder"):
                if name == "append" and builders:
                    if was_literal and pending:
                        builders[-1].append(pending.pop())
                    else:
                        builders[-1].append("{}")
                elif name == "<init>" and was_literal and builders:
                    builders[-1].append(pending.pop())
                elif name == "toString" and builders:
                    pending.append("".join(builders.pop()))
                    literal = True
            elif owner == "scala/StringContext" and name == "<init>" and thrown:
                start = thrown.pop()[1]
                if builders:
                    builders[-1].extend(pending[start:])
                    del pending[start:]
            elif owner == "scala/StringContext" and name in ("s", "f", "raw") and builders:
                pending.append("{}".join(builders.pop()))
                literal = True
            elif name == "<init>" and owner.endswith(("Exception", "Error")) and thrown:
                kind, start = thrown[-1]
                if kind == owner.rpartition("/")[2].rpartition("$")[2]:
                    thrown.pop()
                    if texts := pending[start:]:
                        yield kind, _plain(max(texts, key=_weight))
                        del pending[start:]
            elif name in LEVELS and pending and _logs(owner, name, descriptor):
                yield LEVELS[name], _plain(pending[0] if "slf4j" in owner else _heaviest(pending))
                pending.clear()
            elif name in _CHECKS and owner.startswith("scala/Predef") and pending:
                yield "IllegalArgumentException", _CHECKS[name] + _plain(_heaviest(pending))
                pending.clear()
            elif name in ("debug", "info", "trace") and (
                "slf4j" in owner or "Function0" in descriptor
            ):
                pending.clear()
        elif opcode == 0xB0 and pending:
            yield "", _plain(_heaviest(pending))
            pending.clear()
        elif opcode in (0xBF, 0xB1, 0xA7):
            pending.clear()


def _logs(owner: str, name: str, descriptor: str) -> bool:
    if name in ("warn", "error", "fatal"):
        return "slf4j" in owner or "Function0" in descriptor or "String" in descriptor
    return True


def _weight(text: str) -> int:
    return len(text.replace("{}", ""))


def _heaviest(texts: list[str]) -> str:
    return max(texts, key=_weight)


def _plain(text: str) -> str:
    return re.sub(r"%[\d.,-]*[sdxfb]", "{}", text).replace("\n", " ").strip()
