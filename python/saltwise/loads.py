"""What each worker of a query received. The code is in :mod:`saltwise.spark.reports.loads`."""

from .spark.reports.loads import WorkerLoads, worker_loads

__all__ = ["WorkerLoads", "worker_loads"]
