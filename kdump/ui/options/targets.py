"""The PATH arguments and the options that go with them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kdump.ui.options.group import Decorator, option_group
from kdump.values import frozen

if TYPE_CHECKING:
    from kdump.audit.facts.cluster import Configs
    from kdump.audit.targets.scope import Scope
    from kdump.audit.targets.target import Root, TopicSelection
    from kdump.errors import SourceError
    from kdump.storage.paths import AnyPath


class SomePath(click.Path):
    """A path in the file system, not empty (an unset variable in a shell gives an empty path)."""

    def __init__(self) -> None:
        # Reading the path reports whether it can be read.
        super().__init__(path_type=Path, readable=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raise Click's error for an empty string."""
        if value == "":
            self.fail("expected a path, found an empty string", param, ctx)
        return super().convert(value, param, ctx)


class LogPath(SomePath):
    """A path in the file system, or an address in an object store such as ``s3://bucket/prefix``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a path, or a RemotePath for an address. Raise UsageError for an unknown scheme."""
        if isinstance(value, str) and "://" in value:
            from kdump.errors import UsageError
            from kdump.storage.objects.address import SCHEMES, is_address
            from kdump.storage.objects.remote_path import as_path

            if not is_address(value):
                known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
                raise UsageError(
                    f"{value}: expected a path, or an address that begins with {known}"
                )
            return as_path(value)
        return super().convert(value, param, ctx)


@frozen
class TargetOptions:
    """The PATH arguments and the options that go with them."""

    paths: Sequence[AnyPath]
    config: Path | None = None
    topics: Sequence[str] = ()
    excluded: Sequence[str] = ()

    @property
    def topic_selection(self) -> TopicSelection:
        """The selection that ``--topic`` and ``--exclude`` describe."""
        from kdump.audit.targets.target import TopicSelection

        return TopicSelection(tuple(self.topics), tuple(self.excluded))

    @property
    def words(self) -> tuple[str, ...]:
        """The options, as words of a command for the same paths."""
        from kdump.format.lines.shell import operand

        return (
            *(() if self.config is None else ("--config", operand(self.config))),
            *(word for glob in self.topics for word in ("--topic", glob)),
            *(word for glob in self.excluded for word in ("--exclude", glob)),
        )


_CONFIG_HELP: Final = (
    "Take log directories (if there is no PATH) and topic configs from this server.properties."
)
#: What ``located`` takes, in the help of an option ``--config``.
LOCATED_HELP: Final = (
    "Without PATH and --config, a command that only reads takes the file in KDUMP_CONFIG, or else "
    "the log directories of the one broker that is running on this host."
)


def _config(text: str) -> Decorator:
    return click.option("--config", metavar="FILE", type=click.Path(path_type=Path), help=text)


_repair_config_option = _config(_CONFIG_HELP)
_config_option = _config(f"{_CONFIG_HELP} {LOCATED_HELP}")
_paths_argument = click.argument("paths", nargs=-1, metavar="[PATH...]", type=LogPath())

_topic_options = (
    click.option(
        "--topic",
        "topics",
        metavar="GLOB",
        multiple=True,
        help="Of a log directory take only topics that match this pattern; repeatable.",
    ),
    click.option(
        "--exclude",
        "excluded",
        metavar="GLOB",
        multiple=True,
        help="Leave out topics that match this pattern; repeatable.",
    ),
)


def located(options: TargetOptions) -> TargetOptions:
    """Return the options of a command that only reads, with what to read.

    If they name neither a path nor a config, the config is the file in ``KDUMP_CONFIG``, or else
    the paths are the log directories of the running broker. Standard error says what was taken.
    Raise Click's UsageError unless one broker runs.
    """
    if options.paths or options.config is not None:
        return options
    config = os.environ.get("KDUMP_CONFIG")
    if config:
        _say_taken(f"the log directories in {config} (KDUMP_CONFIG)")
        return replace(options, config=Path(config))
    from kdump.storage.liveness import running_directories

    brokers = [
        (directories, f"{process}: {', '.join(map(str, directories))}")
        for process, directories in running_directories().items()
    ]
    if len(brokers) != 1:
        running = "; ".join(text for _, text in brokers) or "none that this user may inspect"
        raise click.UsageError(
            "Missing argument 'PATH...', --config FILE, or KDUMP_CONFIG with a file: expected one "
            f"broker that is running on this host, found {running}",
            click.get_current_context(),
        )
    ((directories, text),) = brokers
    _say_taken(f"the log directories of {text}")
    return replace(options, paths=directories)


def _say_taken(what: str) -> None:
    if not click.get_current_context().params.get("quiet"):
        _say(f"no PATH is given: takes {what}")


def _located(**values: Any) -> TargetOptions:
    return located(TargetOptions(**values))


path_options = option_group("targets", _located, _config_option, _paths_argument)
#: Those of a command that may need none: what it reads is `located`.
optional_path_options = option_group("targets", TargetOptions, _config_option, _paths_argument)
target_options = option_group("targets", _located, _config_option, *_topic_options, _paths_argument)

