"""The code behind *Attention from the root*. What almost every lesson uses can be imported from here.

A name is looked up when it is first asked for, so that `import utils.attention` does not load
matplotlib and ipywidgets.
"""

from importlib import import_module

_HOMES = {
    "scaled_dot_product_attention": "utils.attention",
    "MultiHeadAttention": "utils.attention",
    "create_causal_mask": "utils.masks",
    "create_padding_mask": "utils.masks",
    "plot_attention": "utils.plots",
    "caption": "utils.page",
    "table": "utils.page",
    "set_style": "utils.plots",
    "check": "utils.exercises",
    "hint": "utils.exercises",
    "predict": "utils.exercises",
    "solution": "utils.exercises",
    "use": "utils.exercises",
}
__all__ = list(_HOMES)


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module 'utils' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__():
    return sorted([*globals(), *_HOMES])
