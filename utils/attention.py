"""The attention functions of the course, each built step by step in a lesson."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from utils.checks import (
    check_divisible,
    check_floating,
    check_head_mask,
    check_mask,
    check_operands,
    check_sequences,
)


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
    weights_shape = check_operands(Q, K, V)
    # Scaled before the product rather than after: in float16, q.k can overflow where q.k / sqrt(d_k) does not.
    scores = (Q / math.sqrt(Q.size(-1))) @ K.transpose(-2, -1)  # (..., T_q, T_k)
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        blocked = ~check_mask(mask, weights_shape)
        # The lowest finite number, not -inf: a row that is blocked throughout then has a softmax,
        # and neither it nor its gradient is ever NaN. The last line makes blocked weights exactly 0.
        scores = scores.masked_fill(blocked, torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1).masked_fill(blocked, 0.0)
    return weights @ V, weights


def split_heads(x, num_heads):
    """Give every head its share of the features of every token.

    Built in lesson 04.

    Args:
        x: (B, T, d_model).
        num_heads: H, a divisor of d_model.

    Returns:
        (B, H, T, d_k) with d_k = d_model / H; head h holds the features from h d_k up to (h + 1) d_k of each token.
    """
    B, T, d_model = x.shape
    return x.view(B, T, num_heads, d_model // num_heads).transpose(1, 2)


def merge_heads(heads):
    """Put what the heads found for a token side by side again: the inverse of `split_heads`.

    Built in lesson 04.

    Args:
        heads: (B, H, T, d_k).

    Returns:
        (B, T, H d_k).
    """
    B, H, T, d_k = heads.shape
    return heads.transpose(1, 2).reshape(B, T, H * d_k)


class MultiHeadAttention(nn.Module):
    """Concat(head_1, ..., head_H) W_o, where head_h is the attention of its own shares of W_q q, W_k k and W_v v.

    Built in lesson 04. Source: Vaswani et al. 2017, Attention Is All You Need, section 3.2.2.

    Args:
        d_model: features of a token, in and out.
        num_heads: H, a divisor of d_model; each head works with d_k = d_model / H features.
        dropout: share of the weights that are set to 0 in training.

    Raises:
        TypeError, ValueError: sizes that are not positive integers, d_model not divisible by num_heads, or a dropout
            outside of 0 to 1.
    """

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        check_divisible(d_model, num_heads)
        if not 0.0 <= dropout <= 1.0:
            raise ValueError(f"dropout={dropout}; expected a share from 0 to 1")
        self.num_heads, self.dropout = num_heads, dropout
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask=None, need_weights=True):
        """Attend from the positions of one sequence to those of another, or of the same one.

        Args:
            query: (B, T_q, d_model).
            key, value: (B, T_k, d_model).
            mask: True (or 1) where a query may attend to a key; (T_q, T_k), (B, T_q, T_k) or (B, H, T_q, T_k), with
                size-1 dimensions shared, such as the padding mask (B, 1, T_k).
            need_weights: whether the weights are returned; without them the same output is computed faster.

        Returns:
            output: (B, T_q, d_model).
            weights: (B, H, T_q, T_k), those before dropout, so each row sums to 1, or is all zero where a query may
                attend to nothing; None without `need_weights`.

        Raises:
            TypeError: an argument is not a tensor, or not of the dtype of the module's weights.
            ValueError: shapes that do not fit together, or a mask that is neither boolean nor 0 and 1.
        """
        check_sequences(query, key, value, self.W_q.weight)
        if mask is not None:
            mask = check_head_mask(mask, query.size(0), self.num_heads, query.size(1), key.size(1))
        K, V = self.keys_and_values(key, value)
        return self.attend(query, K, V, mask, need_weights)

    def keys_and_values(self, key, value):
        """The keys and values of all heads, (B, H, T_k, d_k) each: computed once, they can be attended to many times.

        Built in lesson 05.
        """
        return self.split_heads(self.W_k(key)), self.split_heads(self.W_v(value))

    def attend(self, query, K, V, mask=None, need_weights=True):
        """As `forward`, to the keys and values that `keys_and_values` gave; of its checks, only that of the mask."""
        if mask is not None:
            mask = check_head_mask(mask, query.size(0), self.num_heads, query.size(1), K.size(2))
        Q = self.split_heads(self.W_q(query))  # (B, H, T_q, d_k)
        dropout = self.dropout if self.training else 0.0
        attend = _attend_heads if need_weights else _attend_heads_fused
        heads, weights = attend(Q, K, V, mask, dropout)  # (B, H, T_q, d_k)
        return self.W_o(self.merge_heads(heads)), weights

    def split_heads(self, x):
        """(B, T, d_model) -> (B, H, T, d_k), by `split_heads`."""
        return split_heads(x, self.num_heads)

    def merge_heads(self, heads):
        """(B, H, T, d_k) -> (B, T, d_model), by `merge_heads`."""
        return merge_heads(heads)

    def extra_repr(self):
        return f"num_heads={self.num_heads}, dropout={self.dropout}"


def _attend_heads(Q, K, V, mask, dropout):
    """`scaled_dot_product_attention`, with dropout, and its mask as one addition to the scores instead of two fills."""
    scores = (Q / math.sqrt(Q.size(-1))) @ K.transpose(-2, -1)  # (B, H, T_q, T_k)
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        bias, empty = _additive(mask, scores.dtype)
        if scores.dtype == torch.float16:  # where a score may have overflowed, and inf + -inf is NaN
            scores = scores.masked_fill(~mask, 0.0)
        weights = torch.softmax(scores.add_(bias), dim=-1)  # in place: no gradient needs the scores before
        if empty.any():
            weights = weights.masked_fill(empty, 0.0)
    return F.dropout(weights, dropout) @ V, weights


def _attend_heads_fused(Q, K, V, mask, dropout):
    """The same output by torch's own kernel, which keeps no weights."""
    if mask is None:
        return F.scaled_dot_product_attention(Q, K, V, dropout_p=dropout), None
    bias, empty = _additive(mask, Q.dtype)
    heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=bias, dropout_p=dropout)
    return heads.masked_fill(empty, 0.0), None


