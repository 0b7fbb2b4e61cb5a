"""Splitting: one key on several workers, merged later. Only for aggregates that merge."""
