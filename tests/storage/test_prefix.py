"""PrefixSource: the first bytes of a file, and no others."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kdump.repair.rewrite.prefix import PrefixSource
from kdump.storage.source import WindowedFile

_DATA = bytes(range(256)) * 40


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    size=st.integers(0, 12_000), position=st.integers(0, 12_000), at_least=st.integers(1, 12_000)
)
def test_what_a_window_shows(tmp_path: Path, size: int, position: int, at_least: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(_DATA)
    shown = _DATA[:size]
    with (
        WindowedFile(path, window_bytes=4096) as file,
        PrefixSource(file, size) as source,
    ):
        assert source.size == len(shown)
        window = bytes(source.window(position, at_least))
        assert shown[position:].startswith(window)
        assert len(window) >= min(at_least, max(len(shown) - position, 0))
        assert (source.path, source.identity) == (path, file.identity)
        source.close()
        assert bytes(file.window(0)[:1]) == _DATA[:1]
