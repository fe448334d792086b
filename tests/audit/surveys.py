"""Surveys of segments that a test writes."""

from __future__ import annotations

from pathlib import Path

from kdump.audit.survey.survey import Survey, survey
from kdump.storage.logdir import Segment, open_path
from support.damaged import FIRST, Recipe, name


def of(log: Path, *, mapped: bool = False, sealed: bool = True, deep: bool = False) -> Survey:
    segment = open_path(log)
    assert isinstance(segment, Segment)
    return survey(segment, lambda _: None, mapped=mapped, sealed=sealed, deep=deep)


def write(tmp_path: Path, *pieces: bytes) -> Path:
    """One segment at base 0; returns its log."""
    return Recipe("topic", [], pieces, [b""]).write(tmp_path) / name(FIRST, ".log")
