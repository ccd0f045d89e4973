"""Vitrail: from a folder of pictures to a Vision Transformer you can trust, explain and ship."""

__version__ = "0.1.0"
