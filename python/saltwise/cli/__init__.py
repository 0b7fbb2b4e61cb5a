"""The command ``saltwise``."""
