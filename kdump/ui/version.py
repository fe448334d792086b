"""The version of the installed package, and the releases of Kafka that it is for."""

from __future__ import annotations

from importlib import metadata
from typing import Final

#: The releases whose files are read, and those whose next start is forecast; tests run all of them.
READ: Final = "0.8 to 4.4"
FORECAST: Final = "3.9 to 4.4"


def version() -> str:
    """Return the version of the installed package, "unknown" for a bare source tree."""
    try:
        return metadata.version("kafka-kdump")
    except metadata.PackageNotFoundError:
        return "unknown"