def _additive(mask, dtype):
    """What a mask adds to the scores, 0 or -inf, and which rows are empty: those get 0, so their softmax exists."""
    empty = ~mask.any(dim=-1, keepdim=True)  # (..., T_q, 1)
    zero = torch.zeros((), dtype=dtype, device=mask.device)
    return torch.where(mask | empty, zero, zero - math.inf), empty


def additive_attention(query, keys, W_q, W_k, v):
    """Attend from one query a sample by the score v . tanh(W_q q + W_k k); `AdditiveAttention` for one decoder step.

    Built in lesson 02. Source: Bahdanau et al. 2015, appendix A.1.2.

    Args:
        query: (B, query_dim).
        keys: (B, T_k, key_dim).
        W_q: (hidden_dim, query_dim).
        W_k: (hidden_dim, key_dim).
        v: (hidden_dim,).

    Returns:
        context: (B, key_dim), the average of the keys by weight.
        weights: (B, T_k). Each row sums to 1.
    """
    hidden = torch.tanh((query @ W_q.T).unsqueeze(1) + keys @ W_k.T)  # (B, 1, hidden) + (B, T_k, hidden)
    weights = torch.softmax(hidden @ v, dim=-1)  # (B, T_k)
    context = (weights.unsqueeze(1) @ keys).squeeze(1)  # (B, 1, T_k) @ (B, T_k, key_dim)
    return context, weights


def luong_score(query, keys, score, W=None, v=None):
    """How well one query a sample fits each key, by one of the three scores of Luong et al. 2015, section 3.1.

    Built in lesson 02; `LuongAttention` for one decoder step.

    Args:
        query: (B, query_dim).
        keys: (B, T_k, key_dim).
        score: "dot", q . k; "general", q . (W k); or "concat", v . tanh(W [q; k]).
        W: (query_dim, key_dim) for "general"; (hidden_dim, query_dim + key_dim) for "concat".
        v: (hidden_dim,), for "concat".

    Returns:
        (B, T_k).
    """
    if score == "concat":
        pairs = torch.cat([query.unsqueeze(1).expand(-1, keys.size(1), -1), keys], dim=-1)
        return torch.tanh(pairs @ W.T) @ v
    projected = keys if score == "dot" else keys @ W.T  # (B, T_k, query_dim)
    return (projected @ query.unsqueeze(-1)).squeeze(-1)


def align(scores, keys, lengths):
    """Turn scores into weights over the words of each sentence, none on its padding, and average the keys.

    Built in lesson 02.

    Args:
        scores: (B, T_k).
        keys: (B, T_k, key_dim).
        lengths: (B,), how many keys of each sample are words; padding comes after them.

    Returns:
        context: (B, key_dim).
        weights: (B, T_k), zero at padding. Each row sums to 1.
    """
    is_word = torch.arange(scores.size(1), device=scores.device) < lengths.unsqueeze(1)  # (B, T_k)
    weights = _masked_softmax(scores, is_word)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


