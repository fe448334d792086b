"""What the executable of one file consists of: components.py sbom|copyright SITE VERSION OUTPUT.

SITE is the directory that kdump and its dependencies were installed into. ``sbom`` writes a
software bill of materials (CycloneDX 1.6, JSON), ``copyright`` a file in Debian's format with the
licence of each part. What is compiled into the launcher is known by ``SHA256SUMS``, and what an
image has beside the executable by ``IMAGE``. The time in a bill is SOURCE_DATE_EPOCH; the same
input gives the same bytes.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.bom_ref import BomRef
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

HERE = Path(__file__).parent
#: A source archive of Debian: its name without the number in it, and the version of the project.
_SOURCE = re.compile(r"(?P<name>[a-z]+)[\d.]*_(?:.*really)?(?P<version>[\d.]+)\.orig\.tar\.\w+")
#: A binary package of Debian.
_BINARY = re.compile(r"(?P<name>[a-z0-9.+-]+)_(?P<version>[^_]+)_(?P<architecture>\w+)\.deb")
#: Of parts whose metadata names no SPDX expression.
_LICENSES = {
    "python": "PSF-2.0", "zlib": "Zlib", "libffi": "MIT", "sqlite": "blessing",
    "crc32c": "LGPL-2.1-or-later", "lz4": "BSD-3-Clause", "markdown-it-py": "MIT", "mdurl": "MIT",
    "python-snappy": "BSD-3-Clause", "rich": "MIT", "xxhash": "BSD-2-Clause",
    "libc6": "LGPL-2.1-or-later", "libgcc-s1": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "busybox-static": "GPL-2.0-only",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """A part, its licence as an SPDX expression, and the digest of what it was made from."""

    name: str
    version: str
    license: str
    url: PackageURL
    sha256: str | None = None


def sums(file: str) -> Iterator[tuple[str, str]]:
    """Yield the names and digests of a file of sums in this directory."""
    for line in (HERE / file).read_text().splitlines():
        digest, name = line.split()
        yield name, digest


def installed(site: Path) -> Iterator[Part]:
    """Yield the distributions in ``site`` but for kdump."""
    for found in sorted(distributions(path=[str(site)]), key=lambda each: each.name.lower()):
        if found.name == "kafka-kdump":
            continue
        name = re.sub(r"[-_.]+", "-", found.name).lower()
        license_ = found.metadata["License-Expression"] or _LICENSES.get(name)
        if license_ is None:
            raise SystemExit(f"{found.name} {found.version}: its licence is unknown")
        url = PackageURL("pypi", name=name, version=found.version)
        yield Part(name, found.version, license_, url)


def compiled() -> Iterator[Part]:
    """Yield what is compiled into the launcher."""
    for name, digest in sums("SHA256SUMS"):
        found = _SOURCE.fullmatch(name)
        if found is None:
            raise SystemExit(f"SHA256SUMS: expected a source archive of Debian, found {name}")
        part, version = found["name"], found["version"]
        url = PackageURL("generic", name=part, version=version)
        yield Part(part, version, _LICENSES[part], url, digest)


def of_image() -> Iterator[Part]:
    """Yield what an image has beside the executable."""
    for file, digest in sums("IMAGE"):
        found = _BINARY.fullmatch(file)
        if found is None:
            raise SystemExit(f"IMAGE: expected a package of Debian, found {file}")
        name, version = found["name"], found["version"].replace("%3a", ":")
        url = PackageURL("deb", "debian", name, version, qualifiers={"arch": found["architecture"]})
        yield Part(name, version, _LICENSES[name], url, digest)


def sbom(site: Path, version: str) -> str:
    """Return the bill of materials of an image with the executable in it."""
    bom = Bom(serial_number=uuid5(NAMESPACE_URL, f"kafka-kdump {version}"))
    bom.metadata.timestamp = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    bom.metadata.tools.components.clear()
    own = PackageURL("pypi", name="kafka-kdump", version=version)
    about = Part("kafka-kdump", version, "Apache-2.0", own)
    bom.metadata.component = top = _component(about, ComponentType.APPLICATION)
    parts = [_component(part) for part in (*installed(site), *compiled(), *of_image())]
    for part in parts:
        bom.components.add(part)
    bom.register_dependency(top, parts)
    text: str = JsonV1Dot6(bom).output_as_string(indent=2)
    return f"{text}\n"


def _component(part: Part, kind: ComponentType = ComponentType.LIBRARY) -> Component:
    compound = " " in part.license
    return Component(
        name=part.name,
        version=part.version,
        type=kind,
        purl=part.url,
        bom_ref=BomRef(part.url.to_string()),
        licenses=[
            LicenseExpression(part.license) if compound else DisjunctiveLicense(id=part.license)
        ],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=part.sha256)] if part.sha256 else [],
    )


def copyright_file(site: Path, version: str) -> str:
    """Return the licences of the executable, part for part, as Debian's packages state them."""
    lines = [
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/",
        "Upstream-Name: kafka-kdump",
        "Comment: /usr/bin/kafka-kdump holds these parts; their sources have the texts.",
        "",
        "Files: *",
        "Copyright: the kdump authors",
        "License: Apache-2.0",
        " On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.",
    ]
    for part in (*installed(site), *compiled()):
        lines += [
            "",
            f"Files: {part.name}",
            f"Copyright: the authors of {part.name} {part.version}",
            f"License: {part.license}",
            f" {part.url.to_string()}",
        ]
    return "\n".join(lines) + "\n"


def main(kind: str, site: Path, version: str, output: Path) -> None:
    """Write ``output``."""
    output.write_text({"sbom": sbom, "copyright": copyright_file}[kind](site, version))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
