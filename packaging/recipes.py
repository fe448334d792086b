"""A formula for Homebrew and a recipe for conda, of one source distribution.

recipes.py SDIST DIRECTORY writes DIRECTORY/kafka-kdump.rb and DIRECTORY/recipe.yaml, from
``formula.rb`` and ``recipe.yaml`` beside this file and from pyproject.toml. Both name SDIST by its
digest, at its place among the files of the release that the repository's tag has.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from packaging.requirements import Requirement

HERE = Path(__file__).parent
#: The release of Python that a formula installs kdump with: that of the one file.
PYTHON = "3.13"
#: What conda-forge calls otherwise.
_CONDA = {"isal": "python-isal", "xxhash": "python-xxhash"}


def conda(texts: Iterable[str]) -> str:
    """Return requirements as entries of a recipe, without markers: those of Linux are met."""
    wanted = [Requirement(text) for text in texts]
    lines = [f"{_CONDA.get(each.name, each.name.lower())} {each.specifier}" for each in wanted]
    return "\n".join(f"    - {line}" for line in sorted(lines))


def filled(template: str, sdist: Path) -> str:
    """Return a template with the values of ``sdist`` in it."""
    about = tomllib.loads((HERE.parent / "pyproject.toml").read_text())
    project = about["project"]
    version, repository = project["version"], project["urls"]["Homepage"]
    values = {
        "VERSION": version,
        "DESCRIPTION": project["description"].partition(":")[0],
        "REPOSITORY": repository,
        "URL": f"{repository}/releases/download/v{version}/{sdist.name}",
        "SHA256": sha256(sdist.read_bytes()).hexdigest(),
        "PYTHON": PYTHON,
        "BUILD": conda(about["build-system"]["requires"]),
        "RUN": conda(project["dependencies"]),
    }
    text = (HERE / template).read_text()
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", value)
    return text


def main(sdist: Path, directory: Path) -> None:
    """Write both files."""
    (directory / "kafka-kdump.rb").write_text(filled("formula.rb", sdist))
    (directory / "recipe.yaml").write_text(filled("recipe.yaml", sdist))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
