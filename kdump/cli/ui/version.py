"""The version of the installed package."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """Return the version of the installed package, "unknown" for a bare source tree."""
    try:
        return metadata.version("kafka-kdump")
    except metadata.PackageNotFoundError:
        return "unknown"
