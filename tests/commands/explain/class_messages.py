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

#: The calls that log at WARN and above, or hand a text to what does. "FAULT" is logged with the
#: kind of fault before the text.
_LEVELS = {
    "warn": "WARN", "error": "ERROR", "fatal": "FATAL", "handleFault": "FAULT",
    "maybeAddOfflineLogDir": "ERROR", "maybeHandleIOException": "ERROR",
}  # fmt: skip
#: The calls of Scala that throw with a text.
_CHECKS = {"require": "requirement failed: ", "assert": "assertion failed: ", "assume": ""}
#: Methods of strings whose argument is no message.
_COMPARISONS = ("equals", "startsWith", "endsWith", "contains")
_BUILDERS = ("java/lang/StringBuilder", "scala/collection/mutable/StringBuilder")
_THROWN = ("Exception", "Error")

_LDC, _LDC_W, _NEW, _DYNAMIC, _AREACH = 0x12, 0x13, 0xBB, 0xBA, 0xB0
_CALLS = (0xB6, 0xB7, 0xB8, 0xB9)
_ENDS = (0xA7, 0xB1, 0xBF)  # goto, return, athrow
_TABLESWITCH, _LOOKUPSWITCH, _WIDE, _IINC = 0xAA, 0xAB, 0xC4, 0x84
#: Lengths of instructions, without those that vary; 1 for all others.
_LENGTHS = dict.fromkeys((0x10, _LDC, *range(0x15, 0x1A), *range(0x36, 0x3B), 0xA9, 0xBC), 2)
_LENGTHS |= dict.fromkeys(
    (0x11, _LDC_W, 0x14, _IINC, *range(0x99, 0xA9), *range(0xB2, 0xB9), _NEW, 0xBD, 0xC0, 0xC1), 3
)
_LENGTHS |= {0xC6: 3, 0xC7: 3, 0xC5: 4, 0xB9: 5, _DYNAMIC: 5, 0xC8: 5, 0xC9: 5}


@dataclass(frozen=True, order=True)
class ClassMessage:
    """A text of a class: ``kind`` is a level, or the name of the exception that carries it."""

    template: str
    kind: str
    where: str


@dataclass
class _Class:
    """The constants, methods (name and code) and bootstrap arguments of a class."""

    name: str = ""
    texts: dict[int, str] = field(default_factory=dict)
    references: dict[int, int] = field(default_factory=dict)  # of classes and strings to texts
    strings: set[int] = field(default_factory=set)
    pairs: dict[int, tuple[int, int]] = field(default_factory=dict)
    handles: dict[int, int] = field(default_factory=dict)
    methods: list[tuple[str, bytes]] = field(default_factory=list)
    bootstraps: list[tuple[int, ...]] = field(default_factory=list)

    def name_of(self, index: int) -> str:
        return self.texts[self.references[index]]

    def string(self, index: int) -> str | None:
        """Return the string constant ``index``; None for a constant of another kind."""
        return self.name_of(index) if index in self.strings else None

    def member(self, index: int) -> tuple[str, str, str]:
        """Return class, name and descriptor of a method or field."""
        owner, pair = self.pairs[index]
        name, descriptor = self.pairs[pair]
        return self.name_of(owner), self.texts[name], self.texts[descriptor]


def read_messages(jar: Path, wanted: re.Pattern[str]) -> Iterator[ClassMessage]:
    """Yield the messages of the classes of ``jar`` whose names ``wanted`` matches, sorted."""
    with zipfile.ZipFile(jar) as archive:
        classes = [
            _parse(archive.read(name))
            for name in archive.namelist()
            if name.endswith(".class") and wanted.match(name[:-6].replace("/", "."))
        ]
    # Scala passes texts as functions: what such a function returns is the text of the call. With
    # Scala 2.11, a function is a class of its own.
    returned: dict[tuple[str, str], str] = {}
    for cls in classes:
        for method, code in cls.methods:
            found = [text for kind, text in _Method(cls, code, {}).messages() if not kind]
            text = max((*found, returned.get((cls.name, method), "")), key=len)
            returned[cls.name, method] = text
            if "$$anonfun$" in cls.name and method.startswith("apply") and text:
                returned[cls.name, ""] = text
    messages = {
        ClassMessage(text, kind, _where(cls.name, method))
        for cls in classes
        for method, code in cls.methods
        for kind, text in _Method(cls, code, returned).messages()
        if kind and " " in text.replace("{}", "").strip()
    }
    yield from sorted(messages)


