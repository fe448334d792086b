"""Compiles the kernel with Cython where that works; all else but README.md is in pyproject.toml.

The kernel's modules are those of its folder. Each is built from a copy of its Python source, into
which the preludes are pasted in place of the statements that import from them: functions are
inlined only into others of the same module. Functions of the copy have literals for the names of
numbers, which makes them C integers. The copy carries the SHA-256 of all that it was made of, so
that a test can tell whether what runs is what is written. Where there is no compiler the extensions
are left out and the same sources run as plain Python.

``KDUMP_KERNEL`` asks for a build that finds mistakes of the kernel: ``checked`` raises on an index
beyond a view and on a view that was never given, ``sanitized`` has AddressSanitizer and UBSan in it
(``tests/kernels`` runs the tests on both). Such a build fails where there is no compiler.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shutil
import sysconfig
import tomllib
from contextlib import suppress
from multiprocessing import Semaphore
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FOLDER = Path("kdump/format/kernel")
PACKAGE = ".".join(FOLDER.parts)
#: Pasted into the modules that import from them, in this order, and never built themselves.
PRELUDES = ("prelude", "checksums", "producers")
#: What Cython's memoryviews need, compiled once for all modules.
SHARED = "_memoryviews"
#: What runs as plain Python alone.
PLAIN = ("__init__", *PRELUDES)
BUILD = Path("build")
#: A larger literal would be a Python object in the compiled code.
LARGEST = 2**31 - 1
#: The kernel checks its own limits; what Cython would add costs more than the checks themselves.
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
}
#: One compiled kernel serves this release of CPython and later ones, whose stable ABI has buffers.
OLDEST = "0x030B0000"
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise SystemExit(
        "expected a CPython with a global interpreter lock, found a free-threaded build, whose "
        "stable ABI is another: install kdump with a build that has the lock"
    )
#: Python is built with -fwrapv; without it UBSan finds overflows, which plain Python does not have.
SANITIZERS = [
    "-O1", "-g", "-fno-wrapv", "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
]  # fmt: skip
KIND = os.environ.get("KDUMP_KERNEL", "")
if KIND not in ("", "checked", "sanitized"):
    raise SystemExit(f"expected KDUMP_KERNEL to be checked or sanitized, found {KIND}")
if KIND == "checked":
    DIRECTIVES |= {"boundscheck": True, "initializedcheck": True}


def origin(statement: ast.stmt) -> str:
    """The name of the module of the kernel that ``statement`` imports from, else nothing."""
    if isinstance(statement, ast.ImportFrom) and statement.module:
        package, _, name = statement.module.rpartition(".")
        return name if package == PACKAGE else ""
    return ""


def without(text: str, statements: list[ast.stmt]) -> list[str]:
    """The lines of ``text``; those of ``statements`` are empty."""
    lines = text.splitlines()
    for statement in statements:
        for line in range(statement.lineno - 1, statement.end_lineno or statement.lineno):
            lines[line] = ""
    return lines


def body_of(prelude: str) -> list[str]:
    """The lines of a prelude without its docstring and without what each module imports itself."""
    text = (FOLDER / f"{prelude}.py").read_text()
    docstring, future, *statements = ast.parse(text).body
    own = [statement for statement in statements if origin(statement)]
    own += [statement for statement in statements if isinstance(statement, ast.Try)]  # cython
    return without(text, [docstring, future, *own])


def pasted(text: str) -> str:
    """A module's source with the preludes in place of its first import from one of them."""
    imports = [node for node in ast.parse(text).body if origin(node) in PRELUDES]
    if not imports:
        return text
    lines, wanted = without(text, imports), {origin(node) for node in imports}
    place = imports[0].lineno - 1
    for prelude in PRELUDES:
        if prelude in wanted or prelude == PRELUDES[0]:
            lines[place] += "\n".join(["", *body_of(prelude), ""])
    return "\n".join([*lines, ""])


def numbers(text: str) -> dict[str, int]:
    """The numbers that ``text`` names, as far as they are C integers if written as literals."""
    stand_in = run_path(str(FOLDER.parent / "nocython.py"))
    names: dict[str, object] = {"cython": SimpleNamespace(**stand_in)}
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            expression = ast.unparse(node.value)
            with suppress(NameError):  # what is made by functions is no number of this sort
                names[node.targets[0].id] = value = eval(expression, names)  # noqa: S307
                # What depends on Cython is another number in the compiled module.
                if type(value) is int and value <= LARGEST and "cython" not in expression:
                    found[node.targets[0].id] = value
    return found


