"""Fields of batches that no checksum covers, set to the value that the log leaves them.

wrong_fields  wrong_fields(): base offsets, sizes, magics and leader epochs of which the log leaves
              one value.
same_bytes    SameBytes: the batch that all replicas have between the same neighbours.
plan          plan_fields(): logs whose wrong fields have the values that are left for them.
"""