def _where(name: str, method: str) -> str:
    """Return class and method as in the sources, of functions too."""
    outer, *inner = re.split(r"\$+", name.rpartition("/")[2])
    if "anonfun" in inner:
        rest = inner[inner.index("anonfun") + 1 :]
        return f"{outer}.{rest[0] if rest else method}"
    method = re.sub(r"^\$+anonfun\$+|^.*?\$?lambda\$", "", method)
    return f"{outer}.{method.partition('$')[0] or method}"


def _parse(data: bytes) -> _Class:
    cls = _Class()
    (count,) = struct.unpack_from(">H", data, 8)
    at, index = 10, 1
    while index < count:
        tag = data[at]
        if tag == 1:
            (size,) = struct.unpack_from(">H", data, at + 1)
            cls.texts[index] = data[at + 3 : at + 3 + size].decode("utf-8", "replace")
            at += 3 + size
        elif tag in (5, 6):  # long and double take two places
            at += 9
            index += 1
        elif tag in (7, 8, 16, 19, 20):
            (cls.references[index],) = struct.unpack_from(">H", data, at + 1)
            if tag == 8:
                cls.strings.add(index)
            at += 3
        elif tag == 15:
            (cls.handles[index],) = struct.unpack_from(">H", data, at + 2)
            at += 4
        else:
            cls.pairs[index] = struct.unpack_from(">HH", data, at + 1)
            at += 5
        index += 1
    _, this, _, interfaces = struct.unpack_from(">HHHH", data, at)
    cls.name = cls.name_of(this)
    at += 8 + 2 * interfaces
    for kind in ("field", "method"):
        (count,) = struct.unpack_from(">H", data, at)
        at += 2
        for _ in range(count):
            name, attributes = struct.unpack_from(">2xH2xH", data, at)
            at += 8
            for _ in range(attributes):
                attribute, size = struct.unpack_from(">HI", data, at)
                if kind == "method" and cls.texts[attribute] == "Code":
                    (length,) = struct.unpack_from(">I", data, at + 10)
                    cls.methods.append((cls.texts[name], data[at + 14 : at + 14 + length]))
                at += 6 + size
    (count,) = struct.unpack_from(">H", data, at)
    at += 2
    for _ in range(count):
        attribute, size = struct.unpack_from(">HI", data, at)
        if cls.texts[attribute] == "BootstrapMethods":
            cls.bootstraps += _bootstraps(data, at + 6)
        at += 6 + size
    return cls


def _bootstraps(data: bytes, at: int) -> Iterator[tuple[int, ...]]:
    (number,) = struct.unpack_from(">H", data, at)
    at += 2
    for _ in range(number):
        (arguments,) = struct.unpack_from(">H", data, at + 2)
        yield struct.unpack_from(f">{arguments}H", data, at + 4)
        at += 4 + 2 * arguments


def _instructions(code: bytes) -> Iterator[tuple[int, int]]:
    """Yield each opcode, and its index into the constants or 0."""
    at = 0
    while at < len(code):
        opcode, length = code[at], _LENGTHS.get(code[at], 1)
        if opcode == _LDC:
            index = code[at + 1]
        else:
            index = struct.unpack_from(">H", code, at + 1)[0] if length >= 3 else 0
        yield opcode, index
        if opcode in (_TABLESWITCH, _LOOKUPSWITCH):
            aligned = at + 4 - at % 4
            low, high = struct.unpack_from(">ii", code, aligned + 4)
            table = 12 + 4 * (high - low + 1) if opcode == _TABLESWITCH else 8 + 8 * low
            length = aligned + table - at
        elif opcode == _WIDE:
            length = 6 if code[at + 1] == _IINC else 4
        at += length


