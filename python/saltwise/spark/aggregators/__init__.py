"""Aggregates in Python that merge: the protocol, its check, and the tasks that run them."""
