"""What runs first in the executable of one file: compiled modules are loaded from memory.

The archive behind the executable holds the standard library, kdump and what it needs. zipimport
reads the modules that are Python. A compiled module has to be a file for the dynamic linker: here
that is a file in memory, which no directory holds and which ends with the process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from zipimport import zipimporter

#: The folder of compiled modules in the archive, each named as the module is.
FOLDER = "compiled"
#: Where a system forbids to run what is in memory, compiled modules are written to this directory.
VARIABLE = "KDUMP_LIBRARIES"


class _Loader(ExtensionFileLoader):
    """Loads a compiled module; says what to do where the system forbids that."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        try:
            return super().create_module(spec)
        except ImportError as error:
            raise _refusal(f"{spec.name}: cannot be loaded: {error}") from error


class CompiledModules(MetaPathFinder):
    """Finds compiled modules in the archive at ``path``."""

    def __init__(self, path: str) -> None:
        self._archive = zipimporter(path)
        self._names = frozenset(self._text("names").split())

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return the spec of a compiled module of the archive; None for others."""
        if fullname not in self._names:
            return None
        file = self._file(fullname)
        return spec_from_file_location(fullname, file, loader=_Loader(fullname, file))

    def _text(self, name: str) -> str:
        return self._archive.get_data(f"{FOLDER}/{name}").decode("ascii")

    def _file(self, name: str) -> str:
        """Return the path of a file with the module ``name``."""
        data = self._archive.get_data(f"{FOLDER}/{name}")
        directory = os.environ.get(VARIABLE)
        if directory:
            return str(_write(Path(directory) / self._text("digest"), name, data))
        # Stays open: the linker takes two files for one if their paths are equal.
        try:
            descriptor = os.memfd_create(name)
        except OSError as error:
            raise _refusal(f"{name}: no file in memory can be made: {error.strerror}") from error
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        return f"/proc/self/fd/{descriptor}"


def _write(directory: Path, name: str, data: bytes) -> Path:
    """Write a module to a directory, where later runs find it."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = directory.stat()
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
        raise _refusal(f"{directory}: expected a directory that only you can write")
    path = directory / name
    if not path.exists():
        temporary = directory / f"{name}.{os.getpid()}"
        temporary.write_bytes(data)
        temporary.replace(path)
    return path


def _refusal(what: str) -> Exception:
    from kdump.errors import UsageError

    return UsageError(
        f"{what}: set {VARIABLE} to a directory of your own, on a file system without noexec"
    )


def main() -> None:
    """Run kdump."""
    sys.meta_path.insert(0, CompiledModules(sys.executable))
    sys.argv[0] = sys.orig_argv[0]  # the name that the executable was called by
    from kdump.__main__ import main as run

    sys.exit(run())