class _Method:
    """The texts of a method, as its instructions put them together."""

    def __init__(self, cls: _Class, code: bytes, returned: dict[tuple[str, str], str]) -> None:
        self._cls, self._code, self._returned = cls, code, returned
        self._pending: list[str] = []  # texts that no call has taken yet
        self._builders: list[list[str]] = []
        self._begun: list[tuple[str, int]] = []  # what is being made, and where its texts begin
        self._literal = False  # whether the last instruction made the last of the pending texts

    def messages(self) -> Iterator[tuple[str, str]]:
        """Yield kind and text of each message; "" and the text for what the method returns."""
        for opcode, index in _instructions(self._code):
            was_literal, self._literal = self._literal, False
            if opcode in (_LDC, _LDC_W):
                self._push(self._cls.string(index))
            elif opcode == _NEW:
                self._begin(self._cls.name_of(index))
            elif opcode == _DYNAMIC:
                self._dynamic(*self._cls.pairs[index])
            elif opcode in _CALLS:
                owner, name, descriptor = self._cls.member(index)
                if owner in _BUILDERS:
                    self._build(name, was_literal)
                elif owner == "scala/StringContext":
                    self._interpolate(name)
                elif owner == "java/lang/String" and name in _COMPARISONS:
                    if was_literal:
                        self._pending.pop()
                else:
                    yield from self._call(owner, name, descriptor)
            elif opcode == _AREACH and self._pending:
                yield "", self._take()
            elif opcode in _ENDS:
                self._pending.clear()

    def _push(self, text: str | None) -> None:
        if text is not None:
            self._pending.append(text)
            self._literal = True

    def _take(self, start: int = 0) -> str:
        """Remove the pending texts from ``start`` on, and return the one with the most letters."""
        texts = self._pending[start:]
        del self._pending[start:]
        text = max(texts, key=lambda text: len(text.replace("{}", "")))
        return re.sub(r"%[\d.,-]*[sdxfb]", "{}", text).replace("\n", " ").strip()

    def _begin(self, name: str) -> None:
        if name in _BUILDERS:
            self._builders.append([])
        elif name == "scala/StringContext" or name.endswith(_THROWN):
            self._begun.append((name, len(self._pending)))
        elif (name, "") in self._returned:
            self._push(self._returned[name, ""])

    def _dynamic(self, bootstrap: int, pair: int) -> None:
        arguments = self._cls.bootstraps[bootstrap]
        if self._cls.texts[self._cls.pairs[pair][0]] == "makeConcatWithConstants":
            text = self._cls.name_of(arguments[0])
            for argument in arguments[1:]:
                text = text.replace("\2", self._cls.string(argument) or "{}", 1)
            self._push(text.replace("\1", "{}"))
        elif len(arguments) >= 3 and arguments[1] in self._cls.handles:
            owner, name, _ = self._cls.member(self._cls.handles[arguments[1]])
            text = self._returned.get((owner, name.removesuffix("$adapted")), "")
            self._push(self._returned.get((owner, name)) or text or None)

    def _build(self, name: str, was_literal: bool) -> None:
        if not self._builders:
            return
        if name == "toString":
            self._push("".join(self._builders.pop()))
        elif was_literal and self._pending and name in ("append", "<init>"):
            self._builders[-1].append(self._pending.pop())
        elif name == "append":
            self._builders[-1].append("{}")

    def _interpolate(self, name: str) -> None:
        if name == "<init>" and self._begun:
            _, start = self._begun.pop()
            self._builders.append(self._pending[start:])
            del self._pending[start:]
        elif name in ("s", "f", "raw") and self._builders:
            self._push("{}".join(self._builders.pop()))

    def _call(self, owner: str, name: str, descriptor: str) -> Iterator[tuple[str, str]]:
        logger = "slf4j" in owner
        takes_text = logger or any(
            kind in descriptor for kind in ("Function0", "String", "Supplier")
        )
        if name == "<init>" and self._begun and self._begun[-1][0] == owner:
            _, start = self._begun.pop()
            if self._pending[start:]:
                kind = owner.rpartition("/")[2].rpartition("$")[2]
                yield kind, self._take(start)
        elif name in _LEVELS and takes_text and self._pending:
            if logger:  # the texts behind the first are its values
                del self._pending[1:]
            yield _LEVELS[name], self._take()
        elif name in _CHECKS and owner.startswith("scala/Predef") and self._pending:
            yield "IllegalArgumentException", _CHECKS[name] + self._take()
        elif name in ("debug", "info", "trace") and takes_text:
            self._pending.clear()
