"""What each worker of a query received: the public face of :mod:`saltwise.spark.loads`."""

from .spark.loads import WorkerLoads, worker_loads

__all__ = ["WorkerLoads", "worker_loads"]
