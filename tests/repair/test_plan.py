"""Plans as values: what names them, what they take, and how they are written down."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kdump.audit.survey.recovery import Span
from kdump.repair.transaction.plan import (
    ConvertedPart,
    Cut,
    Line,
    Loss,
    Plan,
    Prefix,
    Put,
    PutMarker,
    RebuiltIndex,
    Remove,
    Stamp,
    Step,
    TakeMarker,
    decode,
    encode,
    encode_loss,
    with_paths,
)

LOG, INDEX, TIMES = (f"{100:020d}{suffix}" for suffix in (".log", ".index", ".timeindex"))
LATER = f"{200:020d}.log"
STEPS = (
    TakeMarker(),
    Line("recovery-point-offset-checkpoint", 300, 100),
    Line("cleaner-offset-checkpoint", None, 5),
    Line("log-start-offset-checkpoint", 5, None),
    Remove(LATER),
    Remove(INDEX),
    Cut(LOG, 700, "ab" * 32, "00ff"),
    Put(TIMES, 24, "cd" * 32, True, RebuiltIndex(LOG, ".timeindex", 4096)),
    Put(INDEX, 8, "ef" * 32, False, RebuiltIndex(LOG, ".index", 4096)),
    Put(LATER, 9, "12" * 32, True, Prefix(9), mtime_ns=123),
    Put.of("leader-epoch-checkpoint", b"0\n0\n", replaces=True),
    PutMarker(),
)
LOSS = Loss(300, Span(5, 170, 174, 1, 2), Span(0, 160, 169, unbounded=True), 2, 1, 1, True)
PLAN = Plan(
    "truncate-to-valid",
    ("--at", "170"),
    Path("/data/orders-0"),
    (7, 8),
    Path("/data"),
    STEPS,
    {LOG: Stamp(1000, 11), LATER: Stamp(50, 12), INDEX: Stamp(16, 13), TIMES: Stamp(36, 14)},
    LOSS,
    5,
    (200, 170),
    ("a note",),
)
#: What no id says.
UNNAMED = ("partition", "log_directory")
BARE = Plan("reindex", (), Path("orders-0"), (7, 8), None, (), {})
RECIPE = ConvertedPart(LOG, None, 16384, 0, 5, "ab" * 16)
CONVERTING = replace(
    BARE,
    command="convert-v0-v2",
    steps=(
        Put(
            LATER, 7, "34" * 32, False, ConvertedPart(LOG, "gzip", 0, 1, 6, "cd" * 16), mtime_ns=123
        ),
        Put(LOG, 7, "56" * 32, True, RECIPE, mtime_ns=123),
    ),
)
WITH_EPOCHS = replace(
    CONVERTING,
    steps=(Put(LOG, 7, "56" * 32, True, replace(RECIPE, epochs=((0, 0), (3, 7))), mtime_ns=123),),
)


@pytest.mark.parametrize(
    "plan",
    [PLAN, BARE, CONVERTING, WITH_EPOCHS],
    ids=["many", "none", "converted", "converted with epochs"],
)
def test_a_plan_is_read_as_it_was_written(plan: Plan) -> None:
    text = json.dumps(encode(plan))
    again = decode(json.loads(text))
    assert again == plan
    assert again.id == plan.id
    assert json.dumps(encode(again)) == text


def test_contents_are_not_written_down() -> None:
    put = Put.of("a", b"content", replaces=False)
    (step,) = encode(replace(BARE, steps=(put,)))["steps"]
    assert "content" not in step
    (again,) = decode(encode(replace(BARE, steps=(put,)))).puts
    assert again.content is None
    assert (again.size, again.sha256) == (put.size, put.sha256)


def test_the_id_stays_the_same_between_releases() -> None:
    # Ids are in scripts, and name the folders of repairs that were interrupted.
    assert (PLAN.id, BARE.id, CONVERTING.id) == ("d00fc205", "ca77163f", "29b9235f")


def test_the_id_depends_neither_on_the_spelling_of_paths_nor_on_contents() -> None:
    assert replace(PLAN, partition=Path("../orders-0"), log_directory=Path()).id == PLAN.id
    assert with_paths(PLAN, Path("elsewhere/orders-0"), None).id == PLAN.id
    put = Put.of("a", b"content", replaces=False)
    assert replace(PLAN, steps=(put,)).id == replace(PLAN, steps=(replace(put, content=None),)).id


def test_the_order_of_files_does_not_matter() -> None:
    assert replace(PLAN, files=dict(sorted(PLAN.files.items(), reverse=True))).id == PLAN.id


def _step(number: int, **fields: Any) -> Plan:
    changed = replace(STEPS[number], **fields)
    return replace(PLAN, steps=(*STEPS[:number], changed, *STEPS[number + 1 :]))


OTHERS = {
    "command": replace(PLAN, command="reindex"),
    "arguments": replace(PLAN, arguments=("--at", "171")),
    "device": replace(PLAN, identity=(6, 8)),
    "inode": replace(PLAN, identity=(7, 9)),
    "no step": replace(PLAN, steps=STEPS[:-1]),
    "order": replace(PLAN, steps=(STEPS[1], STEPS[0], *STEPS[2:])),
    "kind": replace(PLAN, steps=(PutMarker(), *STEPS[1:])),
    "checkpoint": _step(1, checkpoint="replication-offset-checkpoint"),
    "before": _step(1, before=299),
    "after": _step(1, after=101),
    "none before": _step(2, before=0),
    "none after": _step(3, after=0),
    "removed": _step(4, name=TIMES),
    "cut": _step(6, name=LATER),
    "cut size": _step(6, size=701),
    "tail": _step(6, tail_sha256="ac" * 32),
    "header": _step(6, last_header=""),
    "put": _step(7, name="other"),
    "put size": _step(7, size=25),
    "digest": _step(7, sha256="ce" * 32),
    "replaces": _step(7, replaces=False),
    "no recipe": _step(7, recipe=None),
    "recipe": _step(7, recipe=Prefix(24)),
    "log": _step(7, recipe=RebuiltIndex(LATER, ".timeindex", 4096)),
    "extension": _step(7, recipe=RebuiltIndex(LOG, ".index", 4096)),
    "interval": _step(7, recipe=RebuiltIndex(LOG, ".timeindex", 4097)),
    "prefix": _step(9, recipe=Prefix(8)),
    "time": _step(9, mtime_ns=None),
    "file": replace(PLAN, files={**PLAN.files, "more": Stamp(1, 1)}),
    "size": replace(PLAN, files={**PLAN.files, LOG: Stamp(1001, 11)}),
    "mtime": replace(PLAN, files={**PLAN.files, LOG: Stamp(1000, 12)}),
    "lost bytes": replace(PLAN, loss=replace(LOSS, size=301)),
    "lost": replace(PLAN, loss=replace(LOSS, sound=replace(LOSS.sound, count=6))),
    "lost unreadably": replace(PLAN, loss=replace(LOSS, unreadable=Span())),
    "producers": replace(PLAN, loss=replace(LOSS, producers=3)),
    "committed": replace(PLAN, loss=replace(LOSS, committed=0)),
    "opened": replace(PLAN, loss=replace(LOSS, opened=0)),
    "below": replace(PLAN, loss=replace(LOSS, below_high_watermark=False)),
    "log start": replace(PLAN, log_start=None),
    "end before": replace(PLAN, log_end=(None, 170)),
    "end after": replace(PLAN, log_end=(200, None)),
    "notes": replace(PLAN, notes=()),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_another_plan_has_another_id(other: Plan) -> None:
    assert other.id != PLAN.id
    assert decode(encode(other)) == other


@pytest.mark.parametrize(
    "recipe",
    [
        replace(RECIPE, log=LATER),
        replace(RECIPE, codec="none"),
        replace(RECIPE, batch_bytes=0),
        replace(RECIPE, part=1),
        replace(RECIPE, records=6),
        replace(RECIPE, digest="ac" * 16),
        replace(RECIPE, epochs=((0, 5),)),
    ],
)
def test_another_conversion_has_another_id(recipe: ConvertedPart) -> None:
    first, second = CONVERTING.puts
    other = replace(CONVERTING, steps=(first, replace(second, recipe=recipe)))
    assert other.id != CONVERTING.id
    assert decode(encode(other)) == other


def test_the_logs_that_a_plan_converts() -> None:
    assert [(put.name, recipe.part) for put, recipe in CONVERTING.conversions] == [
        (LATER, 1),
        (LOG, 0),
    ]
    assert PLAN.conversions == ()


# --- what it takes


def test_what_a_plan_touches() -> None:
    assert PLAN.changed_files == {LOG, LATER, INDEX, TIMES, "leader-epoch-checkpoint"}
    assert [put.name for put in PLAN.puts] == [TIMES, INDEX, LATER, "leader-epoch-checkpoint"]
    assert [cut.name for cut in PLAN.cuts] == [LOG]
    assert BARE.changed_files == set()


def test_the_space_that_a_plan_takes() -> None:
    assert (PLAN.tail_bytes, BARE.tail_bytes, BARE.new_bytes) == (300, 0, 0)
    assert PLAN.new_bytes == 24 + 8 + 9 + 4
    # What is replaced stays in the backup, so that all that is put takes space, not one at a time.
    recipe = RebuiltIndex(LOG, ".index", 4096)
    puts = tuple(Put(name, 24, "", True, recipe) for name in (INDEX, TIMES))
    assert replace(PLAN, steps=puts).new_bytes == 48


@pytest.mark.parametrize(
    ("loss", "lossy"),
    [
        (Loss(), False),
        (Loss(size=5, producers=1), False),
        (Loss(sound=Span(1, 5, 5)), True),
        (Loss(unreadable=Span(1, 5, 5)), True),
    ],
)
def test_only_lost_records_make_a_plan_lossy(loss: Loss, lossy: bool) -> None:
    assert replace(BARE, loss=loss).lossy is lossy


def test_the_loss_as_json() -> None:
    assert encode_loss(LOSS) == {
        "bytes": 300,
        "sound": {
            "count": 5,
            "first_offset": 170,
            "last_offset": 174,
            "first_timestamp": 1,
            "last_timestamp": 2,
            "unbounded": False,
        },
        "unreadable": {
            "count": 0,
            "first_offset": 160,
            "last_offset": 169,
            "first_timestamp": None,
            "last_timestamp": None,
            "unbounded": True,
        },
        "producers": 2,
        "committed": 1,
        "opened": 1,
        "below_high_watermark": True,
    }


# --- invalid plans

ERRORS = (AttributeError, KeyError, TypeError, ValueError)


def places(value: Any) -> list[tuple[Any, ...]]:
    """The paths of all values inside a JSON value."""
    found: list[tuple[Any, ...]] = []
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        inner = places(value[key]) if isinstance(value[key], dict | list) else []
        found += [(key,), *((key, *path) for path in inner)]
    return found


def changed(fields: dict[str, Any], path: tuple[Any, ...], *values: Any) -> dict[str, Any]:
    """A copy of ``fields`` with another value at ``path``, or with none."""
    copy: dict[str, Any] = json.loads(json.dumps(fields))
    holder: Any = copy
    for key in path[:-1]:
        holder = holder[key]
    if values:
        holder[path[-1]] = values[0]
    else:
        del holder[path[-1]]
    return copy


@pytest.mark.parametrize("value", [None, "", "x", 5, -1, 1.5, True, [], {}, [5], {"a": 5}])
def test_what_is_no_plan_is_refused_or_another_plan(value: Any) -> None:
    fields = encode(PLAN)
    for path in places(fields):
        with suppress(*ERRORS):
            plan = decode(changed(fields, path, value))
            assert plan.id != PLAN.id or path[0] in UNNAMED or fields == encode(plan), path


def test_what_lacks_something_is_refused_or_another_plan() -> None:
    fields = encode(PLAN)
    for path in places(fields):
        with suppress(*ERRORS):
            plan = decode(changed(fields, path))
            assert plan.id != PLAN.id or plan == PLAN, path


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "", ".", ".."])
@pytest.mark.parametrize(
    "step",
    [
        Remove("a"),
        Cut("a", 1, "", ""),
        Put("a", 1, "", False),
        Line("a", 1, 2),
        Put("b", 1, "", False, RebuiltIndex("a", ".index", 1)),
        Put("b", 1, "", False, ConvertedPart("a", None, 0, 0, 1, "")),
    ],
    ids=lambda step: type(step).__name__,
)
def test_no_name_leads_out_of_the_directory(step: Step, name: str) -> None:
    fields = encode(replace(BARE, steps=(step,)))
    for path in places(fields):
        if path[0] == "steps" and changed(fields, path, "a") == fields:
            with pytest.raises(ValueError, match="expected the name of a file"):
                decode(changed(fields, path, name))


def test_another_schema_is_refused() -> None:
    with pytest.raises(ValueError, match="expected schema 1, found 2"):
        decode({**encode(PLAN), "schema": 2})
