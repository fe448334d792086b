"""Surveys as bytes, from which nothing but surveys can be made.

The declared types of the fields decide what is read: JSON gives numbers, texts and lists, and each
has to be what its field declares. So any bytes give a survey or a DecodeError, and no object of
another class. Bytes and arrays are in base64, arrays as little-endian numbers of 64 bits. Paths are
names in the partition's directory, which may move.
"""

from __future__ import annotations

import json
import sys
from array import array
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, NoReturn, Union, cast, get_args, get_origin, get_type_hints

from xxhash import xxh3_64_hexdigest

from kdump.audit.survey.statistics import BatchSums
from kdump.audit.survey.survey import Survey
from kdump.errors import DecodeError
from kdump.format.records import BlockSizes
from kdump.storage.paths import AnyPath
from kdump.values import frozen

#: Numbers are signed or unsigned with 64 bits.
_NUMBERS: Final = range(-(2**63), 2**64)
_NUMBER_BYTES: Final = 8
_PATHS: Final = frozenset(get_args(AnyPath))
#: Classes that are not frozen values, with the arrays of a fixed length that they hold.
_HOLDERS: Final = {
    BatchSums: ("state", "wrapped", "blocks"),
    BlockSizes: ("stored", "uncompressed"),
}


def encode_survey(survey: Survey) -> bytes:
    """Return ``survey`` as bytes."""
    packed = _form(Survey).pack(survey)
    return json.dumps(packed, separators=(",", ":"), allow_nan=False).encode()


def decode_survey(data: bytes, folder: AnyPath) -> Survey:
    """Return the survey that ``encode_survey`` made these bytes of, now in ``folder``.

    Raises DecodeError.
    """
    try:
        packed = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"expected a survey, found {error}") from error
    return cast(Survey, _form(Survey).unpack(packed, folder))


@cache
def survey_form() -> str:
    """Return the digest of the fields of a survey and of their types."""
    return xxh3_64_hexdigest("\n".join(_describe(Survey, set())).encode())


@frozen
class _Form:
    """How values of a type become lists, numbers and texts, and are made of these again.

    ``unpack`` gets the folder of the paths too, and raises DecodeError.
    """

    pack: Callable[[Any], Any]
    unpack: Callable[[Any, AnyPath], Any]


