"""Finds skew in Spark's event logs, what it cost, and the one change that helps. It needs neither Spark nor Java."""
