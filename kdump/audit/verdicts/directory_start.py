"""Forecasts of log directories, collected while their partitions arrive.

``forecast`` has what a broker does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kdump.audit.facts.cluster import Configs
from kdump.audit.facts.settings import data_directories, recovery_threads
from kdump.audit.finding_code import Outcome
from kdump.audit.findings import Finding
from kdump.audit.startup.forecast import DirectoryForecast, Forecast, causes_of, forecast_directory
from kdump.audit.startup.outcome import Cause
from kdump.audit.startup.room import Room, space_findings
from kdump.audit.targets.target import Root
from kdump.audit.verdicts.packs import PackedList
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import MissingDirectoryError
from kdump.storage.logdir import LogDirectory, directory_name
from kdump.storage.names import CLUSTER_METADATA_TOPIC
from kdump.storage.paths import AnyPath


class Starts:
    """The effect of the next start on log directories, collected partition by partition.

    ``config`` has the settings of their broker, None if unknown. ``stopped``: none of their brokers
    runs.
    """

    def __init__(self, roots: Iterable[Root], config: Configs | None = None) -> None:
        self._data_directories = None if config is None else data_directories(config)
        self._threads = recovery_threads(config)
        known = tuple(roots)
        self.stopped = all(root.stopped for root in known if root.liveness is not None)
        self._facts = {
            root.directory.directory.path: root.directory
            for root in known
            if isinstance(root.content, LogDirectory) and root.directory is not None
        }
        self._rooms: dict[AnyPath, Room] = defaultdict(Room)
        # With the paths of their partitions; those of one directory mostly follow each other.
        self._forecasts: PackedList[tuple[AnyPath, Forecast]] = PackedList()
        self._places: dict[AnyPath, list[range]] = {}
        self._findings: list[Finding] = []

    def add_findings(self, findings: Iterable[Finding]) -> None:
        """Add the findings at the top of log directories."""
        self._findings += findings

    def add(self, verdict: Verdict, forecast: Forecast | None) -> None:
        """Add the verdict on one partition, and its forecast from ``next_start``.

        A log directory that is missing arrives as a partition without a forecast.
        """
        if isinstance(verdict.target.error, MissingDirectoryError):
            self._findings += verdict.findings
        if forecast is not None:
            path, number = verdict.target.path, len(self._forecasts)
            self._rooms[path.parent] += forecast.room
            self._forecasts.append((path, forecast))
            places = self._places.setdefault(path.parent, [])
            if places and places[-1].stop == number:
                number = places.pop().start
            places.append(range(number, len(self._forecasts)))

    @property
    def checked(self) -> int:
        """The number of partitions added, including those outside the requested directories."""
        return sum(len(dict(self._added(path))) for path in self._places)

    @property
    def top_findings(self) -> Sequence[Finding]:
        """The findings at the top of all log directories, and of directories that are missing."""
        return self._findings

    def ends_broker(self, directory: LogDirectory) -> bool | None:
        """Return whether the broker exits if this log directory goes offline; None if unknown.

        It exits without its metadata log, and without any other log directory.
        """
        names = map(directory_name, directory.partition_paths)
        if any(name is not None and name.topic == CLUSTER_METADATA_TOPIC for name in names):
            return True
        return None if self._data_directories is None else self._data_directories == 1

    def causes(self, path: AnyPath) -> list[Cause]:
        """Return the causes at the top of the log directory at ``path``."""
        return list(causes_of(self._findings_in(path)))

    def space_findings(self) -> list[Finding]:
        """Return the findings about the file systems of the requested log directories.

        To be called once all partitions are added.
        """
        return list(
            space_findings((facts, self._rooms[path]) for path, facts in self._facts.items())
        )

    def directories(self) -> Iterator[tuple[AnyPath, DirectoryForecast]]:
        """Yield the path and the forecast of each requested log directory, as added so far."""
        for path in self._facts:
            yield path, self.directory(path)

    def directory(self, path: AnyPath) -> DirectoryForecast:
        """Return the forecast of the requested log directory at ``path``, as added so far."""
        facts = self._facts[path]
        directory = facts.directory
        paths, forecasts = directory.partition_paths, dict(self._added(path))
        known = [forecasts[partition] for partition in paths if partition in forecasts]
        found = forecast_directory(
            known, self._findings_in(path), total=len(paths), threads=self._threads
        )
        found = replace(found, space=facts.space)
        if found.outcome is Outcome.OFFLINE:
            found = replace(found, ends_broker=self.ends_broker(directory))
        return found

    def _added(self, path: AnyPath) -> Iterator[tuple[AnyPath, Forecast]]:
        """Yield the partitions in the directory at ``path`` with their forecasts, as added."""
        return (self._forecasts[number] for place in self._places.get(path, ()) for number in place)

    def _findings_in(self, path: AnyPath) -> list[Finding]:
        return [finding for finding in self._findings if finding.is_below(path)]
