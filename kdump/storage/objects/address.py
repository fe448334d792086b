"""Addresses such as ``s3://bucket/prefix``, joined and split as paths are.

Spec: ``pyarrow.fs``; the spelling is that of its URIs.
"""

from __future__ import annotations

import os
from typing import ClassVar, Final, Self
from urllib.parse import parse_qsl, urlencode

from kdump.errors import UsageError
from kdump.storage.paths import StoredPath

#: Tests cover ``s3`` alone.
SCHEMES: Final = ("s3", "s3a", "gs", "abfs", "abfss", "hdfs")
#: Other names for a scheme: Hadoop's for its client of S3.
_SAME_AS: Final = {"s3a": "s3"}
#: The options that may follow the ``?`` of an address of ``s3``.
S3_OPTIONS: Final = ("endpoint_override", "scheme", "region", "anonymous")
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


class Address(StoredPath):
    """An address in an object store; ``RemotePath`` asks the store what is there.

    Its first part is the scheme with a colon, then the options if there are any. Its second part is
    the bucket, or the host.
    """

    KIND: ClassVar = "the address"

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the address that a user typed. Raises UsageError."""
        address, _, query = text.partition("?")
        scheme, _, rest = address.partition("://")
        scheme = _SAME_AS.get(scheme, scheme)
        host = rest.partition("/")[0]
        if not host:
            raise UsageError(f"{text}: expected an address such as {scheme}://BUCKET/PREFIX")
        if ":" in host.rpartition("@")[0]:
            raise UsageError(
                f"{scheme}://...@{host.rpartition('@')[2]}: expected an address without a "
                "password: give it in the environment, such as AWS_SECRET_ACCESS_KEY"
            )
        options = parse_qsl(query, keep_blank_values=True)
        for name, _ in options:
            if scheme == "s3" and name not in S3_OPTIONS:
                raise UsageError(
                    f"{address}: expected the options {', '.join(S3_OPTIONS)}, found {name}"
                )
        return cls(f"{scheme}:" + (f"?{urlencode(options)}" if options else ""), rest)

    @property
    def scheme(self) -> str:
        """The scheme, such as ``s3``."""
        return self.parts[0].partition(":")[0]

    @property
    def options(self) -> dict[str, str]:
        """The options after the question mark, by name."""
        return dict(parse_qsl(self.parts[0].partition("?")[2], keep_blank_values=True))

    @property
    def store(self) -> Self:
        """The address of the bucket or host."""
        return type(self)(*self.parts[:2])

    @property
    def endpoint(self) -> str | None:
        """The URL of the endpoint that the address or the environment names, None for AWS's."""
        options = self.options
        named = options.get("endpoint_override")
        if named is None:
            named = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), None)
        if not named:
            return None
        scheme, separator, host = named.rpartition("://")
        return f"{options.get('scheme') or (scheme if separator else 'https')}://{host}"

    @property
    def key(self) -> str:
        """The name in the bucket, without a slash at either end."""
        return "/".join(self.parts[2:])

    def __str__(self) -> str:
        first, *rest = self.parts or (":",)  # the parents above a bucket
        scheme, _, query = first.partition("?")
        return f"{scheme}//{'/'.join(rest)}" + (f"?{query}" if query else "")


def is_address(text: str) -> bool:
    """Return whether ``text`` is an address with one of ``SCHEMES``."""
    return text.partition("://")[0] in SCHEMES and "://" in text
