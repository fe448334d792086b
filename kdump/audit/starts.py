"""Starts: the forecasts of whole log directories, gathered while their partitions come in.

Spec: none of Kafka's; what a broker does is in ``forecast``. It must never take for sound what
nobody has looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from kdump.audit.findings import Finding
from kdump.audit.forecast import DirectoryForecast, Forecast, causes_of, forecast_directory
from kdump.audit.groups import Root
from kdump.audit.judged import Judged
from kdump.audit.outcomes import Cause
from kdump.errors import MissingDirectoryError
from kdump.storage.logdir import LogDirectory


class Starts:
    """What the next start does with log directories, taken in partition by partition."""

    def __init__(self, roots: Iterable[Root]) -> None:
        self._directories = {
            root.directory.directory.path: root.directory.directory
            for root in roots
            if isinstance(root.target, LogDirectory) and root.directory is not None
        }
        self._forecasts: dict[Path, Forecast] = {}
        self._causes: list[Cause] = []

    def judge(self, findings: Iterable[Finding]) -> None:
        """Take in what was found at the top of log directories."""
        self._causes += causes_of(findings)

    def add(self, judged: Judged, forecast: Forecast | None) -> None:
        """Take in one partition and what ``next_start`` says of it.

        A log directory that is missing comes as a partition without a forecast.
        """
        if isinstance(judged.group.error, MissingDirectoryError):
            self._causes += causes_of(judged.findings)
        if forecast is not None:
            self._forecasts[judged.group.path] = forecast

    @property
    def looked_at(self) -> int:
        """How many partitions were, those included that stand in no directory asked for."""
        return len(self._forecasts)

    def causes(self, path: Path) -> list[Cause]:
        """What stands in the way in the log directory at ``path``, beside its partitions."""
        return [one for one in self._causes if path == one.path or path in one.path.parents]

    def directories(self) -> Iterator[tuple[Path, DirectoryForecast]]:
        """The forecast of each log directory that was asked for, by what was taken in so far."""
        for path, directory in self._directories.items():
            paths = directory.partition_paths
            known = [self._forecasts[one] for one in paths if one in self._forecasts]
            yield path, forecast_directory(known, self.causes(path), total=len(paths))
