"""The PATH arguments and the options that go with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from kdump.audit.facts.cluster import Configs
    from kdump.audit.targets.scope import Scope


class SomePath(click.Path):
    """A path in the file system, which is not empty, as a variable without a value leaves it."""

    def __init__(self) -> None:
        # Whether it can be read is found out where it is read.
        super().__init__(path_type=Path, readable=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises Click's error for wrong usage."""
        if value == "":
            self.fail("expected a path, found an empty string", param, ctx)
        return super().convert(value, param, ctx)


class LogPath(SomePath):
    """A path in the file system, or an address in an object store such as ``s3://bucket/prefix``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a path that knows where it leads. Raises UsageError."""
        if isinstance(value, str) and "://" in value:
            from kdump.errors import UsageError
            from kdump.storage.objects.address import SCHEMES, as_path, is_address

            if not is_address(value):
                known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
                raise UsageError(
                    f"{value}: expected a path, or an address that begins with {known}"
                )
            return as_path(value)
        return super().convert(value, param, ctx)


def selecting(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command its PATH arguments, and the options that go with them."""
    for option in (
        click.argument("paths", nargs=-1, metavar="[PATH...]", type=LogPath()),
        click.option(
            "--exclude",
            "excluded",
            metavar="GLOB",
            multiple=True,
            help="Leave out topics that match this pattern; repeatable.",
        ),
        click.option(
            "--topic",
            "topics",
            metavar="GLOB",
            multiple=True,
            help="Of a log directory take only topics that match this pattern; repeatable.",
        ),
        click.option(
            "--config",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="Take log directories (if there is no PATH) and topic settings from this "
            "server.properties.",
        ),
    ):
        command = option(command)
    return command


def find_scope(
    paths: Sequence[Path],
    config: Path | None,
    topics: Sequence[str],
    excluded: Sequence[str],
    *,
    stores: bool = True,
) -> Scope:
    """List what there is to judge. Raises UsageError, Click's too, and SourceError.

    ``stores`` says whether that may be in an object store.
    """
    from kdump.audit.targets.listing import list_scope
    from kdump.audit.targets.target import Selection

    named, settings = named_paths(paths, config)
    if not stores:
        _refuse_stores(named)
    return list_scope(named, settings, Selection(tuple(topics), tuple(excluded)))


def _refuse_stores(paths: Sequence[Path]) -> None:
    from kdump.errors import UsageError
    from kdump.storage.objects.address import RemotePath

    for path in paths:
        if isinstance(path, RemotePath):
            raise UsageError(
                f"{path}: expected a directory of this machine, found an address: this command "
                "does not work on object stores, copy the directory here first"
            )


def named_paths(
    paths: Sequence[Path], config: Path | None
) -> tuple[Sequence[Path], Configs | None]:
    """Return the paths that are meant, and the settings of ``config``, None without one.

    Raises UsageError, Click's too, and SourceError.
    """
    from kdump.audit.facts.settings import log_directories, read_config

    settings = None if config is None else read_config(config)
    if not paths and settings is None:
        here = click.get_current_context()
        raise click.UsageError("Missing argument 'PATH...', or --config with a file.", here)
    return paths or log_directories(settings or {}), settings
