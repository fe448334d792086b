"""Both builds of the kernel side by side: the plain one beside the one that is installed."""

from __future__ import annotations

import ast
import sys
from array import array
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st

from kdump.format.kernel import headers as _headers
from kdump.format.kernel import records as _records

ROOT = Path(__file__).parents[2]
PACKAGE = "kdump.format.kernel"
#: What the build pastes into the others.
PRELUDES = ("prelude", "checksums", "producers")
#: The modules of the kernel that are compiled.
BUILT = sorted(
    path.stem
    for path in ROOT.joinpath(*PACKAGE.split(".")).glob("[!_]*.py")
    if path.stem not in PRELUDES
)
_loaded: dict[str, ModuleType] = {}


def load_plain(name: str) -> ModuleType:
    """The module ``name`` as plain Python without Cython, as are those that it imports."""
    if name not in _loaded:
        path = ROOT.joinpath(*name.split(".")).with_suffix(".py")
        imported = {
            node.module
            for node in ast.parse(path.read_bytes()).body
            if isinstance(node, ast.ImportFrom) and node.module
        }
        others = {
            other: load_plain(other) for other in imported if other.rpartition(".")[0] == PACKAGE
        }
        loader = SourceFileLoader(f"plain_{name.rpartition('.')[2]}", str(path))
        spec = spec_from_loader(loader.name, loader)
        assert spec is not None
        module = module_from_spec(spec)
        with patch.dict(sys.modules, {"cython": None, **others}):
            loader.exec_module(module)
        _loaded[name] = module
    return _loaded[name]


HEADERS: Any = load_plain(f"{PACKAGE}.headers")
RECORDS: Any = load_plain(f"{PACKAGE}.records")
# A plain build leaves all checksums to the library; here it computes what the installed one does.
HEADERS.SMALL_BYTES = _headers.SMALL_BYTES
WIDTH = len(_headers.BATCH_FIELDS)
RECORD_WIDTH = len(_records.RECORD_FIELDS)
UNTOUCHED = -7
i64 = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), -1, 0, 2**31, 2**63 - 1])


def columns(length: int) -> array[int]:
    """Room for ``length`` numbers, all of which stand out until they are written."""
    return array("q", [UNTOUCHED] * length)


def rows_of(batches: list[bytes]) -> array[int]:
    """The rows of ``batches``, one behind the other, each as long as it is."""
    rows, position = columns(WIDTH * len(batches)), 0
    for place, data in enumerate(batches):
        row = memoryview(rows)[place * WIDTH : (place + 1) * WIDTH]
        assert _headers.read_header(data, position, row)
        row[_headers.BATCH_FIELDS.index("size")] = len(data)
        position += len(data)
    return rows
