"""Finds the skew in Spark's event logs: what it cost, and the one change that helps. Needs neither Spark nor Java."""
