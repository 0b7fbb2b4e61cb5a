"""SQL functions for a session without the plugin, and Aggregators as SQL functions."""