@cache
def _form(kind: Any) -> _Form:
    """Return the form of values that are declared as ``kind``."""
    origin = get_origin(kind)
    if kind is AnyPath:
        return _Form(lambda path: path.name, _path)
    if kind is NoneType or kind in (bool, int, float, str):
        return _plain(kind)
    if kind is bytes:
        return _Form(lambda data: b64encode(data).decode(), lambda text, _: _binary(text))
    if kind is array:
        return _Form(_pack_array, lambda text, _: _array(text))
    if origin is Literal:
        return _literal(get_args(kind))
    if origin in (Union, UnionType):
        return _union(get_args(kind))
    if origin is Counter:
        return _counter(*get_args(kind))
    if origin is tuple:
        return _tuple(get_args(kind))
    if kind in _HOLDERS:
        return _holder(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum(kind)
    return _class(kind)


def _refuse(expected: str, found: object) -> NoReturn:
    raise DecodeError(f"expected {expected} in a survey, found {found!r:.60}")


def _plain(kind: type) -> _Form:
    def unpack(value: Any, _: AnyPath) -> Any:
        if type(value) is not kind or (kind is int and value not in _NUMBERS):
            _refuse(kind.__name__, value)
        return value

    return _Form(lambda value: value, unpack)


def _path(name: Any, folder: AnyPath) -> AnyPath:
    if type(name) is not str or not name or "/" in name or "\0" in name or name in (".", ".."):
        _refuse("the name of a file", name)
    return folder / name


def _binary(text: Any) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (TypeError, ValueError):
        _refuse("base64", text)


def _pack_array(numbers: array[int]) -> str:
    return b64encode(_ordered(numbers).tobytes()).decode()


def _array(text: Any) -> array[int]:
    data = _binary(text)
    if len(data) % _NUMBER_BYTES:
        _refuse("numbers of 64 bits", text)
    return _ordered(array("q", data))


def _ordered(numbers: array[int]) -> array[int]:
    """Return the numbers with the bytes of each in the other order on a big-endian machine."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers


def _literal(values: tuple[Any, ...]) -> _Form:
    def unpack(value: Any, _: AnyPath) -> Any:
        if type(value) is not str or value not in values:
            _refuse(f"one of {values}", value)
        return value

    return _Form(lambda value: value, unpack)


def _union(kinds: tuple[Any, ...]) -> _Form:
    """Return the form of None or a value; the number of its type precedes it if it has several."""
    some = [kind for kind in kinds if kind is not NoneType and kind not in _PATHS]
    some += [AnyPath] if len(some) < len(kinds) - (NoneType in kinds) else []
    forms = [_form(kind) for kind in some]

    def pack(value: Any) -> Any:
        if value is None:
            return None
        number = next(
            number for number, kind in enumerate(some) if isinstance(value, _class_of(kind))
        )
        packed = forms[number].pack(value)
        return packed if len(forms) == 1 else [number, packed]

    def unpack(packed: Any, folder: AnyPath) -> Any:
        if packed is None and NoneType in kinds:
            return None
        if len(forms) == 1:
            return forms[0].unpack(packed, folder)
        number, value = _items(packed, 2)
        if type(number) is not int or not 0 <= number < len(forms):
            _refuse("the number of a type", number)
        return forms[number].unpack(value, folder)

    return _Form(pack, unpack)


def _class_of(kind: Any) -> Any:
    """Return what ``isinstance`` takes for ``kind``."""
    return kind if kind is AnyPath else get_origin(kind) or kind


def _counter(key: Any) -> _Form:
    form = _form(key)

    def unpack(packed: Any, folder: AnyPath) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for pair in _items(packed):
            name, count = _items(pair, 2)
            found[form.unpack(name, folder)] = _form(int).unpack(count, folder)
        return found

    return _Form(lambda counts: [[form.pack(name), counts[name]] for name in counts], unpack)


def _tuple(kinds: tuple[Any, ...]) -> _Form:
    if kinds[1:] == (Ellipsis,):
        form = _form(kinds[0])
        return _Form(
            lambda values: [form.pack(value) for value in values],
            lambda packed, folder: tuple(form.unpack(value, folder) for value in _items(packed)),
        )
    forms = [_form(kind) for kind in kinds]
    return _Form(
        lambda values: [form.pack(value) for form, value in zip(forms, values, strict=True)],
        lambda packed, folder: tuple(
            form.unpack(value, folder)
            for form, value in zip(forms, _items(packed, len(forms)), strict=True)
        ),
    )


def _items(packed: Any, count: int | None = None) -> list[Any]:
    if type(packed) is not list or (count is not None and len(packed) != count):
        _refuse("a list" if count is None else f"a list of {count}", packed)
    return packed


def _enum(kind: type[Enum]) -> _Form:
    def unpack(value: Any, _: AnyPath) -> Enum:
        try:
            return kind(value)
        except (ValueError, TypeError):
            _refuse(kind.__name__, value)

    return _Form(lambda member: member.value, unpack)


def _class(kind: Any) -> _Form:
    """Return the form of a frozen value, or of a tuple with names."""

    @cache
    def parts() -> list[tuple[str, _Form]]:
        # Not before they are needed: a value may hold one of its own class.
        return [(name, _form(declared)) for name, declared in _declared(kind)]

    def unpack(packed: Any, folder: AnyPath) -> Any:
        values = _items(packed, len(parts()))
        return kind(
            *(form.unpack(value, folder) for (_, form), value in zip(parts(), values, strict=True))
        )

    return _Form(lambda value: [form.pack(getattr(value, name)) for name, form in parts()], unpack)


class _Arrays:
    """Stands for ``array`` in declarations: at runtime it takes no type of its items."""

    def __class_getitem__(cls, _: object) -> type:
        return array


def _declared(kind: Any) -> list[tuple[str, Any]]:
    """Return the names and the types of the fields of a class, in their order."""
    names = [each.name for each in fields(kind)] if is_dataclass(kind) else kind._fields
    hints = get_type_hints(kind, localns={"array": _Arrays})
    return [(name, hints[name]) for name in names]


def _holder(kind: Any) -> _Form:
    """Return the form of an object with arrays, whose lengths are those of a new one."""
    forms = [_form(BlockSizes if name == "blocks" else array) for name in _HOLDERS[kind]]

    def unpack(packed: Any, folder: AnyPath) -> Any:
        made = kind()
        values = _items(packed, len(forms))
        for name, form, value in zip(_HOLDERS[kind], forms, values, strict=True):
            found = form.unpack(value, folder)
            if isinstance(found, array) and len(found) != len(getattr(made, name)):
                _refuse(f"{len(getattr(made, name))} numbers", value)
            setattr(made, name, found)
        return made

    return _Form(
        lambda value: [
            form.pack(getattr(value, name))
            for name, form in zip(_HOLDERS[kind], forms, strict=True)
        ],
        unpack,
    )


def _describe(kind: Any, seen: set[Any]) -> Iterator[str]:
    """Yield a line for each field of a class, and those of the classes in its types."""
    for part in get_args(kind):
        yield from _describe(part, seen)
    if get_origin(kind) is not None or kind in seen or not isinstance(kind, type):
        return
    seen.add(kind)
    if issubclass(kind, Enum):
        yield f"{kind.__name__} {[member.value for member in kind]}"
    elif kind in _HOLDERS:
        made = kind()
        sizes = [len(getattr(made, name)) for name in _HOLDERS[kind] if name != "blocks"]
        yield f"{kind.__name__} {sizes}"
    elif is_dataclass(kind) or issubclass(kind, tuple):
        for name, declared in _declared(kind) if kind is not tuple else ():
            yield f"{kind.__name__}.{name} {declared}"
            yield from _describe(declared, seen)
