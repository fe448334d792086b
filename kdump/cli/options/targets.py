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
            from kdump.storage.objects.address import SCHEMES, as_path, is_address

            if not is_address(value):
                known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
                raise UsageError(
                    f"{value}: expected a path, or an address that begins with {known}"
                )
            return as_path(value)
        return super().convert(value, param, ctx)


def target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the PATH arguments, and the options that go with them, to ``command``; return it."""
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
    """Return the roots and targets at ``paths``, or those that ``config`` names.

    Without ``stores``, addresses of object stores are refused. Raise UsageError, Click's too, and
    SourceError.
    """
    from kdump.audit.targets.listing import list_scope
    from kdump.audit.targets.target import Selection

    all_paths, settings = named_paths(paths, config)
    if not stores:
        _refuse_stores(all_paths)
    return list_scope(all_paths, settings, Selection(tuple(topics), tuple(excluded)))


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
    """Return ``paths``, or the log directories of ``config``, and the settings of ``config``.

    The settings are None without ``config``. Raise UsageError, Click's too, and SourceError.
    """
    from kdump.audit.facts.settings import log_directories, read_config

    settings = None if config is None else read_config(config)
    if not paths and settings is None:
        click_context = click.get_current_context()
        raise click.UsageError(
            "Missing argument 'PATH...', or --config with a file.", click_context
        )
    return paths or log_directories(settings or {}), settings
