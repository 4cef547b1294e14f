"""Attention from one sequence to another in a few lines: with the mask of its source."""


def cross_attention(x, memory, attend, is_target, is_source):
    """Let every token of the target look at the whole source, and never at its padding.

    Built in lesson 06.

    Args:
        x: (B, T, d_model), the target's tokens, which ask.
        memory: (B, S, d_model), the source's tokens as the encoder gives them, which answer.
        attend: function (query, key, value, mask) -> output, weights, as a `MultiHeadAttention` is called.
        is_target: boolean (B, T), True where the target has a token; not needed, as padding is blocked as a key only.
        is_source: boolean (B, S), True where the source has a token and no padding.

    Returns:
        output (B, T, d_model) and weights (B, H, T, S), as `attend` gives them.
    """
    return attend(x, memory, memory, is_source.unsqueeze(1))  # the mask: (B, 1, S), the same for all queries
