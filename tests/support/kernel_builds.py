"""Both builds of the kernel side by side: the plain one beside the one that is installed."""

from __future__ import annotations

import sys
from array import array
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st

from kdump.format import _kernel

ROOT = Path(__file__).parents[2]


def load_plain(name: str) -> ModuleType:
    """The module ``name`` as plain Python without Cython."""
    path = ROOT.joinpath(*name.split(".")).with_suffix(".py")
    loader = SourceFileLoader(f"plain_{name.rpartition('.')[2]}", str(path))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    with patch.dict(sys.modules, {"cython": None}):
        loader.exec_module(module)
    return module


KERNEL: Any = load_plain("kdump.format._kernel")
# A plain build leaves all checksums to the library; here it computes what the installed one does.
KERNEL.SMALL_BYTES = _kernel.SMALL_BYTES
WIDTH = len(_kernel.BATCH_FIELDS)
RECORD_WIDTH = len(_kernel.RECORD_FIELDS)
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
        assert _kernel.read_header(data, position, row)
        row[_kernel.BATCH_FIELDS.index("size")] = len(data)
        position += len(data)
    return rows
