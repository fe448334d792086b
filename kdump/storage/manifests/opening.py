"""Opening of a path in a manifest, as a Source."""

from __future__ import annotations

import stat

from kdump.errors import DeniedError, SourceError
from kdump.format.manifest.directories import FileContent
from kdump.storage.manifests.content import BytesInManifest, IndexInManifest
from kdump.storage.manifests.log import LogInManifest
from kdump.storage.manifests.path import ManifestPath
from kdump.storage.source import Source, source_error


def open_in_manifest(path: ManifestPath) -> Source:
    """Return the file at ``path`` as a Source.

    Raises SourceError, also for a file that could not be read when the manifest was made, and for
    one whose content the manifest has not.
    """
    try:
        manifest, entry = path.located()
    except OSError as error:
        raise source_error(path, error) from error
    if not stat.S_ISREG(entry.status.mode):
        raise SourceError(path, f"{path}: expected a regular file, found something else")
    match entry.content:
        case FileContent.LOG:
            return LogInManifest(path, manifest, entry)
        case FileContent.INDEX:
            return IndexInManifest(path, manifest, entry)
        case FileContent.DATA | FileContent.PARTS:
            return BytesInManifest(path, manifest, entry)
        case FileContent.ERROR:
            raise SourceError(path, f"{path}: {entry.error}")
        case FileContent.DENIED:
            raise DeniedError(path, f"{path}: {entry.error}")
        case FileContent.NONE:
            raise SourceError(
                path, f"{path}: expected the content of a file, found a manifest without it"
            )
