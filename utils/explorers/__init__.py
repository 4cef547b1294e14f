"""Interactive figures: `explorer.py` is the one way to show one; each lesson's stand in a file of their own."""

from utils.explorers.explorer import Explorer
from utils.explorers.scaled_dot_product import mask_laboratory, one_query_steps, score_scaling

__all__ = ["Explorer", "mask_laboratory", "one_query_steps", "score_scaling"]
