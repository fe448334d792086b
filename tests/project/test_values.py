"""``frozen`` makes of a class what ``dataclass(frozen=True, slots=True)`` makes of it."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, field, fields, make_dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from kdump.values import frozen

T = TypeVar("T")


@frozen
class Nothing:
    """Has no fields."""


@frozen
class One:
    """Has one field."""

    number: float


@frozen
class Many:
    """Has all kinds of fields."""

    KIND: ClassVar[str] = "many"

    name: str
    one: One | None = None
    parts: list[int] = field(default_factory=list)
    note: str = field(default="", compare=False, repr=False)


@frozen
class More(Many):
    """Adds a field to those of ``Many``."""

    end: int = 0


@frozen
class Holder(Generic[T]):
    """Compares as it says itself."""

    held: T

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def twin(cls: type[Any]) -> type[Any]:
    """What dataclasses make of the same fields."""
    given = [
        (
            each.name,
            each.type,
            field(
                default=each.default,
                default_factory=each.default_factory,
                compare=each.compare,
                repr=each.repr,
            ),
        )
        for each in fields(cls)
    ]
    return make_dataclass(cls.__name__, given, frozen=True, slots=True)


VALUES = [
    (Nothing, {}),
    (One, {"number": 1.5}),
    (Many, {"name": "a"}),
    (Many, {"name": "a", "one": One(2), "parts": [1], "note": "c"}),
    (More, {"name": "a", "end": 3}),
]


@pytest.mark.parametrize(("cls", "given"), VALUES)
def test_it_is_what_dataclasses_make(cls: type[Any], given: dict[str, Any]) -> None:
    value, other = cls(**given), twin(cls)(**given)
    assert repr(value) == repr(other)
    assert asdict(value) == asdict(other)
    assert cls.__match_args__ == type(other).__match_args__
    assert value == cls(**given)
    assert value != other
    assert not hasattr(value, "__dict__")


@pytest.mark.parametrize(("cls", "given"), VALUES)
def test_copies_are_equal(cls: type[Any], given: dict[str, Any]) -> None:
    value = cls(**given)
    for made in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert made == value
        assert asdict(made) == asdict(value)


def test_equal_values_are_one_key() -> None:
    assert {One(1): "a", One(1.0): "b"} == {One(1): "b"}
    assert len({Nothing(), Nothing(), One(2)}) == 2
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        hash(Many("a"))


def test_what_is_not_compared_makes_no_difference() -> None:
    assert Many("a", note="b") == Many("a", note="c")
    assert Many("a") != More("a")


def test_it_does_not_change() -> None:
    value = Many("a")
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'name'"):
        value.name = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'name'"):
        del value.name
    assert replace(value, name="b") == Many("b")


def test_each_has_parts_of_its_own() -> None:
    first, second = Many("a"), Many("a")
    first.parts.append(1)
    assert second.parts == []


def test_what_a_class_says_itself_stays() -> None:
    assert Holder(1) == Holder("b")
    assert Holder.__hash__ is None


def test_a_call_without_a_field_names_it() -> None:
    with pytest.raises(TypeError, match=r"Many\.__init__\(\) missing 1 required .*: 'name'"):
        Many()  # type: ignore[call-arg]
