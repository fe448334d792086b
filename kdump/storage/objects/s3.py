"""One bucket of S3: status, listings and conditional reads, one request for each range.

botocore signs requests, finds credentials as AWS's own tools do, and repeats requests that fail.
Its client is for any number of threads.

Spec: the API reference of Amazon S3: HeadObject, ListObjectsV2, GetObject.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import botocore.exceptions as failures
import botocore.session
from botocore import UNSIGNED
from botocore.config import Config

from kdump.storage.objects.address import Address
from kdump.storage.objects.status import (
    ATTEMPTS,
    CONNECT_SECONDS,
    REPLACED,
    REQUESTS,
    SILENT_SECONDS,
    ListedName,
    ObjectStatus,
)

_DEFAULT_REGION: Final = "us-east-1"

_NO_ANSWER: Final = (
    failures.ConnectionError,
    failures.HTTPClientError,  # broken connections, silence, TLS
    failures.IncompleteReadError,
)
_NO_CREDENTIALS: Final = (
    failures.NoCredentialsError,
    failures.PartialCredentialsError,
    failures.CredentialRetrievalError,
    failures.TokenRetrievalError,
    failures.SSOError,
    failures.ProfileNotFound,
)
#: The codes of errors about rights that do not come with the status 403.
_DENIED: Final = ("AccessDenied", "ExpiredToken", "InvalidToken", "AuthorizationHeaderMalformed")
_REPLACED: Final = ("PreconditionFailed", "412", "InvalidRange", "416")
_MISSING: Final = ("NoSuchKey", "NotFound", "404")


class S3Bucket:
    """A bucket, by its address. Methods raise OSError."""

    def __init__(self, store: Address) -> None:
        self._name = store.parts[1]
        options = store.options
        endpoint = store.endpoint
        session = botocore.session.get_session()
        anonymous = options.get("anonymous", "").lower() in ("true", "1")
        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=SILENT_SECONDS,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            max_pool_connections=REQUESTS,
            # The names of buckets are seldom names of hosts elsewhere than at Amazon.
            s3={"addressing_style": "path" if endpoint else "auto"},
            signature_version=UNSIGNED if anonymous else None,
        )
        # botocore itself has only AWS_DEFAULT_REGION and the files of profiles.
        regions = (options.get("region"), os.environ.get("AWS_REGION"))
        region = next(filter(None, regions), None) or session.get_config_variable("region")
        region = region or _DEFAULT_REGION
        with _explained(self._name, endpoint or f"S3 in {region}"):
            self._client = session.create_client(
                "s3", region_name=region, endpoint_url=endpoint, config=config
            )
        self._endpoint: str = self._client.meta.endpoint_url

    def status(self, key: str) -> ObjectStatus:
        """Return the present status of the object ``key``; ENOENT if there is none."""
        with self._explain():
            found = self._client.head_object(Bucket=self._name, Key=key)
        return _status(found["ContentLength"], found)

    def entries(self, key: str) -> list[ListedName]:
        """List the objects and prefixes directly below the prefix ``key``, empty for the bucket.

        ENOENT if there is nothing below a ``key``.
        """
        prefix = f"{key}/" if key else ""
        found: dict[str, ObjectStatus] = {}
        nothing = True
        with self._explain():
            for page in self._pages(prefix):
                for below in page.get("CommonPrefixes", ()):
                    found.setdefault(
                        below["Prefix"][len(prefix) : -1], ObjectStatus(directory=True)
                    )
                    nothing = False
                for entry in page.get("Contents", ()):
                    # An object with the name of the prefix stands for a directory.
                    found[entry["Key"][len(prefix) :]] = _status(entry["Size"], entry)
                    nothing = False
        if nothing and key:
            raise FileNotFoundError(errno.ENOENT, _no_key(self._name))
        return [ListedName(name, status) for name, status in found.items() if name not in ("", ".")]

    def read(self, key: str, position: int, length: int, expected: ObjectStatus) -> bytes:
        """Return ``length`` bytes of the object ``key`` from ``position`` on, in one request.

        The request is for the object with the ``expected`` status alone: ESTALE if it was replaced.
        """
        conditions = {"IfMatch": expected.version} if expected.version else {}
        for attempt in range(ATTEMPTS, 0, -1):
            with self._explain():
                answer = self._client.get_object(
                    Bucket=self._name,
                    Key=key,
                    Range=f"bytes={position}-{position + length - 1}",
                    **conditions,
                )
                # Not every store of this kind knows the condition.
                total = answer.get("ContentRange", "").rpartition("/")[2]
                size = int(total) if total.isdecimal() else answer["ContentLength"]
                if _status(size, answer) != expected:
                    answer["Body"].close()
                    raise OSError(errno.ESTALE, REPLACED)
                try:
                    # The library repeats requests, but not the reading of an answer that broke off.
                    data: bytes = answer["Body"].read()
                except _NO_ANSWER:
                    if attempt == 1:
                        raise
                    continue
                return data
        raise AssertionError

    def _pages(self, prefix: str) -> Iterator[dict[str, Any]]:
        pages = self._client.get_paginator("list_objects_v2")
        yield from pages.paginate(Bucket=self._name, Prefix=prefix, Delimiter="/")

    def _explain(self) -> _explained:
        return _explained(self._name, self._endpoint)


def _status(size: int, found: dict[str, Any]) -> ObjectStatus:
    modified: datetime = found["LastModified"]
    # Listings of some stores have fractions of a second, the header of an answer has none.
    return ObjectStatus(
        False, size, int(modified.timestamp()) * 1_000_000_000, found.get("ETag", "")
    )


class _explained:
    """A block whose errors of botocore become an OSError that says what to do."""

    def __init__(self, bucket: str, endpoint: str) -> None:
        self._bucket, self._endpoint = bucket, endpoint

    def __enter__(self) -> None:
        return

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, failures.ClientError):
            raise self._refusal(error.response) from error
        if isinstance(error, _NO_CREDENTIALS):
            raise OSError(
                errno.EACCES,
                f"expected credentials for {self._endpoint}, found none that can be used "
                f"({_line(error)}): set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                "AWS_PROFILE, or add anonymous=true to the address",
            ) from error
        if isinstance(error, _NO_ANSWER):
            silent = isinstance(error, failures.ReadTimeoutError)
            raise OSError(
                errno.ETIMEDOUT if silent else errno.EHOSTUNREACH,
                f"expected an answer from {self._endpoint}, found none in {ATTEMPTS} attempts "
                f"({_line(error)}): check the network and the endpoint",
            ) from error
        if isinstance(error, failures.BotoCoreError):
            raise OSError(errno.EIO, _line(error)) from error

    def _refusal(self, response: dict[str, Any]) -> OSError:
        """Return the error for an answer of the store that is no success."""
        code = str(response.get("Error", {}).get("Code", ""))
        status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        text = _line(response.get("Error", {}).get("Message", ""))
        if code == "NoSuchBucket":
            return OSError(
                errno.ENXIO,
                f"expected the bucket {self._bucket} at {self._endpoint}, found none of that name: "
                "check the name of the bucket, and endpoint_override or AWS_ENDPOINT_URL",
            )
        if code in _REPLACED:
            return OSError(errno.ESTALE, REPLACED)
        if code in _MISSING:
            return OSError(errno.ENOENT, _no_key(self._bucket))
        if code == "InvalidObjectState":
            return OSError(
                errno.EIO,
                "expected an object that can be read, found one in an archive: restore it first",
            )
        if status in (401, 403) or code in _DENIED:
            return OSError(
                errno.EACCES,
                f"expected the right to read the bucket {self._bucket}, found a refusal "
                f"({status} {code}{': ' if text else ''}{text}): the credentials need "
                "s3:ListBucket on the bucket and s3:GetObject on its objects",
            )
        attempts = f" in {ATTEMPTS} attempts" if status >= 500 or status == 429 else ""
        return OSError(
            errno.EIO,
            f"expected an answer with data from {self._endpoint}, found {status} {code}"
            f"{': ' if text else ''}{text}{attempts}: the store has a problem, or is asked too "
            "often: run the command again later, or with fewer --jobs",
        )


def _no_key(bucket: str) -> str:
    return (
        f"expected an object, or objects below a prefix of that name, found none in the bucket "
        f"{bucket}: check the name"
    )


def _line(text: object) -> str:
    return " ".join(str(text).split())
