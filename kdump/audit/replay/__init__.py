"""The replay of a partition's segments: producers, transactions, leader epochs.

fates          The fate of transactions whose markers may be lost, with the evidence that decides
               it.
replay         replay(): folds surveys into the state of producers and transactions.
sequences      Sequence numbers of producers across gaps between and inside segments.
stable_offset  The last stable offset of a partition, and the transaction that holds it.
"""
