"""The rows of the table of messages, by subject.

answers         Answers that several messages share.
system          Errors of the operating system: full or failed file systems, Windows, limits.
directories     Messages about log directories as a whole, mostly at a start.
segments        Messages about segments during loading, recovery and serving.
indexes         Messages about offset, time and transaction indexes and producer snapshots.
small_files     Messages about checkpoints, ``partition.metadata`` and ``meta.properties``.
replicas        Messages about replicas: fetches, truncation, moves between directories.
coordinators    Messages about the partitions of coordinators: what was read when the broker became
                the leader.
serving         Messages of a running broker: appends, fetches, cleaning, retention, disk errors.
metadata        Messages about the metadata log, its snapshots and ``quorum-state``.
quorum          Messages about the voters of the metadata quorum, and its states.
fetch_errors    Errors with which a leader answers the fetch of a follower, by their exceptions.
older_logs      Messages about files of logs that only brokers before 3.0 log.
older_replicas  Messages about replicas that only brokers before 3.0 log.
clients         Messages of clients: librdkafka, sarama, the Python clients, and Java's consumer.
elsewhere       Frequent messages that do not concern log directories.
refusals        Exceptions whose cause is not a disk: refused requests, other services.
findings        Messages whose answer is that of the finding that leads to them.
"""
