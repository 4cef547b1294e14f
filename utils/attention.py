"""The attention functions of the course, each built step by step in a lesson."""

import math

import torch

from utils.masks import to_boolean_mask


def scaled_dot_product_attention(Q, K, V, mask=None):
    """softmax(Q K^T / sqrt(d_k)) V: every query takes a weighted average of the values.

    Built in lesson 03. Source: Vaswani et al. 2017, Attention Is All You Need, equation 1.

    Args:
        Q: queries (..., T_q, d_k), floating point.
        K: keys (..., T_k, d_k).
        V: values (..., T_k, d_v). Leading dimensions are any number, and broadcast.
        mask: True (or 1) where a query may attend to a key; (T_q, T_k), or as many dimensions as the
            weights have, each of size 1 or the full size.

    Returns:
        output: (..., T_q, d_v), in the dtype of Q. Computed in that dtype too: in float16 a scaled score beyond
            65504 overflows.
        weights: (..., T_q, T_k). Each row sums to 1, or is all zero where a query may attend to nothing.

    Raises:
        TypeError: an argument is not a tensor, not floating point, or not of the dtype of the others.
        ValueError: shapes that do not fit together, or a mask that is neither boolean nor 0 and 1.
    """
    weights_shape = _check_operands(Q, K, V)
    # Scaled before the product rather than after: in float16, q.k can overflow where q.k / sqrt(d_k) does not.
    scores = (Q / math.sqrt(Q.size(-1))) @ K.transpose(-2, -1)  # (..., T_q, T_k)
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        blocked = ~_check_mask(mask, weights_shape)
        # The lowest finite number, not -inf: a row that is blocked throughout then has a softmax,
        # and neither it nor its gradient is ever NaN. The last line makes blocked weights exactly 0.
        scores = scores.masked_fill(blocked, torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1).masked_fill(blocked, 0.0)
    return weights @ V, weights


def _check_operands(Q, K, V):
    """The shape that the weights will have; a plain error where Q, K and V do not fit together."""
    for name, tensor in (("Q", Q), ("K", K), ("V", V)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} is a {type(tensor).__name__}; expected a torch.Tensor")
        if not tensor.is_floating_point():
            raise TypeError(f"{name} holds {tensor.dtype}; floating point expected, as in {name}.float()")
        if tensor.dtype != Q.dtype:
            raise TypeError(f"{name} holds {tensor.dtype} but Q holds {Q.dtype}; expected one dtype")
        if tensor.dim() < 2:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected (..., positions, features)")
    if Q.size(-1) != K.size(-1):
        raise ValueError(
            f"Q has d_k={Q.size(-1)} (shape {tuple(Q.shape)}) but K has d_k={K.size(-1)} "
            f"(shape {tuple(K.shape)}); a query and a key need the same number of features"
        )
    if Q.size(-1) == 0:
        raise ValueError(f"Q has shape {tuple(Q.shape)}, so d_k=0; expected at least one feature")
    if K.size(-2) != V.size(-2):
        raise ValueError(
            f"K has {K.size(-2)} positions but V has {V.size(-2)} (shapes {tuple(K.shape)} and "
            f"{tuple(V.shape)}); every key needs its value"
        )
    try:
        leading = torch.broadcast_shapes(Q.shape[:-2], K.shape[:-2])
        torch.broadcast_shapes(leading, V.shape[:-2])
    except RuntimeError:
        raise ValueError(
            f"the leading dimensions of Q {tuple(Q.shape)}, K {tuple(K.shape)} and V {tuple(V.shape)} "
            "do not fit together; expected the same ones, or 1"
        ) from None
    return (*leading, Q.size(-2), K.size(-2))


def _check_mask(mask, weights_shape):
    """The boolean mask, once its shape is known to fit the weights in one way only."""
    mask = to_boolean_mask(mask)
    wanted = weights_shape[-2:] if mask.dim() == 2 else weights_shape
    # A mask with fewer leading dimensions than the weights is refused: broadcasting would align its
    # batch with the heads, and where both have the same size nobody would notice.
    fits = mask.dim() == len(wanted) and all(size in (1, full) for size, full in zip(mask.shape, wanted, strict=True))
    if not fits:
        either = "" if len(weights_shape) == 2 else f" or {tuple(weights_shape[-2:])}, the same for all"
        raise ValueError(
            f"mask has shape {tuple(mask.shape)}; expected {tuple(weights_shape)}{either}, "
            "with 1 for a dimension that is shared"
        )
    return mask
