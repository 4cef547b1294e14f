"""Interactive figures: `explorer.py` is the one way to show one; each lesson's stand in a file of their own."""

from utils.explorers.explorer import Explorer

__all__ = ["Explorer"]
