"""What the attention functions refuse, each with an error that names the argument, what came and what was wanted."""

from numbers import Integral

import torch

from utils.masks import to_boolean_mask


def check_floating(name, tensor):
    """A plain error unless an argument is a tensor of floating point numbers."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} is a {type(tensor).__name__}; expected a torch.Tensor")
    if not tensor.is_floating_point():
        raise TypeError(f"{name} holds {tensor.dtype}; floating point expected, as in {name}.float()")


def check_token_ids(name, token_ids, vocabulary_size):
    """A plain error unless an argument is a tensor of token ids, each of which has its row in an embedding."""
    if not isinstance(token_ids, torch.Tensor):
        raise TypeError(f"{name} is a {type(token_ids).__name__}; expected a torch.Tensor")
    if token_ids.dtype not in (torch.int64, torch.int32):  # an embedding takes no other
        raise TypeError(f"{name} holds {token_ids.dtype}; expected integer token ids, as in {name}.long()")
    outside = (token_ids < 0) | (token_ids >= vocabulary_size)
    if outside.any():
        raise ValueError(
            f"{name} holds the id {int(token_ids[outside][0])}, but the vocabulary has {vocabulary_size} ids, "
            f"0 to {vocabulary_size - 1}"
        )


def _fits(mask, wanted):
    """Whether each dimension of a mask has size 1 or the full size."""
    return mask.dim() == len(wanted) and all(size in (1, full) for size, full in zip(mask.shape, wanted, strict=True))


def check_operands(Q, K, V):
    """The shape that the weights will have; a plain error where Q, K and V do not fit together."""
    for name, tensor in (("Q", Q), ("K", K), ("V", V)):
        check_floating(name, tensor)
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


def check_mask(mask, weights_shape):
    """The boolean mask, once its shape is known to fit the weights in one way only."""
    mask = to_boolean_mask(mask)
    wanted = weights_shape[-2:] if mask.dim() == 2 else weights_shape
    # A mask with fewer leading dimensions than the weights is refused: broadcasting would align its
    # batch with the heads, and where both have the same size nobody would notice.
    if not _fits(mask, wanted):
        either = "" if len(weights_shape) == 2 else f" or {tuple(weights_shape[-2:])}, the same for all"
        raise ValueError(
            f"mask has shape {tuple(mask.shape)}; expected {tuple(weights_shape)}{either}, "
            "with 1 for a dimension that is shared"
        )
    return mask


def check_divisible(d_model, num_heads):
    """A plain error unless `num_heads` heads can share `d_model` features evenly."""
    for name, number in (("d_model", d_model), ("num_heads", num_heads)):
        if not isinstance(number, Integral) or isinstance(number, bool):
            raise TypeError(f"{name}={number!r} is a {type(number).__name__}; expected an integer")
    if num_heads < 1 or d_model < 1:
        raise ValueError(f"d_model={d_model} and num_heads={num_heads}; expected at least 1 of each")
    if d_model % num_heads:
        raise ValueError(f"d_model={d_model} is not divisible by num_heads={num_heads}; every head takes as many")


def check_sequences(query, key, value, like):
    """A plain error unless query, key and value are (B, T, d_model) and fit together and the weights `like`."""
    d_model = like.size(-1)
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        check_floating(name, tensor)
        # Autocast brings any dtype but float64 to one of its own.
        fixed = torch.float64 in (tensor.dtype, like.dtype)
        if tensor.dtype != like.dtype and (fixed or not torch.is_autocast_enabled(tensor.device.type)):
            raise TypeError(f"{name} holds {tensor.dtype} but the module's weights hold {like.dtype}")
        if tensor.dim() != 3 or tensor.size(-1) != d_model:
            length = "T_q" if name == "query" else "T_k"
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected (B, {length}, d_model={d_model})")
        if tensor.size(0) != query.size(0):
            raise ValueError(f"query has {query.size(0)} samples but {name} has {tensor.size(0)}")
    if key.size(1) != value.size(1):
        raise ValueError(f"key has {key.size(1)} positions but value has {value.size(1)}; every key needs its value")


def check_head_mask(mask, B, H, T_q, T_k):
    """The boolean mask with four dimensions, each of size 1 or the full size, for weights (B, H, T_q, T_k)."""
    mask = to_boolean_mask(mask)
    wanted = {2: (T_q, T_k), 3: (B, T_q, T_k), 4: (B, H, T_q, T_k)}.get(mask.dim(), ())
    if not wanted or not _fits(mask, wanted):
        raise ValueError(
            f"mask has shape {tuple(mask.shape)}; expected (T_q, T_k) = {(T_q, T_k)}, (B, T_q, T_k) = {(B, T_q, T_k)} "
            f"or (B, H, T_q, T_k) = {(B, H, T_q, T_k)}, with 1 for a dimension that is shared"
        )
    return mask.view(1, 1, *mask.shape) if mask.dim() == 2 else mask.unsqueeze(1) if mask.dim() == 3 else mask