def numbered(text: str) -> str:
    """The source with literals for the numbers that its functions read.

    What a module names is a Python object, or is fetched from memory every time.
    """
    found, lines = numbers(text), text.encode().splitlines(keepends=True)
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    nodes = [node for function in functions for part in function.body for node in ast.walk(part)]
    places = {
        (node.lineno - 1, node.col_offset): node.id.encode()
        for node in nodes
        if isinstance(node, ast.Name) and node.id in found
    }
    for (line, column), name in sorted(places.items(), reverse=True):
        before, behind = lines[line][:column], lines[line][column + len(name) :]
        lines[line] = before + str(found[name.decode()]).encode() + behind
    return b"".join(lines).decode()


def stamped(source: Path) -> Path:
    """A copy of ``source`` with the preludes and the digest filled in."""
    digest = hashlib.sha256(source.read_bytes())
    for prelude in PRELUDES:
        digest.update((FOLDER / f"{prelude}.py").read_bytes())
    copy = BUILD / "kernel" / source
    copy.parent.mkdir(parents=True, exist_ok=True)
    for package in FOLDER.parents[:-1]:
        (BUILD / "kernel" / package / "__init__.py").touch()
    (copy.parent / "__init__.py").touch()
    stamp = f'\nSOURCE_SHA256 = "{digest.hexdigest()}"\n'
    text = numbered(pasted(source.read_text()))
    if KIND == "checked":  # so that what is raised in a function reaches the one that called it
        text = text.replace("exceptval(check=False)", "exceptval(check=True)")
    copy.write_text(text + stamp)
    return copy


def extension(name: str, *sources: Path) -> Extension:
    """The extension of a module of the kernel, with the options of this kind of build."""
    return Extension(
        f"{PACKAGE}.{name}",
        [str(source) for source in sources],
        extra_compile_args={"checked": ["-O1"], "sanitized": SANITIZERS}.get(KIND, ["-O3", "-g0"]),
        extra_link_args=SANITIZERS if KIND == "sanitized" else [],
        define_macros=[("Py_LIMITED_API", OLDEST)],
        py_limited_api=True,
        optional=not KIND,
    )


def processes() -> int:
    """How many processes Cython may use: none where there is no shared memory for semaphores."""
    try:
        Semaphore()
    except OSError:
        return 0
    return os.cpu_count() or 1


def readme() -> str:
    """README.md as registries show it, beside none of its files: its links lead to this version."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    repository, tag = project["urls"]["Homepage"], f"v{project['version']}"

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link["picture"] else "blob"
        return f"{link['shown']}({repository}/{kind}/{tag}/"

    relative = r"(?P<shown>(?P<picture>!?)\[[^]]*\])\((?!https?:)"
    return re.sub(relative, absolute, Path("README.md").read_text())


class BuildKernel(build_ext):
    """Runs Cython where something is built: pip asks a build for other things first.

    Most of an installation's time goes by in Cython and in the C compiler: both run side by side,
    and what memoryviews need is compiled once.
    """

    def initialize_options(self) -> None:
        """Let compilers run side by side."""
        super().initialize_options()
        self.parallel = os.cpu_count() or 1

    def run(self) -> None:
        """Translate the copies to C, then compile them."""
        copies = [extension(source.stem, stamped(source)) for source in SOURCES]
        translated = cythonize(
            [*copies, extension(SHARED)],
            compiler_directives=DIRECTIVES,
            build_dir=str(BUILD / "c"),
            shared_utility_qualified_name=f"{PACKAGE}.{SHARED}",
            nthreads=processes(),
        )
        for built, made in zip(self.extensions, translated, strict=True):
            built.sources = made.sources
        super().run()


# Whatever an earlier build left there would be packed again, compiled modules of old sources too.
shutil.rmtree(BUILD, ignore_errors=True)
SOURCES = [source for source in sorted(FOLDER.glob("*.py")) if source.stem not in PLAIN]
setup(
    ext_modules=[*(extension(source.stem, source) for source in SOURCES), extension(SHARED)],
    cmdclass={"build_ext": BuildKernel},
    long_description=readme(),
    long_description_content_type="text/markdown",
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
