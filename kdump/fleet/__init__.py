"""The same work on Spark: listing, surveys and judgements as tasks, on any number of hosts.

Spec: none of Kafka's. The only imports of pyspark; and of pyarrow but for object stores.
"""
