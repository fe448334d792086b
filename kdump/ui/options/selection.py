"""The selection of records that the options describe."""

from __future__ import annotations

import os
import re
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from typing import Final

import click

from kdump.storage.selection import HIGHEST, LOWEST, Selection

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSETS: Final = re.compile(r"(?P<first>\d{,19})(?P<range>\.\.)?(?P<last>\d{,19})", re.ASCII)


def select(
    *,
    offsets: str | None = None,
    since: str | None = None,
    until: str | None = None,
    key: str | None = None,
    key_base64: str | None = None,
    producer_id: int | None = None,
    limit: int | None = None,
) -> Selection:
    """Return the selection that the options of these names describe.

    Raise click.UsageError for values that are malformed or contradict each other.
    """
    first, last = (LOWEST, HIGHEST) if offsets is None else _offsets(offsets)
    since_ms = None if since is None else milliseconds(since, "--since")
    until_ms = None if until is None else milliseconds(until, "--until")
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise click.UsageError(
            f"expected --since before --until, found --since {since} and --until {until}."
        )
    if since_ms is None and until_ms is not None:
        since_ms = 0  # records without a timestamp (-1) are before no time
    if key is not None and key_base64 is not None:
        raise click.UsageError(
            "--key and --key-base64 are two forms of the same option: use only one of them."
        )
    return Selection(
        first_offset=first,
        last_offset=last,
        first_timestamp=LOWEST if since_ms is None else since_ms,
        last_timestamp=HIGHEST if until_ms is None else until_ms - 1,
        key=_key(key, key_base64),
        producer_id=producer_id,
        limit=limit,
    )


def _offsets(text: str) -> tuple[int, int]:
    match = _OFFSETS.fullmatch(text)
    if match is not None and (match["first"] or match["last"]):
        first = int(match["first"] or 0)
        last = int(match["last"] or HIGHEST)
        if not match["range"]:
            last = first
        if first <= last <= HIGHEST:
            return first, last
    raise click.BadParameter(
        f"expected A..B, A.., ..B or A with A not above B, found {text!r}.", param_hint="--offsets"
    )


def milliseconds(text: str, option: str) -> int:
    """Return ``text`` in milliseconds since 1970, rounded up: records have no finer times."""
    try:
        if text.isdecimal() and text.isascii():
            milliseconds = int(text)
        else:
            time = datetime.fromisoformat(text)
            time = time if time.tzinfo else time.replace(tzinfo=UTC)
            milliseconds = -((_EPOCH - time) // timedelta(milliseconds=1))
    except ValueError:
        milliseconds = -1
    if not 0 <= milliseconds <= HIGHEST:
        raise click.BadParameter(
            "expected a time from 1970 on, such as 2026-11-21T10:00:00Z, or milliseconds since "
            f"then, found {text!r}.",
            param_hint=option,
        )
    return milliseconds


def _key(text: str | None, in_base64: str | None) -> bytes | None:
    if in_base64 is None:
        return None if text is None else os.fsencode(text)
    try:
        return b64decode(in_base64, validate=True)
    except ValueError as error:
        raise click.BadParameter(
            f"expected base64, found {in_base64!r}: {error}.", param_hint="--key-base64"
        ) from error
