"""The version, for the package, the wheel and the jars."""

__version__ = "0.1.0"
