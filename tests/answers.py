"""Answers as readers type them: wrong ones with the names that their check must give, and right ones.

Those of lessons 01 and 02 are in `answers_recurrent.py`, those of lessons 04, 05 and 06 in `answers_multi_head.py`,
`answers_self_attention.py` and `answers_cross_attention.py`. None of them is built from the mistake bank of
`utils.exercises`. `ROWS` lists the mistakes that the exercises promise to recognise; each is made here in at least one
way that readers make it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from utils.masks import create_causal_mask, create_padding_mask

ATTENTION_ROWS = {
    "no scaling": ("no scaling",),
    "divided by d_k, not its root": ("divided by d_k",),
    "multiplied by the root": ("multiplied by the root",),
    "root of a length, of d_v, of d_model inside a head": (
        "root of a length",
        "root of d_v",
        "root of d_model inside a head",
    ),
    "scaled after the softmax": ("scaled after the softmax",),
    "softmax over queries / over the batch / over all entries": (
        "softmax over queries",
        "softmax over the batch",
        "softmax over all entries",
    ),
    "no softmax; sigmoid; exp without normalising; hard argmax": (
        "no softmax",
        "sigmoid",
        "exp without normalising",
        "hard argmax",
    ),
    "exp without subtracting the maximum": ("exp without subtracting the maximum",),
    "Q and K swapped; weights transposed before V": ("Q and K swapped", "weights transposed before V"),
    "K or Q used as values": ("K used as values", "Q used as values"),
    "an input changed in place": ("an input changed in place",),
    "sizes hard-coded, `squeeze()` without a dimension": ("sizes hard-coded", "squeeze() without a dimension"),
    "gradient cut (`detach`, numpy)": ("gradient cut by detach", "gradient cut by numpy"),
}
MASK_ROWS = {
    "inverted": ("inverted",),
    "filled with 0, or multiplied": ("filled with 0", "multiplied"),
    "applied after the softmax, not renormalised": ("applied after the softmax",),
    "too small a fill (-10, -1e4)": ("a fill of -10", "a fill of -1e4"),
    "wrong sign": ("wrong sign",),
    "0 times -inf": ("0 times -inf",),
    "fully masked row gives NaN / uniform weights": (
        "fully masked row gives NaN",
        "fully masked row gives uniform weights",
    ),
    "ignored, or computed and thrown away": ("ignored", "computed and thrown away"),
    "transposed": ("transposed",),
    "causal: upper for lower triangle": ("upper for lower triangle",),
    "causal: diagonal left out; one too far": ("diagonal left out", "one too far"),
    "padding on the query axis": ("padding on the query axis",),
    "padding OR causal": ("padding OR causal",),
    "`(B, T_k)` broadcast by accident": ("(B, T_k) broadcast by accident",),
    "boolean added to the scores as a number": ("boolean added to the scores",),
    "-1e9 in half precision": ("-1e9 in half precision",),
}
RECURRENT_ROWS = {  # made in answers_recurrent.py
    "no tanh": ("no tanh",),
    "tanh outside v; no v": ("tanh outside v", "no v"),
    "query tiled over the batch in the wrong order": ("query tiled in the wrong order",),
    "context from the projected states": ("context from the projected states",),
    "W_q and W_k swapped": ("W_q and W_k swapped",),
    "padding attended": ("padding attended",),
    "current state where Bahdanau uses the previous one (and the other way for Luong)": (
        "current state where Bahdanau uses the previous one",
        "previous state where Luong uses the current one",
    ),
    "uniform average; last state only": ("uniform average", "last state only"),
    "a dot product where the additive score was asked, and the reverse": (
        "a dot product where the additive score was asked",
        "the additive score where a dot product was asked",
    ),
}
MULTI_HEAD_ROWS = {  # made in answers_multi_head.py
    "split by `view(B, H, T, d)` without a transpose": ("split by view without a transpose",),
    "merged without a transpose": ("merged without a transpose",),
    "`view` after `transpose`": ("view after transpose",),
    "heads interleaved": ("heads interleaved",),
    "attention over heads (no transpose at all)": ("attention over heads",),
    "no output projection; heads averaged or summed": ("no output projection", "heads averaged", "heads summed"),
    "K or V (or both) from the query's sequence": (
        "K from the query's sequence",
        "V from the query's sequence",
        "K and V from the query's sequence",
    ),
    "scale of d_model; softmax over heads": ("scale of d_model", "softmax over heads"),
    "mask without a head axis, or repeated in the wrong order": (
        "mask without a head axis",
        "mask repeated in the wrong order",
    ),
    "projections in a plain list": ("projections in a plain list",),
}
ROWS = {**ATTENTION_ROWS, **MASK_ROWS, **RECURRENT_ROWS, **MULTI_HEAD_ROWS}


@dataclass(frozen=True)
class Answer:
    """What a reader may hand in.

    Attributes:
        exercise: the id of the exercise.
        function: the answer itself.
        mistakes: the names that the check must give: all of them and no others.
        made: the mistake of `ROWS` that it makes, or None for a right answer and for mistakes beyond the rows.
        status: what the check must say.
    """

    exercise: str
    function: Callable
    mistakes: tuple[str, ...] = ()
    made: str | None = None
    status: str = "diagnosed"


ANSWERS = []
THREE_AT_ONCE = []


def wrong(exercise, *mistakes, made=None):
    """Enter the function below as a wrong answer that is diagnosed as these mistakes."""
    return _enter(exercise, mistakes, made, "diagnosed")


def given_bug(exercise, made=None):
    """Enter the function below as the bug that the reader is to find: wrong, and not named."""
    return _enter(exercise, (), made, "wrong")


def unnamed(exercise):
    """Enter the function below as wrong in a way that the exercises do not know."""
    return _enter(exercise, (), None, "wrong")


def right(exercise, *caveats, made=None):
    """Enter the function below as a right answer; a caveat is what its check still warns of."""
    return _enter(exercise, caveats, made, "correct")


def three(exercise, *mistakes):
    """Enter the function below with its three mistakes; a check may name some of them, and nothing else."""

    def keep(function):
        THREE_AT_ONCE.append(Answer(exercise, function, mistakes))
        return function

    return keep


def _enter(exercise, mistakes, made, status):
    def keep(function):
        ANSWERS.append(Answer(exercise, function, mistakes, made, status))
        return function

    return keep


# ---------------------------------------------------------------- attention: wrong answers


@wrong("attention", "no scaling", made="no scaling")
def plain_dot_products(Q, K, V):
    scores = Q @ K.transpose(-2, -1)
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong("attention", "no scaling", made="no scaling")
def plain_dot_products_with_einsum(Q, K, V):
    scores = torch.einsum("...qd,...kd->...qk", Q, K)
    weights = F.softmax(scores, dim=-1)
    return torch.einsum("...qk,...kv->...qv", weights, V), weights


@wrong("attention", "no scaling", made="no scaling")
def plain_dot_products_one_query_at_a_time(Q, K, V):
    outputs, all_weights = [], []
    for i in range(Q.size(-2)):
        query = Q[..., i, :]
        scores = (query.unsqueeze(-2) * K).sum(dim=-1)
        weights = scores.softmax(dim=-1)
        outputs.append((weights.unsqueeze(-1) * V).sum(dim=-2))
        all_weights.append(weights)
    return torch.stack(outputs, dim=-2), torch.stack(all_weights, dim=-2)


@wrong("attention", "divided by d_k, not by its root", made="divided by d_k")
def divided_by_the_last_size(Q, K, V):
    d_k = Q.shape[-1]
    weights = F.softmax(torch.matmul(Q, K.transpose(-1, -2)) / d_k, dim=-1)
    return torch.matmul(weights, V), weights


@wrong("attention", "divided by d_k, not by its root", made="divided by d_k")
def averaged_products(Q, K, V):
    scores = (Q.unsqueeze(-2) * K.unsqueeze(-3)).mean(dim=-1)
    weights = scores.softmax(-1)
    return weights @ V, weights


@wrong("attention", "divided by d_k, not by its root", made="divided by d_k")
def a_half_for_a_power(Q, K, V):
    d_k = Q.size(-1)
    scores = Q @ K.transpose(-2, -1) / (d_k * 0.5)
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong("attention", "divided by d_k, not by its root", made="divided by d_k")
def power_before_division(Q, K, V):
    d_k = Q.size(-1)
    scores = Q @ K.transpose(-2, -1) / d_k**1 / 2
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong("attention", "multiplied by the root", made="multiplied by the root")
def times_the_root(Q, K, V):
    scores = Q @ K.transpose(-2, -1) * math.sqrt(Q.size(-1))
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong("attention", "multiplied by the root", made="multiplied by the root")
def divided_by_the_inverse_root(Q, K, V):
    d_k = K.shape[-1]
    weights = ((Q @ K.mT) / d_k**-0.5).softmax(dim=-1)
    return weights @ V, weights


@wrong("attention", "multiplied by the root", made="multiplied by the root")
def times_the_root_as_a_tensor(Q, K, V):
    root = torch.sqrt(torch.tensor(Q.shape[-1]))
    weights = F.softmax(torch.einsum("...id,...jd->...ij", Q * root, K), dim=-1)
    return torch.einsum("...ij,...jd->...id", weights, V), weights


@wrong("attention", "root of the wrong size", made="root of a length")
def root_of_the_number_of_keys(Q, K, V):
    scores = Q @ K.transpose(-2, -1)
    scores = scores / math.sqrt(scores.size(-1))
    weights = scores.softmax(dim=-1)
    return weights @ V, weights


@wrong("attention", "root of the wrong size", made="root of a length")
def root_of_the_number_of_queries(Q, K, V):
    T_q = Q.shape[-2]
    weights = torch.softmax(Q @ K.transpose(-2, -1) / T_q**0.5, -1)
    return weights @ V, weights


@wrong("attention", "root of the wrong size", made="root of a length")
def root_of_axis_one_of_the_keys(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / np.sqrt(K.shape[1]), dim=-1)
    return weights @ V, weights


@wrong("attention", "root of the wrong size", made="root of a length")
def root_of_axis_one_of_the_queries(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / Q.size(1) ** 0.5, dim=-1)
    return weights @ V, weights


@wrong("attention", "root of the wrong size", made="root of a length")
def root_of_axis_one_of_the_scores(Q, K, V):
    scores = torch.matmul(Q, K.transpose(-2, -1))
    scores = scores / scores.shape[1] ** 0.5
    weights = F.softmax(scores, dim=-1)
    return torch.matmul(weights, V), weights


@wrong("attention", "root of the wrong size", made="root of a length")
def root_of_the_batch(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(len(Q)), dim=-1)
    return weights @ V, weights


@wrong("attention", "root of the wrong size", made="root of d_v")
def root_of_the_width_of_the_values(Q, K, V):
    d = V.size(-1)
    weights = F.softmax(Q @ K.transpose(-2, -1) / math.sqrt(d), dim=-1)
    return weights @ V, weights


@wrong("attention", "root of the wrong size", made="root of d_v")
def root_of_the_width_of_the_values_with_einsum(Q, K, V):
    scores = torch.einsum("...qd,...kd->...qk", Q, K) * V.shape[-1] ** -0.5
    weights = scores.softmax(-1)
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@wrong("attention", "root of the wrong size", made="root of d_model inside a head")
def root_of_d_model(Q, K, V):
    num_heads = Q.size(1) if Q.dim() == 4 else 1
    d_model = num_heads * Q.size(-1)
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(d_model), dim=-1)
    return weights @ V, weights


@wrong("attention", "scaled after the softmax", made="scaled after the softmax")
def weights_scaled(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1), dim=-1) / math.sqrt(Q.size(-1))
    return weights @ V, weights


@wrong("attention", "scaled after the softmax", made="scaled after the softmax")
def weights_scaled_in_a_loop(Q, K, V):
    rows = []
    for query in Q.unbind(dim=-2):
        row = F.softmax((K @ query.unsqueeze(-1)).squeeze(-1), dim=-1)
        rows.append(row * Q.shape[-1] ** -0.5)
    weights = torch.stack(rows, dim=-2)
    return weights @ V, weights


@wrong("attention", "scaled after the softmax", made="scaled after the softmax")
def output_scaled(Q, K, V):
    d_k = Q.size(-1)
    weights = torch.softmax(Q @ K.transpose(-2, -1), dim=-1)
    output = weights @ V / math.sqrt(d_k)
    return output, weights


@wrong("attention", "softmax over the queries", made="softmax over queries")
def softmax_along_the_axis_before_last(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-2)
    return weights @ V, weights


@wrong("attention", "softmax over the queries", made="softmax over queries")
def softmax_along_axis_one(Q, K, V):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    weights = F.softmax(scores, dim=1)
    return weights @ V, weights


@wrong("attention", "softmax over the queries", made="softmax over queries")
def softmax_over_queries_by_hand(Q, K, V):
    scores = torch.einsum("...qd,...kd->...qk", Q, K) / Q.size(-1) ** 0.5
    scores = scores - scores.max(dim=-2, keepdim=True).values
    weights = scores.exp() / scores.exp().sum(dim=-2, keepdim=True)
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@wrong("attention", "softmax over the batch", made="softmax over the batch")
def softmax_along_axis_zero(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=0)
    return weights @ V, weights


@wrong("attention", "softmax over the batch", made="softmax over the batch")
def softmax_without_an_axis(Q, K, V):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    weights = F.softmax(scores)  # torch warns and picks an axis by the number of them
    return weights @ V, weights


@wrong("attention", "softmax over all entries", made="softmax over all entries")
def softmax_of_the_flat_scores(Q, K, V):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    weights = torch.softmax(scores.reshape(-1), dim=0).reshape(scores.shape)
    return weights @ V, weights


@wrong("attention", "softmax over all entries", made="softmax over all entries")
def softmax_of_each_flat_matrix(Q, K, V):
    scores = Q @ K.mT / Q.size(-1) ** 0.5
    weights = scores.flatten(-2).softmax(dim=-1).reshape(scores.shape)
    return weights @ V, weights


@wrong(
    "attention",
    "softmax over all entries",
    "exp without subtracting the maximum",
    made="softmax over all entries",
)
def exp_over_its_whole_sum(Q, K, V):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    weights = torch.exp(scores) / torch.exp(scores).sum()
    return weights @ V, weights


@wrong("attention", "softmax over all entries", made="softmax over all entries")
def shifted_exp_over_its_whole_sum(Q, K, V):
    scores = torch.einsum("...qd,...kd->...qk", Q, K) / math.sqrt(Q.size(-1))
    exps = torch.exp(scores - scores.max())
    weights = exps / torch.sum(exps)
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@wrong("attention", "no softmax", made="no softmax")
def scores_as_weights(Q, K, V):
    weights = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    return weights @ V, weights


@wrong("attention", "divided by the sum without exp", made="no softmax")
def scores_over_their_sum(Q, K, V):
    scores = torch.matmul(Q, K.transpose(-2, -1)) / Q.size(-1) ** 0.5
    weights = scores / scores.sum(dim=-1, keepdim=True)
    return torch.matmul(weights, V), weights


@wrong("attention", "sigmoid instead of softmax", made="sigmoid")
def sigmoid_of_the_scores(Q, K, V):
    weights = torch.sigmoid(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)))
    return weights @ V, weights


@wrong("attention", "sigmoid instead of softmax", made="sigmoid")
def sigmoid_by_hand(Q, K, V):
    scores = torch.einsum("...qd,...kd->...qk", Q, K) / Q.size(-1) ** 0.5
    weights = 1 / (1 + torch.exp(-scores))
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@wrong("attention", "exp without normalising", made="exp without normalising")
def exp_alone(Q, K, V):
    weights = (Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))).exp()
    return weights @ V, weights


@wrong("attention", "exp without normalising", made="exp without normalising")
def exp_alone_with_einsum(Q, K, V):
    weights = torch.exp(torch.einsum("...qd,...kd->...qk", Q, K) / math.sqrt(Q.size(-1)))
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@wrong("attention", "hard argmax", made="hard argmax")
def one_hot_of_the_best(Q, K, V):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    weights = F.one_hot(scores.argmax(dim=-1), num_classes=K.size(-2)).float()
    return weights @ V, weights


@wrong("attention", "hard argmax", made="hard argmax")
def ones_where_the_score_is_highest(Q, K, V):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    weights = (scores == scores.max(dim=-1, keepdim=True).values).float()
    return torch.matmul(weights, V), weights


@wrong("attention", "hard argmax", made="hard argmax")
def ones_scattered(Q, K, V):
    scores = torch.einsum("...qd,...kd->...qk", Q, K) / math.sqrt(Q.size(-1))
    best = scores.argmax(dim=-1, keepdim=True)
    weights = torch.zeros_like(scores).scatter_(-1, best, 1.0)
    return weights @ V, weights


@wrong("attention", "exp without subtracting the maximum", made="exp without subtracting the maximum")
def softmax_from_its_formula(Q, K, V):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    weights = torch.exp(scores) / torch.exp(scores).sum(dim=-1, keepdim=True)
    return weights @ V, weights


@wrong("attention", "exp without subtracting the maximum", made="exp without subtracting the maximum")
def softmax_from_its_formula_one_query_at_a_time(Q, K, V):
    rows = []
    for i in range(Q.shape[-2]):
        scores = torch.einsum("...d,...kd->...k", Q[..., i, :], K) / math.sqrt(K.shape[-1])
        exps = scores.exp()
        rows.append(exps / exps.sum(-1).unsqueeze(-1))
    weights = torch.stack(rows, -2)
    return weights @ V, weights


@wrong("attention", "Q and K swapped", made="Q and K swapped")
def keys_times_queries(Q, K, V):
    scores = K @ Q.transpose(-2, -1) / math.sqrt(Q.size(-1))
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong("attention", "Q and K swapped", made="Q and K swapped")
def keys_times_queries_with_einsum(Q, K, V):
    scores = torch.einsum("...kd,...qd->...kq", K, Q) / Q.size(-1) ** 0.5
    weights = F.softmax(scores, dim=-1)
    return torch.matmul(weights, V), weights


@wrong("attention", "Q and K swapped", made="Q and K swapped")
def arguments_in_another_order(K, Q, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1)
    return weights @ V, weights


@wrong("attention", "weights transposed before V", made="weights transposed before V")
def weights_turned(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1)
    return weights.transpose(-2, -1) @ V, weights


@wrong("attention", "weights transposed before V", made="weights transposed before V")
def weights_turned_with_einsum(Q, K, V):
    weights = F.softmax(torch.einsum("...qd,...kd->...qk", Q, K) / Q.size(-1) ** 0.5, dim=-1)
    return torch.einsum("...kq,...kd->...qd", weights, V), weights


@wrong("attention", "keys used as values", made="K used as values")
def keys_returned(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1)
    return weights @ K, weights


@wrong("attention", "keys used as values", made="K used as values")
def keys_returned_one_query_at_a_time(Q, K, V):
    outputs, rows = [], []
    for i in range(Q.size(-2)):
        row = torch.softmax(K @ Q[..., i, :, None] / math.sqrt(Q.size(-1)), dim=-2)
        outputs.append((row * K).sum(dim=-2))
        rows.append(row.squeeze(-1))
    return torch.stack(outputs, dim=-2), torch.stack(rows, dim=-2)


@wrong("attention", "queries used as values", made="Q used as values")
def queries_returned(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1)
    return weights @ Q, weights


@wrong("attention", "queries used as values", made="Q used as values")
def queries_returned_with_einsum(Q, K, V):
    weights = torch.softmax(torch.einsum("...qd,...kd->...qk", Q, K) / math.sqrt(Q.size(-1)), dim=-1)
    return torch.einsum("...qk,...kd->...qd", weights, Q), weights


@wrong("attention", "an input changed in place", made="an input changed in place")
def queries_divided_in_place(Q, K, V):
    Q /= math.sqrt(Q.size(-1))
    weights = torch.softmax(Q @ K.transpose(-2, -1), dim=-1)
    return weights @ V, weights


@wrong("attention", "an input changed in place", made="an input changed in place")
def keys_turned_in_place(Q, K, V):
    scores = Q @ K.transpose_(-2, -1) / math.sqrt(Q.size(-1))
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong("attention", "an input changed in place", made="an input changed in place")
def queries_scaled_in_place_behind_autograd(Q, K, V):
    with torch.no_grad():
        Q.mul_(Q.size(-1) ** -0.5)
    weights = F.softmax(torch.einsum("...qd,...kd->...qk", Q, K), dim=-1)
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@wrong("attention", "right for these sizes only", made="sizes hard-coded")
def root_of_four(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(4), dim=-1)
    return weights @ V, weights


@wrong("attention", "right for these sizes only", made="sizes hard-coded")
def loops_over_the_sizes_of_the_example(Q, K, V):
    scores = torch.zeros(2, 3, 5)
    for b in range(2):
        for i in range(3):
            for j in range(5):
                scores[b, i, j] = Q[b, i] @ K[b, j] / math.sqrt(Q.size(-1))
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong("attention", "right for these sizes only", made="sizes hard-coded")
def shaped_to_the_example(Q, K, V):
    scores = torch.bmm(Q.reshape(2, 3, 4), K.reshape(2, 5, 4).transpose(1, 2)) / 4**0.5
    weights = F.softmax(scores, dim=-1)
    return torch.bmm(weights, V.reshape(2, 5, 6)), weights


@wrong("attention", "squeeze() without a dimension", made="squeeze() without a dimension")
def both_squeezed(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1)
    output = weights @ V
    return output.squeeze(), weights.squeeze()


@wrong("attention", "squeeze() without a dimension", made="squeeze() without a dimension")
def output_squeezed(Q, K, V):
    weights = F.softmax(torch.einsum("...qd,...kd->...qk", Q, K) / Q.size(-1) ** 0.5, dim=-1)
    return torch.matmul(weights, V).squeeze(), weights


@wrong("attention", "squeeze() without a dimension", made="squeeze() without a dimension")
def scores_squeezed(Q, K, V):
    scores = (Q @ K.transpose(-2, -1)).squeeze() / math.sqrt(Q.size(-1))
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong("attention", "squeeze() without a dimension", made="squeeze() without a dimension")
def weights_squeezed(Q, K, V):
    weights = torch.softmax(Q @ K.mT / math.sqrt(Q.size(-1)), dim=-1).squeeze()
    return weights @ V, weights


@wrong("attention", "gradient cut", made="gradient cut by detach")
def weights_detached(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1).detach()
    return weights @ V, weights


@wrong("attention", "gradient cut", made="gradient cut by detach")
def keys_detached(Q, K, V):
    scores = Q @ K.data.transpose(-2, -1) / math.sqrt(Q.size(-1))
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong("attention", "gradient cut", made="gradient cut by detach")
def no_graph_at_all(Q, K, V):
    with torch.no_grad():
        weights = F.softmax(torch.einsum("...qd,...kd->...qk", Q, K) / math.sqrt(Q.size(-1)), dim=-1)
        return weights @ V, weights


@wrong("attention", "gradient cut", made="gradient cut by numpy")
def softmax_in_numpy(Q, K, V):
    scores = (Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))).detach().numpy()
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = torch.from_numpy(exps / exps.sum(axis=-1, keepdims=True))
    return weights @ V, weights


@wrong("attention", "gradient cut", made="gradient cut by numpy")
def everything_in_numpy(Q, K, V):
    q, k, v = (x.detach().numpy() for x in (Q, K, V))
    scores = q @ np.swapaxes(k, -2, -1) / math.sqrt(q.shape[-1])
    exps = np.exp(scores - scores.max(-1, keepdims=True))
    weights = exps / exps.sum(-1, keepdims=True)
    return torch.tensor(weights @ v), torch.tensor(weights)


@wrong("attention", "gradient cut", made="gradient cut by numpy")
def scores_rebuilt_from_a_list(Q, K, V):
    scores = torch.tensor((Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))).tolist())
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong("attention", "axes counted from the front")
def keys_turned_by_axes_one_and_two(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(1, 2) / math.sqrt(Q.size(-1)), dim=-1)
    return weights @ V, weights


@wrong("attention", "axes counted from the front")
def keys_permuted(Q, K, V):
    weights = torch.softmax(Q @ K.permute(0, 2, 1) / math.sqrt(Q.size(-1)), dim=-1)
    return weights @ V, weights


@wrong("attention", "axes counted from the front")
def everything_counted_from_the_front(Q, K, V):
    scores = torch.matmul(Q, K.transpose(1, 2)) / math.sqrt(Q.shape[2])
    weights = F.softmax(scores, dim=2)
    return torch.matmul(weights, V), weights


@wrong("attention", "axes counted from the front")
def softmax_along_axis_two(Q, K, V):
    weights = F.softmax(torch.einsum("...qd,...kd->...qk", Q, K) / math.sqrt(Q.size(-1)), dim=2)
    return weights @ V, weights


# Two at once


@wrong("attention", "no scaling", "softmax over the queries")
def unscaled_and_over_queries(Q, K, V):
    weights = F.softmax(Q @ K.transpose(-2, -1), dim=-2)
    return weights @ V, weights


@wrong("attention", "divided by d_k, not by its root", "exp without subtracting the maximum")
def divided_by_d_k_and_unshifted(Q, K, V):
    exps = torch.exp(torch.einsum("...qd,...kd->...qk", Q, K) / K.size(-1))
    weights = exps / exps.sum(dim=-1, keepdim=True)
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@wrong("attention", "no scaling", "keys used as values")
def unscaled_and_keys_returned(Q, K, V):
    weights = (Q @ K.mT).softmax(-1)
    return weights @ K, weights


# ---------------------------------------------------------------- attention: right answers


@right("attention")
def as_in_the_formula(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1)
    return weights @ V, weights


@right("attention")
def with_einsum(Q, K, V):
    scores = torch.einsum("...qd,...kd->...qk", Q, K) * Q.shape[-1] ** -0.5
    weights = F.softmax(scores, dim=-1)
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@right("attention")
def one_sample_and_one_query_at_a_time(Q, K, V):
    leading = Q.shape[:-2]
    queries, keys, values = Q.reshape(-1, *Q.shape[-2:]), K.reshape(-1, *K.shape[-2:]), V.reshape(-1, *V.shape[-2:])
    output = torch.zeros(len(queries), Q.size(-2), V.size(-1))
    weights = torch.zeros(len(queries), Q.size(-2), K.size(-2))
    for b in range(len(queries)):
        for i in range(Q.size(-2)):
            row = torch.softmax(keys[b] @ queries[b, i] / math.sqrt(Q.size(-1)), dim=0)
            weights[b, i] = row
            output[b, i] = row @ values[b]
    return output.view(*leading, *output.shape[1:]), weights.view(*leading, *weights.shape[1:])


@right("attention")
def every_pair_on_its_own(Q, K, V):
    rows = [
        torch.stack([(Q[..., i, :] * K[..., j, :]).sum(-1) for j in range(K.size(-2))], dim=-1)
        for i in range(Q.size(-2))
    ]
    weights = (torch.stack(rows, dim=-2) / torch.sqrt(torch.tensor(Q.size(-1)))).softmax(dim=-1)
    return weights @ V, weights


@right("attention")
def with_bmm(Q, K, V):
    q, k, v = (x.reshape(-1, x.size(-2), x.size(-1)) for x in (Q, K, V))
    scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.size(2))
    weights = F.softmax(scores, dim=2)
    output = torch.bmm(weights, v)
    return output.view(*Q.shape[:-1], v.size(2)), weights.view(*Q.shape[:-1], k.size(1))


@right("attention")
def softmax_by_hand(Q, K, V):
    scores = Q @ K.mT / np.sqrt(Q.size(-1))
    scores = scores - scores.max(dim=-1, keepdim=True).values
    exps = torch.exp(scores)
    weights = exps / exps.sum(dim=-1, keepdim=True)
    return weights @ V, weights


@right("attention")
def softmax_by_its_logarithm(Q, K, V):
    scores = torch.matmul(Q, K.transpose(-1, -2)) / Q.size(-1) ** 0.5
    weights = torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True))
    return torch.matmul(weights, V), weights


@right("attention")
def queries_scaled_first(Q, K, V):
    Q = Q / math.sqrt(Q.size(-1))
    weights = torch.nn.Softmax(dim=-1)(Q @ K.transpose(-2, -1))
    return weights @ V, weights


@right("attention")
def both_scaled_by_the_fourth_root(Q, K, V):
    root = Q.size(-1) ** 0.25
    weights = ((Q / root) @ (K / root).transpose(-2, -1)).softmax(-1)
    return weights @ V, weights


@right("attention")
def changed_in_place_after_a_copy(Q, K, V):
    scores = torch.matmul(Q, K.transpose(-2, -1))
    scores /= math.sqrt(Q.size(-1))
    weights = torch.softmax(scores, dim=-1)
    return [torch.matmul(weights, V), weights]


@right("attention")
def output_from_the_fused_kernel(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1)
    return F.scaled_dot_product_attention(Q, K, V), weights


@right("attention")
def in_double_precision(Q, K, V):
    q, k, v = Q.double(), K.double(), V.double()
    weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1)
    return (weights @ v).float(), weights.float()


# ---------------------------------------------------------------- masked attention: wrong answers


@wrong("masked_attention", "mask inverted", made="inverted")
def true_taken_for_blocked(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(mask, 0.0)
    return weights @ V, weights


@wrong("masked_attention", "mask inverted", "uniform weights where a query may attend to nothing", made="inverted")
def true_taken_for_blocked_without_care(Q, K, V, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", Q, K) / Q.size(-1) ** 0.5
    if mask is not None:
        scores = torch.where(mask, torch.tensor(-1e9), scores)
    weights = F.softmax(scores, dim=-1)
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@wrong("masked_attention", "mask inverted", "NaN where a query may attend to nothing", made="inverted")
def true_filled_with_minus_infinity(Q, K, V, mask=None):
    scores = torch.matmul(Q, K.transpose(-1, -2)) / math.sqrt(K.size(-1))
    if mask is not None:
        scores.masked_fill_(mask == 1, float("-inf"))
    weights = F.softmax(scores, dim=-1)
    return torch.matmul(weights, V), weights


@wrong("masked_attention", "blocked scores set to 0", made="filled with 0")
def zeros_filled_in(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, 0)
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong("masked_attention", "blocked scores set to 0", made="filled with 0")
def zeros_chosen(Q, K, V, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", Q, K) / Q.size(-1) ** 0.5
    if mask is not None:
        scores = torch.where(mask, scores, torch.zeros_like(scores))
    weights = F.softmax(scores, dim=-1)
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@wrong("masked_attention", "blocked scores set to 0", made="filled with 0")
def a_minus_lost_from_the_exponent(Q, K, V, mask=None):
    scores = torch.matmul(Q, K.mT) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e-9)
    weights = F.softmax(scores, dim=-1)
    return torch.matmul(weights, V), weights


@wrong("masked_attention", "blocked scores set to 0", made="multiplied")
def scores_times_the_mask(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores * mask
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong("masked_attention", "applied after the softmax, not renormalised", made="applied after the softmax")
def weights_times_the_mask(Q, K, V, mask=None):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1)
    if mask is not None:
        weights = weights * mask
    return weights @ V, weights


@wrong("masked_attention", "applied after the softmax, not renormalised", made="applied after the softmax")
def weights_filled_with_zeros(Q, K, V, mask=None):
    weights = F.softmax(torch.einsum("...qd,...kd->...qk", Q, K) / Q.size(-1) ** 0.5, dim=-1)
    if mask is not None:
        weights = torch.where(mask, weights, 0.0)
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@wrong("masked_attention", "fill not low enough", made="a fill of -10")
def filled_with_minus_ten(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -10.0)
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong("masked_attention", "fill not low enough", made="a fill of -10")
def ten_subtracted(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores + (1 - mask.float()) * -10
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong("masked_attention", "fill not low enough", made="a fill of -10")
def filled_with_minus_five(Q, K, V, mask=None):
    scores = torch.matmul(Q, K.transpose(-1, -2)) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(-5.0))
    weights = F.softmax(scores, dim=-1)
    return torch.matmul(weights, V), weights


@wrong("masked_attention", "fill not low enough", made="a fill of -10")
def filled_with_minus_twenty(Q, K, V, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", Q, K) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), -20)
    weights = F.softmax(scores, dim=-1)
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@wrong("masked_attention", "fill not low enough", made="a fill of -1e4")
def filled_with_minus_ten_thousand(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e4)
    weights = scores.softmax(dim=-1)
    return weights @ V, weights


@wrong("masked_attention", "fill not low enough", made="a fill of -1e4")
def filled_with_nines_and_cleaned(Q, K, V, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", Q, K) / Q.size(-1) ** 0.5
    if mask is not None:
        scores = torch.where(mask, scores, -9999.0)
    weights = F.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights * mask
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@wrong("masked_attention", "fill not low enough", made="a fill of -1e4")
def ten_thousand_subtracted(Q, K, V, mask=None):
    scores = torch.matmul(Q, K.transpose(-1, -2)) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores += (1.0 - mask.float()) * -10000.0
    weights = F.softmax(scores, dim=-1)
    return torch.matmul(weights, V), weights


@wrong("masked_attention", "wrong sign", made="wrong sign")
def filled_with_plus_a_billion(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, 1e9)
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong("masked_attention", "wrong sign", made="wrong sign")
def filled_with_plus_infinity(Q, K, V, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", Q, K) / Q.size(-1) ** 0.5
    if mask is not None:
        scores = torch.where(mask, scores, torch.inf)
    weights = F.softmax(scores, dim=-1)
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@wrong("masked_attention", "wrong sign", made="wrong sign")
def a_billion_added(Q, K, V, mask=None):
    scores = torch.matmul(Q, K.transpose(-1, -2)) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores - (1 - mask.float()) * -1e9
    weights = F.softmax(scores, dim=-1)
    return torch.matmul(weights, V), weights


@wrong("masked_attention", "wrong sign", made="wrong sign")
def filled_with_the_highest_number(Q, K, V, mask=None):
    scores = Q @ K.mT / Q.size(-1) ** 0.5
    if mask is not None:
        scores.masked_fill_(mask == 0, torch.finfo(scores.dtype).max)
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong("masked_attention", "0 times -inf", made="0 times -inf")
def blocked_times_minus_infinity(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores + (1 - mask.float()) * float("-inf")
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong("masked_attention", "0 times -inf", made="0 times -inf")
def not_mask_times_minus_infinity(Q, K, V, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", Q, K) / Q.size(-1) ** 0.5
    if mask is not None:
        scores = scores + ~mask * -torch.inf
    weights = F.softmax(scores, dim=-1)
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@wrong("masked_attention", "NaN where a query may attend to nothing", made="fully masked row gives NaN")
def filled_with_minus_infinity(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong("masked_attention", "NaN where a query may attend to nothing", made="fully masked row gives NaN")
def minus_infinity_chosen(Q, K, V, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", Q, K) / Q.size(-1) ** 0.5
    if mask is not None:
        scores = torch.where(mask, scores, -torch.inf)
    weights = F.softmax(scores, dim=-1)
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@wrong("masked_attention", "NaN where a query may attend to nothing", made="fully masked row gives NaN")
def logarithm_of_the_mask_added(Q, K, V, mask=None):
    scores = torch.matmul(Q, K.transpose(-1, -2)) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores + torch.log(mask.float())
    weights = F.softmax(scores, dim=-1)
    return torch.matmul(weights, V), weights


@wrong("masked_attention", "NaN where a query may attend to nothing", made="fully masked row gives NaN")
def masked_one_query_at_a_time(Q, K, V, mask=None):
    if mask is not None:
        mask = mask.expand(*Q.shape[:-1], K.size(-2))
    rows = []
    for i in range(Q.size(-2)):
        scores = (K @ Q[..., i, :, None]).squeeze(-1) / math.sqrt(Q.size(-1))
        if mask is not None:
            scores[~mask[..., i, :]] = float("-inf")
        rows.append(scores.softmax(dim=-1))
    weights = torch.stack(rows, dim=-2)
    return weights @ V, weights


@wrong("masked_attention", "NaN where a query may attend to nothing", made="fully masked row gives NaN")
def softmax_by_hand_over_minus_infinity(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    exps = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    weights = exps / exps.sum(dim=-1, keepdim=True)
    return weights @ V, weights


@wrong("masked_attention", "NaN where a query may attend to nothing", made="fully masked row gives NaN")
def renormalised_after_the_softmax(Q, K, V, mask=None):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1)
    if mask is not None:
        weights = weights * mask
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights @ V, weights


@wrong("masked_attention", "NaN gradients where a query may attend to nothing", made="fully masked row gives NaN")
def additive_mask_painted_over(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores + torch.zeros_like(mask, dtype=scores.dtype).masked_fill(~mask, float("-inf"))
    weights = torch.nan_to_num(torch.softmax(scores, dim=-1))
    return weights @ V, weights


@wrong(
    "masked_attention",
    "uniform weights where a query may attend to nothing",
    made="fully masked row gives uniform weights",
)
def filled_with_minus_a_billion(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong(
    "masked_attention",
    "uniform weights where a query may attend to nothing",
    made="fully masked row gives uniform weights",
)
def filled_with_the_lowest_number(Q, K, V, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", Q, K) / Q.size(-1) ** 0.5
    if mask is not None:
        scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    weights = F.softmax(scores, dim=-1)
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@wrong(
    "masked_attention",
    "uniform weights where a query may attend to nothing",
    made="fully masked row gives uniform weights",
)
def a_billion_subtracted(Q, K, V, mask=None):
    scores = torch.matmul(Q, K.transpose(-1, -2)) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores += (1.0 - mask.float()) * -1e9
    weights = F.softmax(scores, dim=-1)
    return torch.matmul(weights, V), weights


@wrong("masked_attention", "mask ignored", made="ignored")
def mask_never_read(Q, K, V, mask=None):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1)
    return weights @ V, weights


@wrong("masked_attention", "mask ignored", made="computed and thrown away")
def masked_fill_not_assigned(Q, K, V, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", Q, K) / Q.size(-1) ** 0.5
    if mask is not None:
        scores.masked_fill(~mask, float("-inf"))
    weights = F.softmax(scores, dim=-1)
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@wrong("masked_attention", "mask ignored", made="computed and thrown away")
def masked_scores_not_used(Q, K, V, mask=None):
    scores = torch.matmul(Q, K.transpose(-1, -2)) / math.sqrt(Q.size(-1))
    if mask is not None:
        masked_scores = torch.where(mask, scores, -1e9)  # noqa: F841
    weights = F.softmax(scores, dim=-1)
    return torch.matmul(weights, V), weights


@wrong("masked_attention", "mask transposed", made="transposed")
def mask_turned(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask.transpose(-2, -1), float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong("masked_attention", "mask transposed", made="transposed")
def mask_turned_and_chosen(Q, K, V, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", Q, K) / Q.size(-1) ** 0.5
    if mask is not None:
        scores = torch.where(mask.mT, scores, torch.finfo(scores.dtype).min)
    weights = F.softmax(scores, dim=-1)
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@wrong("masked_attention", "boolean added to the scores as a number", made="boolean added to the scores")
def mask_added(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores + mask
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong("masked_attention", "boolean added to the scores as a number", made="boolean added to the scores")
def mask_added_in_place(Q, K, V, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", Q, K) / Q.size(-1) ** 0.5
    if mask is not None:
        scores += mask.float()
    weights = F.softmax(scores, dim=-1)
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@wrong("masked_attention", "an input changed in place", made="an input changed in place")
def mask_inverted_in_place(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        blocked = mask.logical_not_()
        scores = scores.masked_fill(blocked, -1e9)
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


# Two at once: a mistake of the unmasked kind, and the usual fill without care for the row that may attend to nothing


@wrong("masked_attention", "NaN where a query may attend to nothing", "no scaling", made="no scaling")
def unscaled_and_minus_infinity(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong(
    "masked_attention",
    "uniform weights where a query may attend to nothing",
    "divided by d_k, not by its root",
    made="divided by d_k",
)
def divided_by_d_k_and_minus_a_billion(Q, K, V, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", Q, K) / Q.size(-1)
    if mask is not None:
        scores = torch.where(mask, scores, -1e9)
    weights = F.softmax(scores, dim=-1)
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@wrong(
    "masked_attention",
    "NaN where a query may attend to nothing",
    "softmax over the queries",
    made="softmax over queries",
)
def over_queries_and_minus_infinity(Q, K, V, mask=None):
    scores = torch.matmul(Q, K.transpose(-1, -2)) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores.masked_fill_(mask == 0, -torch.inf)
    weights = F.softmax(scores, dim=-2)
    return torch.matmul(weights, V), weights


@wrong(
    "masked_attention",
    "NaN where a query may attend to nothing",
    "exp without subtracting the maximum",
    made="exp without subtracting the maximum",
)
def unshifted_and_minus_infinity(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.exp() / scores.exp().sum(dim=-1, keepdim=True)
    return weights @ V, weights


@wrong("masked_attention", "NaN where a query may attend to nothing", "keys used as values", made="K used as values")
def keys_returned_and_minus_infinity(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = torch.where(mask, scores, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return weights @ K, weights


@wrong("masked_attention", "mask inverted", "no scaling", made="inverted")
def inverted_and_unscaled(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1)
    if mask is None:
        weights = scores.softmax(-1)
    else:
        weights = scores.masked_fill(mask, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(mask, 0.0)
    return weights @ V, weights


# ---------------------------------------------------------------- masked attention: right answers


@right("masked_attention")
def lowest_number_then_zeros(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ V, weights


@right("masked_attention", "-1e9 in half precision", made="-1e9 in half precision")
def minus_a_billion_then_zeros(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = F.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights * mask
    return weights @ V, weights


@right("masked_attention", "-1e9 in half precision", made="-1e9 in half precision")
def minus_a_billion_in_place_with_einsum(Q, K, V, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", Q, K) / Q.size(-1) ** 0.5
    if mask is None:
        weights = scores.softmax(dim=-1)
    else:
        weights = scores.masked_fill_(~mask, -1e9).softmax(dim=-1)
        weights = torch.where(mask, weights, 0)
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@right("masked_attention")
def nan_replaced_before_it_spreads(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.nan_to_num(torch.softmax(scores, dim=-1))
    return weights @ V, weights


@right("masked_attention")
def chosen_with_where(Q, K, V, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", Q, K) * Q.size(-1) ** -0.5
    if mask is None:
        weights = scores.softmax(-1)
    else:
        weights = torch.where(mask, scores, -torch.inf).softmax(-1)
        weights = torch.where(mask.any(dim=-1, keepdim=True), weights, 0.0)
    return torch.einsum("...qk,...kd->...qd", weights, V), weights


@right("masked_attention")
def empty_rows_opened_and_closed_again(Q, K, V, mask=None):
    scores = Q @ K.mT / math.sqrt(Q.size(-1))
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    empty = ~mask.any(dim=-1, keepdim=True)
    weights = scores.masked_fill(~(mask | empty), float("-inf")).softmax(dim=-1).masked_fill(empty, 0.0)
    return weights @ V, weights


@right("masked_attention")
def masked_softmax_by_hand(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    exps = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    if mask is not None:
        exps = exps * mask
    weights = exps / exps.sum(dim=-1, keepdim=True).clamp(min=1e-6)
    return weights @ V, weights


@right("masked_attention")
def masked_loop_over_samples_and_queries(Q, K, V, mask=None):
    shape = torch.broadcast_shapes(Q.shape[:-2], K.shape[:-2])
    full = (*shape, Q.size(-2), K.size(-2))
    mask = torch.ones(full, dtype=torch.bool) if mask is None else mask.expand(full)
    queries, keys, values, allowed = (x.reshape(-1, *x.shape[-2:]) for x in (Q, K, V, mask))
    rows = []
    for b in range(len(queries)):
        for i in range(Q.size(-2)):
            row = torch.zeros(K.size(-2), dtype=Q.dtype)
            seen = allowed[b, i].nonzero().flatten()
            if len(seen):
                row[seen] = torch.softmax(keys[b, seen] @ queries[b, i] / math.sqrt(Q.size(-1)), dim=0)
            rows.append(row)
    weights = torch.stack(rows).view(full)
    output = torch.bmm(weights.view(-1, *full[-2:]), values).view(*shape, Q.size(-2), V.size(-1))
    return output, weights


@right("masked_attention")
def masked_output_from_the_fused_kernel(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return F.scaled_dot_product_attention(Q, K, V, attn_mask=mask), weights


@right("masked_attention")
def weights_cleaned_in_place_after_a_copy(Q, K, V, mask=None):
    scores = torch.matmul(Q, K.transpose(-1, -2)) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores.masked_fill_(~mask, torch.finfo(scores.dtype).min)
    weights = F.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.clone()
        weights[~mask.expand_as(weights)] = 0
    return torch.matmul(weights, V), weights


# ---------------------------------------------------------------- find the bug in attention


@given_bug("find_the_bug_in_attention", made="root of a length")
def bug_left_as_given(Q, K, V):
    scores = Q @ K.transpose(-2, -1)
    scores = scores / math.sqrt(scores.size(-1))
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@given_bug("find_the_bug_in_attention", made="root of a length")
def bug_moved_to_the_queries(Q, K, V):
    scores = Q @ K.transpose(-2, -1)
    scores = scores / math.sqrt(Q.size(-2))
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@wrong("find_the_bug_in_attention", "no scaling", made="no scaling")
def bug_taken_out_with_its_line(Q, K, V):
    scores = Q @ K.transpose(-2, -1)
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@right("find_the_bug_in_attention")
def repaired_attention(Q, K, V):
    scores = Q @ K.transpose(-2, -1)
    scores = scores / math.sqrt(Q.size(-1))
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@right("find_the_bug_in_attention")
def repaired_attention_with_the_size_of_the_keys(Q, K, V):
    scores = Q @ K.transpose(-2, -1)
    scores = scores / K.shape[-1] ** 0.5
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


# ---------------------------------------------------------------- causal mask


@wrong("causal_mask", "upper triangle for lower", made="upper for lower triangle")
def upper_triangle(query_len, key_len=None):
    key_len = key_len or query_len
    return torch.triu(torch.ones(query_len, key_len), diagonal=key_len - query_len).bool()


@wrong("causal_mask", "upper triangle for lower", "aligned at the top left", made="upper for lower triangle")
def upper_triangle_by_comparison(query_len, key_len=None):
    key_len = query_len if key_len is None else key_len
    return torch.arange(query_len)[:, None] <= torch.arange(key_len)[None, :]


@wrong("causal_mask", "upper triangle for lower", "numbers instead of booleans", made="upper for lower triangle")
def upper_triangle_of_ones(query_len, key_len=None):
    if key_len is None:
        key_len = query_len
    return torch.ones(query_len, key_len).triu(key_len - query_len)


@wrong("causal_mask", "diagonal left out", made="diagonal left out")
def strictly_before(query_len, key_len=None):
    key_len = query_len if key_len is None else key_len
    positions = torch.arange(key_len - query_len, key_len)
    return torch.arange(key_len) < positions.unsqueeze(1)


@wrong("causal_mask", "diagonal left out", "aligned at the top left", made="diagonal left out")
def strictly_before_in_a_loop(query_len, key_len=None):
    key_len = query_len if key_len is None else key_len
    mask = torch.zeros(query_len, key_len, dtype=torch.bool)
    for i in range(query_len):
        for j in range(key_len):
            mask[i, j] = j < i
    return mask


@wrong("causal_mask", "one too far", made="one too far")
def one_key_more(query_len, key_len=None):
    key_len = query_len if key_len is None else key_len
    return torch.tril(torch.ones(query_len, key_len, dtype=torch.bool), diagonal=key_len - query_len + 1)


@wrong("causal_mask", "one too far", "aligned at the top left", made="one too far")
def lower_triangle_from_diagonal_one(query_len, key_len=None):
    key_len = query_len if key_len is None else key_len
    return torch.tril(torch.ones(query_len, key_len), diagonal=1) == 1


@wrong("causal_mask", "aligned at the top left")
def aligned_at_the_first_key(query_len, key_len=None):
    key_len = query_len if key_len is None else key_len
    return torch.ones(query_len, key_len, dtype=torch.bool).tril()


@wrong("causal_mask", "aligned at the top left", "numbers instead of booleans")
def lower_triangle_of_ones(query_len, key_len=None):
    key_len = query_len if key_len is None else key_len
    return torch.tril(torch.ones(query_len, key_len))


@wrong("causal_mask", "shift in the wrong direction")
def shifted_the_other_way(query_len, key_len=None):
    key_len = query_len if key_len is None else key_len
    return torch.ones(query_len, key_len).tril(query_len - key_len).bool()


@wrong("causal_mask", "mask inverted", made="inverted")
def blocked_pairs(query_len, key_len=None):
    key_len = query_len if key_len is None else key_len
    rows, columns = torch.arange(query_len)[:, None], torch.arange(key_len)
    return columns > rows + key_len - query_len


@wrong("causal_mask", "aligned at the top left", "mask inverted", made="inverted")
def strict_upper_triangle(query_len, key_len=None):
    key_len = query_len if key_len is None else key_len
    return torch.triu(torch.ones(query_len, key_len, dtype=torch.bool), diagonal=1)


@wrong("causal_mask", "transposed", made="transposed")
def keys_as_rows(query_len, key_len=None):
    key_len = query_len if key_len is None else key_len
    keys = torch.arange(key_len).unsqueeze(1)
    queries = torch.arange(query_len) + key_len - query_len
    return keys <= queries


@wrong("causal_mask", "an additive mask")
def zeros_and_minus_infinities(query_len, key_len=None):
    key_len = query_len if key_len is None else key_len
    return torch.full((query_len, key_len), float("-inf")).triu(key_len - query_len + 1)


@wrong("causal_mask", "nothing is blocked", made="computed and thrown away")
def triangle_thrown_away(query_len, key_len=None):
    key_len = query_len if key_len is None else key_len
    mask = torch.ones(query_len, key_len, dtype=torch.bool)
    mask.tril(diagonal=key_len - query_len)
    return mask


@right("causal_mask")
def lower_triangle(query_len, key_len=None):
    if key_len is None:
        key_len = query_len
    return torch.tril(torch.ones(query_len, key_len), diagonal=key_len - query_len).bool()


@right("causal_mask")
def compared_positions(query_len, key_len=None):
    key_len = query_len if key_len is None else key_len
    queries = torch.arange(query_len)[:, None] + (key_len - query_len)
    return torch.arange(key_len)[None, :] <= queries


@right("causal_mask")
def pair_by_pair(query_len, key_len=None):
    key_len = query_len if key_len is None else key_len
    return torch.tensor([[j <= i + key_len - query_len for j in range(key_len)] for i in range(query_len)])


@right("causal_mask")
def no_upper_triangle(query_len, key_len=None):
    key_len = key_len or query_len
    return ~torch.triu(torch.ones(query_len, key_len, dtype=torch.bool), diagonal=key_len - query_len + 1)


@right("causal_mask")
def last_rows_of_a_square(query_len, key_len=None):
    key_len = query_len if key_len is None else key_len
    longest = max(query_len, key_len)
    return torch.ones(longest, longest, dtype=torch.bool).tril()[-query_len:, -key_len:]


# ---------------------------------------------------------------- padding mask


@wrong("padding_mask", "padding on the query axis", made="padding on the query axis")
def padding_down_the_rows(token_ids, pad_id=0):
    return (token_ids != pad_id).unsqueeze(-1)


@wrong("padding_mask", "padding on the query axis", made="padding on the query axis")
def padding_down_the_rows_in_full(token_ids, pad_id=0):
    B, T = token_ids.shape
    mask = torch.ones(B, T, T, dtype=torch.bool)
    for b in range(B):
        for i in range(T):
            mask[b, i, :] = token_ids[b, i] != pad_id
    return mask


@wrong("padding_mask", "(B, T_k) without an axis for the queries", made="(B, T_k) broadcast by accident")
def no_axis_for_the_queries(token_ids, pad_id=0):
    return token_ids != pad_id


@wrong("padding_mask", "(B, T_k) without an axis for the queries", made="(B, T_k) broadcast by accident")
def no_axis_for_the_queries_either(token_ids, pad_id=0):
    mask = torch.ones_like(token_ids, dtype=torch.bool)
    mask[token_ids == pad_id] = False
    return mask


@wrong("padding_mask", "mask inverted", made="inverted")
def padding_marked(token_ids, pad_id=0):
    return (token_ids == pad_id)[:, None, :]


@wrong("padding_mask", "mask inverted", "padding on the query axis", made="inverted")
def padding_marked_down_the_rows(token_ids, pad_id=0):
    return token_ids.eq(pad_id).unsqueeze(2)


@wrong("padding_mask", "padding queries blocked too")
def padding_blocked_both_ways(token_ids, pad_id=0):
    real = token_ids != pad_id
    return real[:, :, None] & real[:, None, :]


@wrong("padding_mask", "pad_id ignored")
def padding_is_always_zero(token_ids, pad_id=0):
    return (token_ids != 0).unsqueeze(1)


@wrong("padding_mask", "pad_id ignored")
def padding_is_whatever_is_false(token_ids, pad_id=0):
    return token_ids.bool()[:, None]


@wrong("padding_mask", "numbers instead of booleans")
def ones_and_zeros(token_ids, pad_id=0):
    return torch.where(token_ids == pad_id, 0.0, 1.0).unsqueeze(1)


@wrong("padding_mask", "an additive mask")
def minus_infinity_at_padding(token_ids, pad_id=0):
    mask = torch.zeros(token_ids.shape)
    mask[token_ids == pad_id] = float("-inf")
    return mask.unsqueeze(1)


@wrong("padding_mask", "one sample's padding for all")
def padding_of_the_first_sample(token_ids, pad_id=0):
    return (token_ids[0] != pad_id).expand(token_ids.size(0), 1, -1)


@wrong("padding_mask", "an input changed in place", made="an input changed in place")
def token_ids_overwritten(token_ids, pad_id=0):
    token_ids[token_ids != pad_id] = 1
    return (token_ids == 1).unsqueeze(1)


@right("padding_mask")
def real_tokens(token_ids, pad_id=0):
    return (token_ids != pad_id).unsqueeze(1)


@right("padding_mask")
def real_tokens_by_indexing(token_ids, pad_id=0):
    return token_ids.ne(pad_id)[:, None, :]


@right("padding_mask")
def not_padding(token_ids, pad_id=0):
    B, T = token_ids.shape
    return ~(token_ids == pad_id).view(B, 1, T)


@right("padding_mask")
def token_by_token(token_ids, pad_id=0):
    return torch.tensor([[[token != pad_id for token in row]] for row in token_ids.tolist()])


@right("padding_mask")
def filled_step_by_step(token_ids, pad_id=0):
    mask = torch.ones(token_ids.size(0), 1, token_ids.size(1), dtype=torch.bool)
    for b, row in enumerate(token_ids):
        mask[b, 0, row == pad_id] = False
    return mask


# ---------------------------------------------------------------- find the bug in the decoder mask


@given_bug("find_the_bug_in_decoder_mask", made="padding OR causal")
def joined_by_or(token_ids, pad_id=0):
    causal = create_causal_mask(token_ids.size(1))
    padding = create_padding_mask(token_ids, pad_id)
    return causal | padding


@given_bug("find_the_bug_in_decoder_mask", made="padding OR causal")
def joined_by_plus(token_ids, pad_id=0):
    T = token_ids.shape[1]
    causal = torch.tril(torch.ones(T, T)).bool()
    return causal + (token_ids != pad_id)[:, None, :]


@wrong("find_the_bug_in_decoder_mask", "padding only")
def causal_left_out(token_ids, pad_id=0):
    return create_padding_mask(token_ids, pad_id).expand(-1, token_ids.size(1), -1)


@wrong("find_the_bug_in_decoder_mask", "causal only")
def padding_left_out(token_ids, pad_id=0):
    B, T = token_ids.shape
    return create_causal_mask(T).repeat(B, 1, 1)


@wrong("find_the_bug_in_decoder_mask", "padding on the query axis", made="padding on the query axis")
def padding_turned(token_ids, pad_id=0):
    causal = create_causal_mask(token_ids.size(1))
    padding = create_padding_mask(token_ids, pad_id).transpose(1, 2)
    return causal & padding


@wrong("find_the_bug_in_decoder_mask", "mask inverted", made="inverted")
def blocked_by_either(token_ids, pad_id=0):
    T = token_ids.size(1)
    future = torch.triu(torch.ones(T, T, dtype=torch.bool), diagonal=1)
    return future | (token_ids == pad_id).unsqueeze(1)


@wrong("find_the_bug_in_decoder_mask", "upper triangle for lower", made="upper for lower triangle")
def upper_triangle_and_padding(token_ids, pad_id=0):
    T = token_ids.size(1)
    return torch.triu(torch.ones(T, T)).bool() & create_padding_mask(token_ids, pad_id)


@wrong("find_the_bug_in_decoder_mask", "diagonal left out", made="diagonal left out")
def diagonal_left_out_and_padding(token_ids, pad_id=0):
    positions = torch.arange(token_ids.size(1))
    return (positions[None, :] < positions[:, None]) & (token_ids != pad_id)[:, None, :]


@wrong("find_the_bug_in_decoder_mask", "numbers instead of booleans")
def multiplied_numbers(token_ids, pad_id=0):
    T = token_ids.size(1)
    return torch.tril(torch.ones(T, T)) * (token_ids != pad_id).unsqueeze(1)


@right("find_the_bug_in_decoder_mask")
def joined_by_and(token_ids, pad_id=0):
    causal = create_causal_mask(token_ids.size(1))
    padding = create_padding_mask(token_ids, pad_id)
    return causal & padding


@right("find_the_bug_in_decoder_mask")
def joined_by_multiplication(token_ids, pad_id=0):
    return create_causal_mask(token_ids.size(1)) * create_padding_mask(token_ids, pad_id)


@right("find_the_bug_in_decoder_mask")
def future_and_padding_taken_out(token_ids, pad_id=0):
    B, T = token_ids.shape
    mask = torch.ones(B, T, T, dtype=torch.bool)
    for i in range(T):
        mask[:, i, i + 1 :] = False
    return mask & torch.logical_not(token_ids == pad_id)[:, None]


# ---------------------------------------------------------------- three mistakes at once: name some of them or none


@three("attention", "no scaling", "softmax over the queries", "exp without subtracting the maximum")
def unscaled_over_queries_unshifted(Q, K, V):
    exps = torch.exp(Q @ K.transpose(-2, -1))
    weights = exps / exps.sum(dim=-2, keepdim=True)
    return weights @ V, weights


@three("attention", "divided by d_k, not by its root", "sigmoid instead of softmax", "keys used as values")
def divided_by_d_k_sigmoid_keys(Q, K, V):
    weights = torch.sigmoid(torch.einsum("...qd,...kd->...qk", Q, K) / Q.size(-1))
    return torch.einsum("...qk,...kd->...qd", weights, K), weights


@three("attention", "root of the wrong size", "softmax over the batch", "weights transposed before V")
def root_of_d_v_over_batch_turned(Q, K, V):
    weights = F.softmax(Q @ K.mT / V.size(-1) ** 0.5, dim=0)
    return weights.mT @ V, weights


@three("attention", "multiplied by the root", "exp without normalising", "squeeze() without a dimension")
def times_the_root_exp_alone_squeezed(Q, K, V):
    weights = torch.exp(Q @ K.transpose(-2, -1) * math.sqrt(Q.size(-1)))
    return (weights @ V).squeeze(), weights.squeeze()


@three("masked_attention", "mask inverted", "no scaling", "NaN where a query may attend to nothing")
def inverted_unscaled_minus_infinity(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1)
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@three("masked_attention", "blocked scores set to 0", "divided by d_k, not by its root", "softmax over the queries")
def zeros_divided_by_d_k_over_queries(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / Q.size(-1)
    if mask is not None:
        scores = scores * mask
    weights = torch.softmax(scores, dim=-2)
    return weights @ V, weights


@three("masked_attention", "uniform weights where a query may attend to nothing", "no scaling", "keys used as values")
def minus_a_billion_unscaled_keys(Q, K, V, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", Q, K)
    if mask is not None:
        scores = torch.where(mask, scores, -1e9)
    weights = F.softmax(scores, dim=-1)
    return torch.einsum("...qk,...kd->...qd", weights, K), weights


@three("causal_mask", "upper triangle for lower", "aligned at the top left", "numbers instead of booleans")
def upper_triangle_of_ones_unaligned(query_len, key_len=None):
    key_len = query_len if key_len is None else key_len
    return torch.triu(torch.ones(query_len, key_len))


@three("padding_mask", "mask inverted", "pad_id ignored", "padding on the query axis")
def zeros_marked_down_the_rows(token_ids, pad_id=0):
    return (token_ids == 0).unsqueeze(2)


@three("find_the_bug_in_decoder_mask", "padding OR causal", "upper triangle for lower", "pad_id ignored")
def upper_or_zeros(token_ids, pad_id=0):
    T = token_ids.size(1)
    return torch.triu(torch.ones(T, T)).bool() | (token_ids != 0).unsqueeze(1)


# ---------------------------------------------------------------- wrong in ways that nobody listed


@unnamed("attention")
def scale_of_two_point_one(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / 2.1, dim=-1)
    return weights @ V, weights


@unnamed("attention")
def temperature_of_a_half(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)) / 0.5, dim=-1)
    return weights @ V, weights


@unnamed("attention")
def a_hundredth_more_weight(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1) + 0.01
    return weights @ V, weights


@unnamed("attention")
def softmax_then_square(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1) ** 2
    return weights @ V, weights


@unnamed("attention")
def least_similar_first(Q, K, V):
    weights = torch.softmax(-Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1)
    return weights @ V, weights


@unnamed("attention")
def scores_returned_for_weights(Q, K, V):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    return torch.softmax(scores, dim=-1) @ V, scores


@unnamed("attention")
def values_off_by_one(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1)
    return weights @ V.roll(1, dims=-2), weights


@wrong("attention", "another answer each time")
def dropout_on_the_weights(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1)
    return F.dropout(weights, 0.5) @ V, weights


@wrong("attention", "right for these sizes only", made="sizes hard-coded")  # log2(4) happens to be the root of 4
def logarithm_of_a_size_for_its_root(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.log2(Q.size(-1)), dim=-1)
    return weights @ V, weights


@unnamed("attention")
def gradient_doubled(Q, K, V):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1)
    output = weights @ V
    return 2 * output - output.detach(), weights


@unnamed("masked_attention")
def mask_off_by_one_key(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask.roll(1, dims=-1), torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@unnamed("masked_attention")
def self_is_always_allowed(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        blocked = ~(mask | torch.eye(Q.size(-2), K.size(-2), dtype=torch.bool))
        scores = scores.masked_fill(blocked, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@unnamed("causal_mask")
def two_too_far(query_len, key_len=None):
    key_len = query_len if key_len is None else key_len
    return torch.ones(query_len, key_len, dtype=torch.bool).tril(key_len - query_len + 2)


@unnamed("causal_mask")
def itself_and_the_one_before(query_len, key_len=None):
    key_len = query_len if key_len is None else key_len
    distance = torch.arange(query_len)[:, None] + key_len - query_len - torch.arange(key_len)
    return (distance >= 0) & (distance < 2)


@unnamed("padding_mask")
def first_token_blocked_too(token_ids, pad_id=0):
    mask = (token_ids != pad_id).unsqueeze(1)
    mask[:, :, 0] = False
    return mask


@unnamed("find_the_bug_in_decoder_mask")
def joined_by_exclusive_or(token_ids, pad_id=0):
    return create_causal_mask(token_ids.size(1)) ^ create_padding_mask(token_ids, pad_id)


@wrong("masked_attention", "masked after the softmax, then renormalised", made=None)
def renormalised_with_a_small_number_below(Q, K, V, mask=None):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1)
    if mask is not None:
        weights = weights * mask
        weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-9)
    return weights @ V, weights


@wrong("masked_attention", "masked after the softmax, then renormalised", made=None)
def renormalised_and_nan_removed(Q, K, V, mask=None):
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
        weights = (weights / weights.sum(dim=-1, keepdim=True)).nan_to_num(0.0)
    return weights @ V, weights


@wrong("attention", "shifted by the maximum of all rows", made=None)
def shifted_by_one_number(Q, K, V):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    exponentials = torch.exp(scores - scores.max())
    weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
    return weights @ V, weights
