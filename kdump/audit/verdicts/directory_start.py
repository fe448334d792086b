"""Forecasts of log directories, collected while their partitions arrive.

What a broker does is in ``forecast``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kdump.audit.codes import Outcome
from kdump.audit.facts.cluster import Configs
from kdump.audit.facts.settings import data_directories
from kdump.audit.findings import Finding
from kdump.audit.startup.forecast import DirectoryForecast, Forecast, causes_of, forecast_directory
from kdump.audit.startup.outcome import Cause
from kdump.audit.targets.target import Root
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import MissingDirectoryError
from kdump.storage.logdir import LogDirectory, directory_name
from kdump.storage.names import CLUSTER_METADATA_TOPIC


class Starts:
    """What the next start does with log directories, taken in partition by partition.

    ``config`` are the settings of their broker, None where these are unknown.
    """

    def __init__(self, roots: Iterable[Root], config: Configs | None = None) -> None:
        self._data_directories = None if config is None else data_directories(config)
        self._directories = {
            root.directory.directory.path: root.directory.directory
            for root in roots
            if isinstance(root.content, LogDirectory) and root.directory is not None
        }
        self._forecasts: dict[Path, Forecast] = {}
        self._causes: list[Cause] = []

    def judge(self, findings: Iterable[Finding]) -> None:
        """Take in what was found at the top of log directories."""
        self._causes += causes_of(findings)

    def add(self, verdict: Verdict, forecast: Forecast | None) -> None:
        """Take in one partition and what ``next_start`` says of it.

        A log directory that is missing comes as a partition without a forecast.
        """
        if isinstance(verdict.target.error, MissingDirectoryError):
            self._causes += causes_of(verdict.findings)
        if forecast is not None:
            self._forecasts[verdict.target.path] = forecast

    @property
    def checked(self) -> int:
        """How many partitions were, those included that stand in no directory asked for."""
        return len(self._forecasts)

    @property
    def top_causes(self) -> Sequence[Cause]:
        """What stands in the way beside the partitions, in all log directories together."""
        return self._causes

    def ends_broker(self, directory: LogDirectory) -> bool | None:
        """Whether the broker exits where this log directory goes offline; None for unknown.

        It does without its metadata log, and without any other log directory.
        """
        names = map(directory_name, directory.partition_paths)
        if any(name is not None and name.topic == CLUSTER_METADATA_TOPIC for name in names):
            return True
        return None if self._data_directories is None else self._data_directories == 1

    def causes(self, path: Path) -> list[Cause]:
        """What stands in the way in the log directory at ``path``, beside its partitions."""
        return [one for one in self._causes if path == one.path or path in one.path.parents]

    def directories(self) -> Iterator[tuple[Path, DirectoryForecast]]:
        """The forecast of each log directory that was asked for, by what was taken in so far."""
        for path, directory in self._directories.items():
            paths = directory.partition_paths
            known = [self._forecasts[one] for one in paths if one in self._forecasts]
            made = forecast_directory(known, self.causes(path), total=len(paths))
            if made.outcome is Outcome.OFFLINE:
                made = replace(made, ends_broker=self.ends_broker(directory))
            yield path, made
