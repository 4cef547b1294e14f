"""Interactive figures: `explorer.py` is the one way to show one; each lesson's stand in a file of their own."""

from utils.explorers.bahdanau_and_luong import predict_the_alignment, translate_your_own
from utils.explorers.cross_attention import step_through_translation
from utils.explorers.explorer import Explorer
from utils.explorers.multi_head import follow_one_number, pick_heads
from utils.explorers.scaled_dot_product import mask_laboratory, one_query_steps, score_scaling
from utils.explorers.self_attention import change_one_token, change_the_adjective
from utils.explorers.seq2seq_bottleneck import translations_by_length

__all__ = [
    "Explorer",
    "change_one_token",
    "change_the_adjective",
    "follow_one_number",
    "mask_laboratory",
    "one_query_steps",
    "pick_heads",
    "predict_the_alignment",
    "score_scaling",
    "step_through_translation",
    "translate_your_own",
    "translations_by_length",
]
