"""The objects of a store."""

from __future__ import annotations

from support.object_stores import Bucket


def objects(bucket: Bucket, prefix: str) -> dict[str, bytes]:
    """What is below a prefix, by the rest of the key; without what stands for a directory."""
    client = bucket.server.client
    listed = client.list_objects_v2(Bucket=bucket.name, Prefix=f"{prefix}/").get("Contents", [])
    return {
        one["Key"].removeprefix(f"{prefix}/"): client.get_object(
            Bucket=bucket.name, Key=one["Key"]
        )["Body"].read()
        for one in listed
        if not one["Key"].endswith("/")
    }
