"""Commands that run in a session of Spark which tests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kdump.fleet.session.session import Session


def through(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have commands use ``session`` whatever they ask for; no run starts or ends it."""

    @contextmanager
    def started(*_: object) -> Iterator[Session]:
        yield session

    for command in ("compare.command", "export.command", "verify.engine"):
        monkeypatch.setattr(f"kdump.commands.{command}.spark_session", started)
