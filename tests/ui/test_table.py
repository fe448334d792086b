"""Tables of columns: what fits 80 columns, what becomes records, and what each form has."""

from __future__ import annotations

import json

from kdump.ui.table import FIELDS, NONE, Column, ReportTable

Row = tuple[str, int, str | None, str]

TABLE = ReportTable[Row](
    "place",
    (
        Column("TOPIC", "topic", lambda row: row[0], csv=True),
        Column("NOTE", "note", lambda row: row[2]),
        Column("OFFSET", "offset", lambda row: row[1], "{:,}".format, csv=True),
        Column(None, FIELDS, lambda row: {"one": 1, "two": row[1] * 2}),
        Column("HOST", None, lambda row: row[3]),
    ),
    heads=("TOPIC", "OFFSET"),
    always=2,
)


def test_a_table_that_fits_has_the_columns_with_a_value() -> None:
    rows: list[Row] = [("a", 5000, None, "h\x1b"), ("long", 6, None, "x")]
    assert list(TABLE.text(rows, wide=False)) == [
        "  TOPIC  OFFSET  HOST",
        "  a      5,000   h\\x1b",
        "  long   6       x",
    ]
    widest: list[Row] = [("a", 1, None, "h" * 63)]
    assert len(list(TABLE.text(widest, wide=False))[1]) == 80


def test_a_table_that_does_not_fit_becomes_records() -> None:
    rows: list[Row] = [("a", 1, "in remote storage", "h" * 60), ("-", 2, None, NONE)]
    assert list(TABLE.text(rows, wide=False)) == [
        "  TOPIC a",
        "    OFFSET 1  NOTE in remote storage",
        f"    HOST {'h' * 60}",
        "  TOPIC -",
        "    OFFSET 2",
    ]
    assert list(TABLE.text(rows, wide=True)) == [
        "  TOPIC  OFFSET  NOTE               HOST",
        f"  a      1       in remote storage  {'h' * 60}",
        "  -      2       -                  -",
    ]


def test_a_record_breaks_values_that_are_longer_than_a_line() -> None:
    (key, *lines) = TABLE.text([("a", 1, "word " * 40, "h")], wide=False)
    assert key == "  TOPIC a"
    assert max(map(len, lines)) <= 80
    assert " ".join(lines).split() == ["OFFSET", "1", "NOTE", *["word"] * 40, "HOST", "h"]


def test_json_and_csv() -> None:
    row: Row = ('a"b', 5, None, "h")
    assert json.loads(TABLE.json(row, above=0)) == {
        "type": "place", "above": 0, "topic": 'a"b', "note": None, "offset": 5, "one": 1, "two": 10,
    }  # fmt: skip
    assert list(json.loads(TABLE.json(row))) == ["type", "topic", "note", "offset", "one", "two"]
    assert TABLE.csv(row, "g") == 'g,"a""b",5'
    assert TABLE.key_and_rest(row)[0] == {"topic": 'a"b'}
