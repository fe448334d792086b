"""A streaming query of its own process, which tests kill: ``stream_query.py PATH WORK TRIGGER``,
and maybe the pattern of topics and the most offsets of a batch.

It writes the rows of each batch to a file of ``WORK``/batches by the number of the batch, so that a
batch that runs again replaces what it wrote. TRIGGER is ``now`` for what is available, or
``always``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame

from kdump.fleet.datasource import register
from kdump.fleet.session.session import Cluster, open_session

COLUMNS = ("topic", "partition", "offset", "sha2(value, 256)")


def main(path: str, work: Path, trigger: str, topics: str = "^writing", most: str = "5000") -> None:
    batches = work / "batches"
    batches.mkdir(parents=True, exist_ok=True)

    def write(frame: DataFrame, number: int) -> None:
        rows = [list(row) for row in frame.selectExpr(*COLUMNS).collect()]
        text, file = json.dumps(rows), batches / f"{number}.json"
        if file.exists() and sorted(json.loads(file.read_text())) != sorted(rows):
            (work / "differs").write_text(f"batch {number} has other rows than before")
        part = file.with_suffix(".part")
        part.write_text(text)
        os.replace(part, file)

    with open_session(Cluster(master="local[2]")) as session:
        register(session.spark)
        stream = session.spark.readStream.format("kdump").options(
            schema="kafka", path=path, subscribePattern=topics
        )
        writer = (
            stream.option("maxOffsetsPerTrigger", most)
            .load()
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", str(work / "checkpoint"))
        )
        chosen = (
            writer.trigger(availableNow=True)
            if trigger == "now"
            else writer.trigger(processingTime="200 milliseconds")
        )
        chosen.start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
