"""Compiles the kernel with Cython where that works; everything else is in pyproject.toml.

Each compiled module is built from a copy of its Python source that carries the source's SHA-256,
so that a test can tell whether what runs is what is written. Where there is no compiler the
extensions are left out and the same sources run as plain Python.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

KERNEL = (
    "kdump.format._columns",
    "kdump.format._encode",
    "kdump.format._entries",
    "kdump.format._events",
    "kdump.format._kernel",
    "kdump.format._lines",
    "kdump.format._recovery",
    "kdump.format._rows",
)
BUILD = Path("build")
#: The kernel checks its own limits; what Cython would add costs more than the checks themselves.
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
}


def stamped(module: str) -> Extension:
    """The extension for ``module``, from a copy of its source with the digest filled in."""
    source = Path(*module.split(".")).with_suffix(".py")
    text = source.read_bytes()
    digest = hashlib.sha256(text).hexdigest()
    copy = BUILD / "kernel" / source
    copy.parent.mkdir(parents=True, exist_ok=True)
    (copy.parent / "__init__.py").touch()
    (BUILD / "kernel/kdump/__init__.py").touch()
    copy.write_bytes(text + f'\nSOURCE_SHA256 = "{digest}"\n'.encode())
    return Extension(module, [str(copy)], extra_compile_args=["-O3"])


# Whatever an earlier build left there would be packed again, compiled modules of old sources too.
shutil.rmtree(BUILD, ignore_errors=True)
extensions = cythonize(
    [stamped(module) for module in KERNEL],
    compiler_directives=DIRECTIVES,
    build_dir=str(BUILD / "c"),
)
for extension in extensions:
    extension.optional = True  # cythonize() drops it from what it is given

setup(ext_modules=extensions)