#: Those of commands that change files: their users name them.
repair_target_options = option_group(
    "targets", TargetOptions, _repair_config_option, *_topic_options, _paths_argument
)


def find_scope(options: TargetOptions, *, stores: bool = True, manifests: bool = False) -> Scope:
    """Return the roots and targets at the paths of ``options``, or those that its config names.

    Without ``stores``, addresses of object stores are refused. With ``manifests``, those that a
    manifest has are in the place of its file. Raise UsageError, Click's too, and SourceError.
    """
    from kdump.audit.targets.listing import list_scope
    from kdump.storage.manifests.path import paths_in

    paths, settings = named_paths(options)
    if not stores:
        _refuse_stores(paths)
    if not manifests:
        refuse_manifests(paths)
    inner = [found for path in paths for found in paths_in(path)]
    return list_scope(inner, settings, options.topic_selection)


def note_manifests(scope: Scope) -> None:
    """Say on standard error of each manifest among the paths what is not in it."""
    heads = (root.manifest for root in scope.roots if root.manifest is not None)
    for file, head in {head.file: head for head in heads}.items():
        what = "an anonymous manifest" if head.anonymous else "a manifest"
        _say(
            f"{file}: {what} of {head.time}: the state of that time; it has no records, and does "
            "not say who may open files"
        )


def find_read_scope(
    options: TargetOptions, *, stores: bool = True, manifests: bool = False
) -> Scope:
    """Return what `find_scope` does. Raise the error of a root that is unreadable or emptied."""
    scope = say_unreadable(find_scope(options, stores=stores, manifests=manifests))
    refuse_emptied(scope.roots)
    return scope


def refuse_emptied(roots: Sequence[Root]) -> None:
    """Say which of ``roots`` lost all their partitions; if all did, raise the last error."""
    from kdump.audit.targets.scope import emptied_errors

    errors = emptied_errors(roots)
    if len(errors) == len(roots):
        _raise_last(errors)
    for error in errors:
        _say(str(error))


def say_unreadable(scope: Scope) -> Scope:
    """Return ``scope``. Say of each root why it cannot be read; the last error is raised."""
    from kdump.audit.targets.scope import errors_of

    _raise_last(errors_of(scope.roots))
    return scope


def say_wrong_paths(roots: Sequence[Root]) -> bool:
    """Say on standard error of each path with nothing to check what is there instead.

    Return whether all of ``roots`` are such: a report would then claim something about nothing.
    """
    from kdump.audit.targets.scope import wrong_paths

    errors = wrong_paths(roots)
    for error in errors:
        _say(str(error))
    return bool(errors) and len(errors) == len(roots)


def refuse_wrong_paths(roots: Sequence[Root]) -> None:
    """Do what `say_wrong_paths` does. Raise the last error if all of ``roots`` are such."""
    from kdump.audit.targets.scope import wrong_paths

    errors = wrong_paths(roots)
    if len(errors) == len(roots):
        _raise_last(errors)
    say_wrong_paths(roots)


def _raise_last(errors: Sequence[SourceError]) -> None:
    """Raise the last of ``errors``, which is said where it ends the command; say the others."""
    for error in errors[:-1]:
        _say(str(error))
    for error in errors[-1:]:
        raise error


def _say(text: str) -> None:
    from kdump.format.lines.text import printable

    click.echo(f"kdump: {printable(text)}", err=True)


def _refuse_stores(paths: Sequence[AnyPath]) -> None:
    from kdump.errors import UsageError
    from kdump.storage.objects.remote_path import RemotePath

    for path in paths:
        if isinstance(path, RemotePath):
            raise UsageError(
                f"{path}: expected a directory of this machine, found an address: this command "
                "does not work on object stores, copy the directory here first"
            )


def refuse_manifests(
    paths: Iterable[AnyPath],
    instead: str = "it holds no records; verify, next-start, compare and space read manifests",
) -> None:
    """Raise UsageError for a manifest among ``paths``; ``instead`` says what to do with it.

    Raise SourceError for a damaged one.
    """
    from kdump.errors import UsageError
    from kdump.storage.manifests.path import ManifestPath, paths_in

    for found in (found for path in paths for found in paths_in(path)):
        if isinstance(found, ManifestPath):
            raise UsageError(
                f"{found.file}: expected what a broker has written, found a manifest: {instead}"
            )


def named_paths(options: TargetOptions) -> tuple[Sequence[AnyPath], Configs | None]:
    """Return the paths of ``options``, or the log directories of its config, and the settings.

    The settings are None without a config. Raise UsageError, Click's too, and SourceError.
    """
    from kdump.audit.facts.settings import log_directories, read_config

    settings = None if options.config is None else read_config(options.config)
    if not options.paths and settings is None:
        click_context = click.get_current_context()
        raise click.UsageError(
            "Missing argument 'PATH...', or --config with a file.", click_context
        )
    return options.paths or log_directories(settings or {}), settings
