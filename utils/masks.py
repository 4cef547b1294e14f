"""Masks: which key each query may attend to. True (or 1) means *may attend*. Built in lesson 03."""

from numbers import Integral

import torch


def create_causal_mask(query_len, key_len=None, device=None):
    """The mask that keeps a position from seeing what comes after it.

    The mask is aligned at the bottom right: the last query is taken to stand at the last key. One new
    query against a cache of keys, `create_causal_mask(1, key_len)`, therefore sees them all.

    Args:
        query_len: number of queries, T_q.
        key_len: number of keys, T_k; the same as `query_len` when left out.
        device: where the mask is made.

    Returns:
        Boolean tensor (T_q, T_k), True where query i may attend to key j. When T_q > T_k, the first
        T_q - T_k queries have nothing to attend to.

    Raises:
        TypeError: a length is not an integer.
        ValueError: a length is negative.
    """
    key_len = query_len if key_len is None else key_len
    for name, length in (("query_len", query_len), ("key_len", key_len)):
        if not isinstance(length, Integral) or isinstance(length, bool):
            raise TypeError(f"{name}={length!r} is a {type(length).__name__}; expected an integer")
        if length < 0:
            raise ValueError(f"{name}={length} is negative; expected a number of positions")
    every_pair = torch.ones(query_len, key_len, dtype=torch.bool, device=device)
    return every_pair.tril(diagonal=key_len - query_len)


def create_padding_mask(token_ids, pad_id=0):
    """The mask that keeps every query from attending to padding.

    Only keys are blocked. What a padding token itself attends to does no harm, because nobody reads
    its output; blocking its row as well would leave it nothing to attend to.

    Args:
        token_ids: integer tensor (B, T_k), the tokens that serve as keys.
        pad_id: the id that marks padding.

    Returns:
        Boolean tensor (B, 1, T_k), True at real tokens. The 1 broadcasts over queries.

    Raises:
        TypeError: `token_ids` is not an integer tensor, or `pad_id` no integer.
        ValueError: `token_ids` is not two-dimensional.
    """
    if not isinstance(token_ids, torch.Tensor):
        raise TypeError(f"token_ids is a {type(token_ids).__name__}; expected a torch.Tensor")
    if token_ids.is_floating_point() or token_ids.is_complex() or token_ids.dtype == torch.bool:
        raise TypeError(f"token_ids holds {token_ids.dtype}; expected integer token ids")
    if token_ids.dim() != 2:
        raise ValueError(f"token_ids has shape {tuple(token_ids.shape)}; expected (B, T_k)")
    if not isinstance(pad_id, Integral) or isinstance(pad_id, bool):
        raise TypeError(f"pad_id={pad_id!r} is a {type(pad_id).__name__}; expected an integer, the id of the padding")
    # In a narrow type such as uint8 an id like -100 would wrap around and become a token's.
    return (token_ids.long() != pad_id).unsqueeze(1)  # (B, 1, T_k)


def to_boolean_mask(mask):
    """Turn a mask of 0 and 1, of any dtype, into the boolean mask it stands for.

    Args:
        mask: tensor of any shape: boolean, or integer or float holding only 0 and 1.

    Returns:
        Boolean tensor of the same shape; `mask` itself when it is boolean already.

    Raises:
        TypeError: `mask` is not a tensor.
        ValueError: `mask` holds anything but 0 and 1, as an additive mask does (0 and -inf).
    """
    if not isinstance(mask, torch.Tensor):
        raise TypeError(f"mask is a {type(mask).__name__}; expected a torch.Tensor")
    if mask.dtype == torch.bool:
        return mask
    if not ((mask == 0) | (mask == 1)).all():
        raise ValueError(
            f"mask ({mask.dtype}) holds values other than 0 and 1, as an additive mask does; expected "
            "True (or 1) where a query may attend. If 0 means 'may attend' in yours, pass mask == 0"
        )
    return mask.bool()
