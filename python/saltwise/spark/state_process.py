"""The process that plans moves where `spark.saltwise.state.planner` is set. The plugin starts it beside the driver.

    python -m saltwise.spark.state_process PLANNER MAX_MIGRATION EVERY

It ends with its standard input, which the driver holds open.
"""

from __future__ import annotations

import sys
import threading

from pyspark.java_gateway import launch_gateway

from ..rebalancing.rounds import BY_TRAFFIC
from .steering import Steering, SteeringOptions, follow


def main(planner: str, max_migration: str, every: str) -> None:
    options = SteeringOptions(planner, max_migration, every=int(every))
    streams = launch_gateway().jvm.org.apache.spark.sql.saltwise.state.StateStreams.running()  # type: ignore[no-untyped-call]
    ended = threading.Event()
    threading.Thread(target=_wait_for_the_driver, args=(ended,), daemon=True).start()
    follow(streams, Steering(options), planner in BY_TRAFFIC, lambda run: True, ended)


def _wait_for_the_driver(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


if __name__ == "__main__":
    main(*sys.argv[1:])
