"""Attention to another sequence in a few lines: with its mask, in a decoder's layer, and behind an encoder."""

from utils.masks import create_causal_mask


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


def decoder_layer(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    """Look back along the target, then at the source, then think about it: one layer of a Transformer's decoder.

    Built in lesson 06, where one `norm` serves all three parts; `DecoderBlock` has one of its own for each.

    Args:
        x: (B, T, d_model), the target's tokens.
        memory: (B, S, d_model), the source's tokens as the encoder gives them, normed already.
        is_source: boolean (B, S), True where the source has a token and no padding.
        self_attend, cross_attend: functions (query, key, value, mask) -> output, weights.
        feed_forward, norm: functions (B, T, d_model) -> (B, T, d_model), for every token by itself.

    Returns:
        output (B, T, d_model), and the weights of both attentions, (B, H, T, T) and (B, H, T, S).
    """
    normed = norm(x)
    found, causal_weights = self_attend(normed, normed, normed, create_causal_mask(x.size(1), device=x.device))
    x = x + found
    found, cross_weights = cross_attend(norm(x), memory, memory, is_source.unsqueeze(1))
    x = x + found
    return x + feed_forward(norm(x)), causal_weights, cross_weights


def encode_then_look(x, source, is_source, self_attend, cross_attend):
    """Let the source look at itself, and the target at what that gave; padding is blocked as a key in both.

    Built in lesson 06. One layer of an encoder, left bare: without norm, residual and feed-forward layer.

    Args:
        x: (B, T, d_model), the target's tokens.
        source: (B, S, d_model), the source's tokens.
        is_source: boolean (B, S), True where the source has a token and no padding.
        self_attend, cross_attend: functions (query, key, value, mask) -> output, weights.

    Returns:
        output (B, T, d_model) and weights (B, H, T, S) of the cross-attention.
    """
    memory, _ = self_attend(source, source, source, is_source.unsqueeze(1))
    return cross_attend(x, memory, memory, is_source.unsqueeze(1))
