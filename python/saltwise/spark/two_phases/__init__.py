"""Aggregates in two phases with Spark's public functions: rules that merge parts, and routing by ``mapInArrow``."""
