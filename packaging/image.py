"""Puts the image together: image.py VERSION DIST PACKAGES BILL OUTPUT.

DIST has the executables, PACKAGES the packages of Debian that ``IMAGE`` lists, BILL is the bill of
materials. OUTPUT is a tar archive of an OCI image layout, for amd64 and arm64: the executable, what
it needs of glibc and libgcc, and busybox as a shell. The user is none of a broker's, the file
system may be read-only. Needs dpkg-deb. The same input gives the same bytes, at SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from time import gmtime, strftime
from typing import Any

HERE = Path(__file__).parent
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
#: What is taken from the packages: libraries, the loader, busybox, and what states their licences.
TAKEN = re.compile(
    r"\./(lib(64)?/(.*-linux-gnu/)?[^/]+\.so(\.[\d.]+)?|bin/busybox|usr/share/doc/[^/]+/copyright)"
)
SHELL = (
    "awk", "cat", "chmod", "cp", "date", "df", "du", "env", "find", "grep", "gzip", "head", "id",
    "kill", "less", "ln", "ls", "mkdir", "mount", "mv", "od", "ps", "rm", "sed", "sh", "sha256sum",
    "sleep", "sort", "stat", "tail", "tar", "top", "uname", "vi", "wc",
)  # fmt: skip
USER = 65532
PASSWD = f"root:x:0:0:root:/:/bin/sh\nkdump:x:{USER}:{USER}:kdump:/tmp:/bin/sh\n"
GROUP = f"root:x:0:\nkdump:x:{USER}:\n"
FOLDERS = {"dev": 0o755, "proc": 0o555, "sys": 0o555, "tmp": 0o1777}
TIME = int(os.environ["SOURCE_DATE_EPOCH"])


def archive(entries: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """Return a tar archive of ``entries``, all of them root's and from TIME, by their names."""
    made = BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for entry, data in sorted(entries, key=lambda each: each[0].name):
            entry.mtime, entry.size = TIME, len(data)
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            tar.addfile(entry, BytesIO(data))
    return made.getvalue()


def file(name: str, data: bytes, mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    """Return the entry of a file."""
    entry = tarfile.TarInfo(name)
    entry.mode = mode
    return entry, data


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    """Return the entry of a symbolic link."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, target, 0o777
    return entry, b""


def folder(name: str, mode: int) -> tuple[tarfile.TarInfo, bytes]:
    """Return the entry of a folder."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    return entry, b""


def unpacked(package: Path) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """Yield the entries of a package of Debian that the image takes."""
    content = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True
    )
    with tarfile.open(fileobj=BytesIO(content.stdout)) as tar:
        for entry in tar:
            if entry.isdir() or not TAKEN.fullmatch(entry.name):
                continue
            held = tar.extractfile(entry) if entry.isreg() else None
            entry.name = entry.name.removeprefix("./")
            yield entry, b"" if held is None else held.read()


def root(executable: Path, packages: list[Path], bill: Path) -> bytes:
    """Return the file system of the image for an architecture as a tar archive."""
    entries = [entry for package in packages for entry in unpacked(package)]
    entries += [link(f"bin/{name}", "busybox") for name in SHELL]
    entries += [folder(name, mode) for name, mode in FOLDERS.items()]
    entries += [
        file("etc/passwd", PASSWD.encode()),
        file("etc/group", GROUP.encode()),
        file("usr/bin/kdump", executable.read_bytes(), 0o755),
        file("usr/share/doc/kdump/sbom.cdx.json", bill.read_bytes()),
    ]
    parents = {str(parent) for entry, _ in entries for parent in Path(entry.name).parents}
    have = {entry.name for entry, _ in entries}
    entries += [folder(name, 0o755) for name in parents - have - {"."}]
    return archive(entries)


class Layout:
    """An OCI image layout in the making."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}

    def add(self, kind: str, data: bytes | dict[str, Any], **more: Any) -> dict[str, Any]:
        """Add a blob; return its descriptor."""
        content = data if isinstance(data, bytes) else json.dumps(data, sort_keys=True).encode()
        digest = sha256(content).hexdigest()
        self._blobs[digest] = content
        media = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content), **more}

    def archive(self, top: dict[str, Any]) -> bytes:
        """Return the layout, with the one image ``top`` in its index."""
        index = {"schemaVersion": 2, "manifests": [top]}
        return archive(
            [
                *(file(f"blobs/sha256/{digest}", data) for digest, data in self._blobs.items()),
                file("index.json", json.dumps(index, sort_keys=True).encode()),
                file("oci-layout", b'{"imageLayoutVersion": "1.0.0"}'),
            ]
        )


def main(version: str, dist: Path, packages: Path, bill: Path, output: Path) -> None:
    """Write ``output``."""
    created = strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(TIME))
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]
    labels = {
        "org.opencontainers.image.title": "kdump",
        "org.opencontainers.image.description": "fsck for Kafka log directories",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.source": project["urls"]["Homepage"],
    }
    layout, manifests = Layout(), []
    for architecture, machine in ARCHITECTURES.items():
        executable = dist / f"kdump-{version}-linux-{machine}"
        layer = root(executable, sorted(packages.glob(f"*_{architecture}.deb")), bill)
        config = {
            "architecture": architecture,
            "os": "linux",
            "created": created,
            "config": {
                "User": f"{USER}:{USER}",
                "Entrypoint": ["/usr/bin/kdump"],
                "Cmd": ["--help"],
                "Env": ["PATH=/usr/bin:/bin"],
                "Labels": labels,
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(layer).hexdigest()}"]},
            "history": [{"created": created, "created_by": "packaging/image.py"}],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": layout.add("config.v1+json", config),
            "layers": [layout.add("layer.v1.tar+gzip", gzip.compress(layer, mtime=0))],
            "annotations": labels,
        }
        platform = {"architecture": architecture, "os": "linux"}
        manifests.append(layout.add("manifest.v1+json", manifest, platform=platform))
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": manifests,
        "annotations": labels,
    }
    names = {"org.opencontainers.image.ref.name": version}
    output.write_bytes(layout.archive(layout.add("index.v1+json", index, annotations=names)))


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
