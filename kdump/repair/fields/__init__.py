"""Fields of batches that no checksum covers, set to the value that the log leaves them.

wrong_fields  wrong_fields(): base offsets, sizes, magics and leader epochs of which the log leaves
              one value.
same_bytes    SameBytes: the batches that replicas have in the place of a batch with wrong fields.
plan          plan_fields(): logs whose wrong fields have the values that are left for them.
"""
