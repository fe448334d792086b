"""The answers of a child process: status, listings and bytes of objects.

The libraries are imported as a store needs them.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kdump.storage.objects.address import Address
from kdump.storage.objects.status import ListedName, ObjectStatus

if TYPE_CHECKING:
    from kdump.storage.objects.arrow import ArrowStores, Place
    from kdump.storage.objects.s3 import S3Bucket


class Stores:
    """The stores in use, for any number of threads."""

    def __init__(self) -> None:
        self._buckets: dict[Address, S3Bucket] = {}
        self._arrow: ArrowStores | None = None
        self._lock = threading.RLock()

    def status(self, path: Address) -> ObjectStatus:
        """Return the current status of ``path``. Raises OSError."""
        if path.scheme == "s3":
            return self._bucket(path).status(path.key)
        with self._lock:
            return self._others().status(path)

    def entries(self, path: Address) -> list[ListedName]:
        """List the objects and prefixes directly below ``path``. Raises OSError."""
        if path.scheme == "s3":
            return self._bucket(path).entries(path.key)
        with self._lock:
            return self._others().entries(path)

    def read(self, path: Address, position: int, length: int, expected: ObjectStatus) -> memoryview:
        """Return ``length`` bytes of the object from ``position`` on.

        Raises OSError, which is ESTALE if the status of the object is not the ``expected`` one.
        """
        if path.scheme == "s3":
            return memoryview(self._bucket(path).read(path.key, position, length, expected))
        with self._lock:
            return self._others().read(path, position, length, expected)

    def system(self, path: Address) -> Place:
        """Return the store of ``path`` as pyarrow's, and the name of the object in it."""
        with self._lock:
            return self._others().system(path)

    def _bucket(self, path: Address) -> S3Bucket:
        from kdump.storage.objects.s3 import S3Bucket

        store = path.store
        with self._lock:
            if store not in self._buckets:
                self._buckets[store] = S3Bucket(store)
            return self._buckets[store]

    def _others(self) -> ArrowStores:
        from kdump.storage.objects.arrow import ArrowStores

        if self._arrow is None:
            self._arrow = ArrowStores()
        return self._arrow
