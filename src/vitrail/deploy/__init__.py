"""Shipping a model: other formats and engines, proven equal; smaller and faster ones, measured."""
