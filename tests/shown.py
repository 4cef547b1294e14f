"""The lessons' explorers on small data of their own, and what can be done with their controls."""

import itertools

import torch

from utils.attention import scaled_dot_product_attention
from utils.explorers import mask_laboratory, one_query_steps, score_scaling

WIDTHS = [4, 16, 64]
TOKENS = ["the", "cat", "sat", "on", "a", "mat"]


def fill(value):
    def weights(Q, K, mask):
        return torch.softmax((Q @ K.T / Q.size(-1) ** 0.5).masked_fill(~mask, value), dim=-1)

    return weights


WAYS = {
    "-inf": fill(float("-inf")),
    "-1e9": fill(-1e9),
    "0": fill(0.0),
    "after": lambda Q, K, mask: torch.softmax(Q @ K.T / Q.size(-1) ** 0.5, dim=-1) * mask,
    "ours": lambda Q, K, mask: scaled_dot_product_attention(Q, K, K, mask)[1],
}


def steps():
    Q = torch.tensor([[2.0, 0.0], [0.0, 3.0]])
    K = torch.tensor([[3.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    V = torch.tensor([[4.0], [8.0], [0.0]])
    return one_query_steps(Q, K, V, ["p", "q"], ["a", "b", "c"], ["f", "g"], ["v"])


def scaling():
    generator = torch.Generator().manual_seed(0)
    queries, keys = torch.randn(50, 64, generator=generator), torch.randn(50, 8, 64, generator=generator)
    return score_scaling(queries, keys, WIDTHS)


def laboratory():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(6, 8, generator=generator)
    return mask_laboratory(X, X, TOKENS, WAYS)


MAKERS = [steps, scaling, laboratory]


def values_of(control):
    """Every value that a control offers."""
    if hasattr(control, "buttons"):
        causal = [[j <= i for j in range(6)] for i in range(6)]
        flipped = [[[c ^ ((i, j) == at) for j, c in enumerate(row)] for i, row in enumerate(causal)]
                   for at in itertools.product(range(6), repeat=2)]  # fmt: skip
        return [tuple(map(tuple, mask)) for mask in flipped]
    return [value for _, value in control.options]


def set_value(control, value):
    """Move a control as a reader would: a grid of buttons by pressing them."""
    if hasattr(control, "buttons"):
        for buttons, row in zip(control.buttons, value, strict=True):
            for button, allowed in zip(buttons, row, strict=True):
                button.value = allowed
    else:
        control.value = value
