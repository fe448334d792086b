"""The manual, as it was installed: guides and pages."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib import metadata
from typing import Final

_COMMENT: Final = re.compile(r"^ *<!--.*?-->\n", re.MULTILINE | re.DOTALL)
#: The first line of a guide: ``# kdump-NAME(7): ABOUT``.
_TITLE: Final = re.compile(r"# kdump-(\S+)\(7\): (.*)")


def guides() -> dict[str, metadata.PackagePath]:
    """Return the file of each installed guide by its name without ``kdump-``."""
    files = sorted(file for file in _files() if file.match("share/doc/kafka-kdump/kdump-*.md"))
    return {file.stem.removeprefix("kdump-"): file for file in files}


def text_of(guide: metadata.PackagePath) -> str:
    """Return the text of a guide, without what is only for its tests."""
    return _COMMENT.sub("", guide.read_text()).rstrip()


def about(guide: metadata.PackagePath) -> str:
    """Return what a guide is about, by its first line."""
    title = _TITLE.match(text_of(guide))
    return "" if title is None else title[2]


def page_called(name: str) -> str | None:
    """Return an installed page of the manual, None without it."""
    return next((file.read_text() for file in _files() if file.name == name), None)


def _files() -> list[metadata.PackagePath]:
    """Return the files of the installation that are there."""
    try:
        files = metadata.files("kafka-kdump") or []
    except metadata.PackageNotFoundError:  # a bare source tree
        return []
    manual = (file for file in files if "share" in file.parts)
    return [file for file in manual if file.locate().is_file()]  # type: ignore[attr-defined]


def show_by_man(page: str) -> bool:
    """Return whether man has shown ``page``; some releases do not take a page from their input."""
    man = shutil.which("man")
    if man is None:
        return False
    shown = subprocess.run([man, "-l", "-"], input=page.encode(), stderr=subprocess.DEVNULL)
    return shown.returncode == 0
