"""State partitions of a running stream that move between executors: :class:`saltwise.StateBalancer`."""
