"""Sketches that find the frequent keys of a stream in bounded memory."""
