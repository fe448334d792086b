"""Puts one file together: onefile.py LAUNCHER STDLIB SITE OUTPUT.

OUTPUT is LAUNCHER, an executable, with an archive behind it: the modules of the directories STDLIB
and SITE as bytecode of the Python that runs this, and the compiled modules of SITE. The same input
gives the same bytes. zipimport reads the archive, so nothing in it is compressed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from py_compile import PycInvalidationMode, compile
from shutil import copyfile
from tempfile import NamedTemporaryFile
from zipfile import ZipFile, ZipInfo

#: Packages of the standard library that no command imports.
LEFT_OUT = (
    "ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages", "test", "tkinter",
    "turtledemo", "venv",
)  # fmt: skip
FOLDER = "compiled"
#: What a time in an archive can be at least; each file has it.
TIME = (1980, 1, 1, 0, 0, 0)


def bytecode(path: Path, name: str) -> bytes:
    """Return the bytecode of a module, of the sort that nothing compares with a source."""
    with NamedTemporaryFile() as file:
        compile(
            str(path), file.name, name, doraise=True,
            invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
        )  # fmt: skip
        return Path(file.name).read_bytes()


def modules(root: Path, left_out: tuple[str, ...] = ()) -> Iterator[tuple[str, bytes]]:
    """Yield the modules below ``root`` as bytecode, by their names in the archive."""
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if name.parts[0] not in left_out:
            yield f"{name}c", bytecode(path, str(name))


def compiled(site: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the compiled modules of ``site`` by the names of the modules, and what lists them."""
    libraries = {}
    for path in sorted(site.rglob("*.so")):
        package = ".".join(path.relative_to(site).parent.parts)
        name = path.name.partition(".")[0]
        libraries[f"{package}.{name}" if package else name] = path.read_bytes()
    digest = sha256(b"".join(libraries.values())).hexdigest()
    yield f"{FOLDER}/names", "\n".join(libraries).encode("ascii")
    yield f"{FOLDER}/digest", digest.encode("ascii")
    for name, data in libraries.items():
        yield f"{FOLDER}/{name}", data


def files_of(folder: Path) -> list[Path]:
    """The files below a folder, in order."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def main(launcher: Path, stdlib: Path, site: Path, output: Path) -> None:
    """Write ``output``."""
    copyfile(launcher, output)
    with ZipFile(output, "a") as archive:

        def add(name: str, data: bytes) -> None:
            archive.writestr(ZipInfo(name, TIME), data)

        for name, data in (*modules(stdlib, LEFT_OUT), *modules(site)):
            add(name, data)
        add("startup.pyc", bytecode(Path(__file__).with_name("startup.py"), "startup.py"))
        for path in sorted(site.glob("*.dist-info/METADATA")):
            add(str(path.relative_to(site)), path.read_bytes())
        manual = {str(path.relative_to(site)): path for path in files_of(site / "share")}
        for name, path in manual.items():
            add(name, path.read_bytes())
        (own,) = site.glob("kafka_kdump-*.dist-info")  # importlib.metadata finds the manual in it
        add(f"{own.name}/RECORD", "".join(f"{name},,\n" for name in manual).encode("ascii"))
        for name, data in compiled(site):
            add(name, data)
    output.chmod(0o755)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
