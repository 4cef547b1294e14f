"""Self-attention in a few lines each: with its mask, beside a cache, and the test that shows which token moves what."""

import torch

from utils.masks import create_causal_mask


def self_attention(x, attend, is_token):
    """Let every token look at itself and at the tokens before it, and never at padding.

    Built in lesson 05.

    Args:
        x: (B, T, d_model), one sequence a sample.
        attend: function (query, key, value, mask) -> output, weights, as a `MultiHeadAttention` is called.
        is_token: boolean (B, T), True where there is a token and no padding.

    Returns:
        output (B, T, d_model) and weights (B, H, T, T), as `attend` gives them.
    """
    mask = create_causal_mask(x.size(1), device=x.device) & is_token.unsqueeze(1)  # (T, T) & (B, 1, T)
    return attend(x, x, x, mask)


def cached_causal_mask(new, cached):
    """The causal mask of tokens that come after others whose keys and values are cached.

    Built in lesson 05.

    Args:
        new: number of tokens that ask.
        cached: number of tokens before them.

    Returns:
        Boolean (new, cached + new), True where a new token may attend: to all cached ones, and to the new ones up to
        itself.
    """
    return create_causal_mask(new, cached + new)


def outputs_that_move(model, x):
    """Change one token after the other and see which outputs of a model change.

    Built in lesson 05. The change is random, another one for each feature, so that a network can see it: a layer norm
    takes away a number that is added to all features, LN(x + c) = LN(x), and a model may read some features alone. An
    entry that is True is proved; one that is False is evidence, for this x and this change.

    Args:
        model: function (1, T, d) -> (1, T, d).
        x: (1, T, d).

    Returns:
        Boolean (T, T); entry [t, i] is True where output t changes, in any bit, when token i alone is changed.
    """
    before = model(x)
    moved = torch.zeros(x.size(1), x.size(1), dtype=torch.bool, device=x.device)
    for i in range(x.size(1)):
        changed = x.clone()
        changed[:, i] += torch.randn_like(changed[:, i])
        moved[:, i] = (model(changed) != before)[0].any(dim=-1)  # over the features of each output
    return moved


def causal_block(x, attend):
    """Normalise every token by itself, attend causally, and add what was found to the input.

    Built in lesson 05.

    Args:
        x: (B, T, d_model).
        attend: function (normed (B, T, d_model), mask (T, T)) -> (B, T, d_model).

    Returns:
        (B, T, d_model).
    """
    mean, std = x.mean(dim=-1, keepdim=True), x.std(dim=-1, keepdim=True)  # (B, T, 1)
    normed = (x - mean) / (std + 1e-5)
    mask = create_causal_mask(x.size(1), device=x.device)
    return x + attend(normed, mask)
