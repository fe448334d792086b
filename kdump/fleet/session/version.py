"""The check of the release of Spark.

Spec: data sources in Python came with Spark 4.0 (SPARK-44076).
"""

from __future__ import annotations

import re
from typing import Final

import pyspark

from kdump.errors import UsageError

_LEAST: Final = (4, 0)
_VERSION: Final = re.compile(r"(\d+)\.(\d+)")


def check_version() -> None:
    """Raise UsageError for a release of Spark that is too old."""
    found = _VERSION.match(pyspark.__version__)
    if found is not None and (int(found[1]), int(found[2])) < _LEAST:
        least = ".".join(map(str, _LEAST))
        raise UsageError(f"expected Spark {least} or newer, found {pyspark.__version__}")
