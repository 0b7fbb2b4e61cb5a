"""Rebalancing: key groups on nodes, moved while a job runs."""
