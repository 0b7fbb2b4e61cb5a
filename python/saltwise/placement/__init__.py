"""Placement: one key on one chosen worker. For every group, also those that may not be split."""