class AdditiveAttention(nn.Module):
    """score = v . tanh(W_q q + W_k k), then softmax and a weighted average of the values.

    Built in lesson 02. Source: Bahdanau et al. 2015, Neural Machine Translation by Jointly Learning to Align and
    Translate, appendix A.1.2.

    Args:
        query_dim, key_dim: features of a query and of a key.
        hidden_dim: features of the space in which the two are added.
    """

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.W_q = nn.Linear(query_dim, hidden_dim, bias=False)
        self.W_k = nn.Linear(key_dim, hidden_dim, bias=False)
        self.v = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, query, keys, values=None, mask=None):
        """Attend from one query a sample, (B, query_dim), or from several, (B, T_q, query_dim).

        Args:
            query: (B, query_dim) or (B, T_q, query_dim).
            keys: (B, T_k, key_dim).
            values: (B, T_k, d_v); the keys themselves when left out.
            mask: True where a query may attend to a key; (B, T_q, T_k) with size-1 dimensions shared, such as
                the padding mask (B, 1, T_k).

        Returns:
            context: (B, d_v) or (B, T_q, d_v), as the query came.
            weights: (B, T_k) or (B, T_q, T_k).

        Raises:
            TypeError: an argument is not a tensor, or not floating point.
            ValueError: shapes that do not fit together, or a mask that is neither boolean nor 0 and 1.
        """
        return _attend(self._scores, query, keys, values, mask, self.W_q.in_features, self.W_k.in_features)

    def _scores(self, query, keys):
        summed = self.W_q(query).unsqueeze(2) + self.W_k(keys).unsqueeze(1)  # (B, T_q, T_k, hidden_dim)
        return self.v(torch.tanh(summed)).squeeze(-1)


class LuongAttention(nn.Module):
    """One of the three scores of Luong et al. 2015, then softmax and a weighted average of the values.

    dot: q . k; general: q . (W k); concat: v . tanh(W [q; k]). Built in lesson 02. Source: Luong et al. 2015,
    Effective Approaches to Attention-based Neural Machine Translation, section 3.1.

    Args:
        query_dim, key_dim: features of a query and of a key; equal for "dot".
        score: "dot", "general" or "concat".
        hidden_dim: for "concat", the features inside the tanh; `query_dim` when left out.

    Raises:
        ValueError: an unknown score, or "dot" with unequal sizes.
    """

    def __init__(self, query_dim, key_dim, score="dot", hidden_dim=None):
        super().__init__()
        if score not in ("dot", "general", "concat"):
            raise ValueError(f"score={score!r}; expected 'dot', 'general' or 'concat'")
        if score == "dot" and query_dim != key_dim:
            raise ValueError(
                f"score='dot' with query_dim={query_dim} and key_dim={key_dim}; a dot product needs equal sizes, "
                "score='general' does not"
            )
        self.query_dim, self.key_dim, self.score = query_dim, key_dim, score
        if score == "general":
            self.W = nn.Linear(key_dim, query_dim, bias=False)
        elif score == "concat":
            hidden_dim = query_dim if hidden_dim is None else hidden_dim
            self.W = nn.Linear(query_dim + key_dim, hidden_dim, bias=False)
            self.v = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, query, keys, values=None, mask=None):
        """As `AdditiveAttention.forward`."""
        return _attend(self._scores, query, keys, values, mask, self.query_dim, self.key_dim)

    def _scores(self, query, keys):
        if self.score == "dot":
            return query @ keys.transpose(-2, -1)  # (B, T_q, T_k)
        if self.score == "general":
            return query @ self.W(keys).transpose(-2, -1)
        # W [q; k] without building every pair: the part of W for q, times q, plus the part for k, times k.
        for_query, for_key = self.W.weight.split([self.query_dim, self.key_dim], dim=1)
        summed = F.linear(query, for_query).unsqueeze(2) + F.linear(keys, for_key).unsqueeze(1)
        return self.v(torch.tanh(summed)).squeeze(-1)


def _attend(score, query, keys, values, mask, query_dim, key_dim):
    """What the recurrent attentions share: checks, scores, mask, softmax and average, for one query or several."""
    values = keys if values is None else values
    for name, tensor in (("query", query), ("keys", keys), ("values", values)):
        check_floating(name, tensor)
    if query.dim() not in (2, 3) or query.size(-1) != query_dim:
        raise ValueError(f"query has shape {tuple(query.shape)}; expected (B, {query_dim}) or (B, T_q, {query_dim})")
    if keys.dim() != 3 or keys.size(-1) != key_dim:
        raise ValueError(f"keys has shape {tuple(keys.shape)}; expected (B, T_k, {key_dim})")
    if values.dim() != 3 or values.shape[:2] != keys.shape[:2]:
        raise ValueError(
            f"values has shape {tuple(values.shape)}; expected (B, T_k, d_v) = {tuple(keys.shape[:2])} + d_v"
        )
    if query.size(0) != keys.size(0):
        raise ValueError(f"query has {query.size(0)} samples but keys has {keys.size(0)}")
    queries = query.unsqueeze(1) if query.dim() == 2 else query  # (B, T_q, query_dim)
    scores = score(queries, keys)
    weights = _masked_softmax(scores, None if mask is None else check_mask(mask, tuple(scores.shape)))
    context = weights @ values
    return (context.squeeze(1), weights.squeeze(1)) if query.dim() == 2 else (context, weights)


def _masked_softmax(scores, mask):
    """Softmax over the keys that a boolean mask allows, as in `scaled_dot_product_attention`."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, dim=-1).masked_fill(~mask, 0.0)
