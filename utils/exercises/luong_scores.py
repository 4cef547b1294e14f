"""An exercise of lesson 02: the three scores of Luong."""

import math

import torch

from utils.attention import luong_score
from utils.exercises.exercise import Exercise, Mistake, Probe
from utils.exercises.recurrent_attention import TILED_WRONGLY


def luong_by_steps(changes, query, keys, score, W=None, v=None):
    """`luong_score`, one step a name, with some of its steps changed."""
    step = {
        "dot": lambda query, keys, W: _dot(query, keys),
        "general": lambda query, keys, W, v: _dot(query, keys @ W.T),
        "concat": _concat,
        "tile": lambda query, T_k: query.unsqueeze(1).expand(-1, T_k, -1),
        "pair": lambda query, keys: torch.cat([query, keys], dim=-1),
        "hidden": lambda pairs, W: torch.tanh(pairs @ W.T),
        "weigh": lambda hidden, v: hidden @ v,
        "answer": lambda scores: scores,
        **changes,
    }
    if score == "dot":
        return step["answer"](step["dot"](query, keys, W))
    if score == "general":
        return step["answer"](step["general"](query, keys, W, v))
    return step["answer"](step["concat"](step, query, keys, W, v))


def _dot(query, keys):
    return torch.einsum("bd,btd->bt", query, keys)


def _added(query, keys):
    return torch.tanh(query.unsqueeze(1) + keys).sum(dim=-1)


def _concat(step, query, keys, W, v):
    pairs = step["pair"](step["tile"](query, keys.size(1)), keys)
    return step["weigh"](step["hidden"](pairs, W), v)


def _each_query_for_all(query, keys):
    """The product (B, d) @ (B, d, T_k): every query against the keys of every sample."""
    return query @ keys.transpose(-2, -1)


def _divided(root):
    return {
        "dot": lambda query, keys, W: _dot(query, keys) / root(query, keys),
        "general": lambda query, keys, W, v: _dot(query, keys @ W.T) / root(query, keys),
    }


def _root_of_query_dim(query, keys):
    return math.sqrt(query.size(-1))


LUONG_MISTAKES = (
    Mistake(
        "divided by a root",
        "You divide by the root of d, as in scaled dot-product attention. Luong et al. did not: do their formulas have "
        "a scale?",
        (
            {"dot": _divided(_root_of_query_dim)["dot"]},
            _divided(_root_of_query_dim),
            {
                **_divided(_root_of_query_dim),
                "weigh": lambda hidden, v: hidden @ v / math.sqrt(hidden.size(-1)),
            },
        ),
    ),
    Mistake(
        "W transposed",
        "With W of shape (query_dim, key_dim), W k is `keys @ W.T`: rows of keys stand on the left. Which of its axes "
        "should meet the features of the keys, and who would notice if the two sizes were equal?",
        ({"general": lambda query, keys, W, v: _dot(query, keys @ W)},),
    ),
    Mistake(
        "W left out of general",
        "Your general score is the dot product, so it cannot compare a query and a key of different sizes. What "
        "stands between the two?",
        ({"general": lambda query, keys, W, v: _dot(query, keys)},),
    ),
    Mistake(
        "general instead of dot",
        "Your dot score uses W when it is given one. Is it `score` or `W` that says which formula is asked for?",
        (
            {"dot": lambda query, keys, W: _dot(query, keys @ W.T)},
            {"dot": lambda query, keys, W: _dot(query, keys if W is None else keys @ W.T)},
        ),
    ),
    Mistake(
        "concat in the order [k; q]",
        "The sizes fit either way, but the columns of W are for the query first. Which of the two comes first in "
        "[q; k]?",
        ({"pair": lambda query, keys: torch.cat([keys, query], dim=-1)},),
    ),
    Mistake(
        "no tanh",
        "Without the tanh, concat is the sum of a number for the query and one for the key. What does the softmax make "
        "of a number that all keys of a query share?",
        ({"hidden": lambda pairs, W: pairs @ W.T},),
    ),
    Mistake(
        "tanh outside v",
        "Your concat scores are squeezed to between -1 and 1, so no weight can be more than about 7 times another. "
        "What should be squeezed instead?",
        (
            {"hidden": lambda pairs, W: pairs @ W.T, "weigh": lambda hidden, v: torch.tanh(hidden @ v)},
            {"weigh": lambda hidden, v: torch.tanh(hidden @ v)},
        ),
    ),
    Mistake(
        "no v",
        "You add up the features of the tanh, each with the same say. What does `v` learn in this score?",
        (
            {"weigh": lambda hidden, v: hidden.sum(dim=-1)},
            {"weigh": lambda hidden, v: hidden.mean(dim=-1)},
        ),
    ),
    TILED_WRONGLY,
    Mistake(
        "a dot product instead of concat",
        "Your concat score multiplies query and key. Which of the three formulas has a tanh and adds?",
        (
            {"concat": lambda step, query, keys, W, v: _dot(query, keys)},
            {"concat": lambda step, query, keys, W, v: _dot(query, keys @ W.T)},
        ),
    ),
    Mistake(
        "concat instead of a dot product",
        "You add query and key inside a tanh where a product is asked for: the idea of Bahdanau's score. Which "
        "operation joins the two in dot and in general?",
        (
            {"general": lambda query, keys, W, v: _added(query, keys @ W.T)},
            {"dot": lambda query, keys, W: _added(query, keys)},
            {
                "dot": lambda query, keys, W: _added(query, keys),
                "general": lambda query, keys, W, v: _added(query, keys @ W.T),
            },
        ),
    ),
    Mistake(
        "query without an axis for the keys",
        "Your query is (B, query_dim), and the keys have an axis more. Which axis do torch's rules give its batch to, "
        "in `*` and in `@`? Where must an axis of size 1 stand?",
        (
            {
                "dot": lambda query, keys, W: _each_query_for_all(query, keys),
                "general": lambda query, keys, W, v: _each_query_for_all(query, keys @ W.T),
            },
            {"dot": lambda query, keys, W: _each_query_for_all(query, keys)},
            {"general": lambda query, keys, W, v: _each_query_for_all(query, keys @ W.T)},
            {
                "dot": lambda query, keys, W: (query * keys).sum(dim=-1),
                "general": lambda query, keys, W, v: (query * (keys @ W.T)).sum(dim=-1),
            },
            {"dot": lambda query, keys, W: (query * keys).sum(dim=-1)},
            {"general": lambda query, keys, W, v: (query * (keys @ W.T)).sum(dim=-1)},
        ),
    ),
    Mistake(
        "softmax taken already",
        "Your rows sum to 1: these are weights. The function is asked for scores; who takes their softmax, once "
        "padding is blocked?",
        (
            {"answer": lambda scores: scores.softmax(dim=-1)},
            {"answer": lambda scores: scores.softmax(dim=0)},
        ),
    ),
    Mistake(
        "squeeze() without a dimension",
        "With a batch of one, or one key, your result has fewer axes. Which axis vanished, and does the caller "
        "expect it?",
        (
            {"answer": lambda scores: scores.squeeze()},
            {
                "dot": lambda query, keys, W: _dot(query, keys).squeeze(),
                "general": lambda query, keys, W, v: _dot(query, keys @ W.T).squeeze(),
            },
            {"weigh": lambda hidden, v: (hidden @ v).squeeze()},
        ),
    ),
)


def _luong_probe(name, seed, score, B, T_k, query_dim, key_dim, hidden_dim=None, with_W=True, gradients=False):
    generator = torch.Generator().manual_seed(seed)
    sizes = {"B": B, "T_k": T_k, "query_dim": query_dim, "key_dim": key_dim}
    arguments = {
        "query": torch.randn(B, query_dim, generator=generator),
        "keys": torch.randn(B, T_k, key_dim, generator=generator),
        "score": score,
    }
    if score == "concat":
        sizes |= {"hidden_dim": hidden_dim, "query_dim + key_dim": query_dim + key_dim}
        arguments["W"] = torch.randn(hidden_dim, query_dim + key_dim, generator=generator)
        arguments["v"] = torch.randn(hidden_dim, generator=generator)
    elif score == "general" or with_W:
        arguments["W"] = torch.randn(query_dim, key_dim, generator=generator)
    return Probe(name, arguments, sizes, gradients)


LUONG = (
    _luong_probe("concat, all sizes different", 1, "concat", 3, 5, 4, 6, 7, gradients=True),
    _luong_probe("concat, other sizes", 2, "concat", 2, 4, 5, 3, 6),
    _luong_probe("general, all sizes different", 3, "general", 3, 5, 4, 6, gradients=True),
    _luong_probe("dot", 4, "dot", 3, 5, 4, 4, with_W=False, gradients=True),
    _luong_probe("dot, with a W that it does not need", 5, "dot", 3, 5, 4, 4),
    _luong_probe("general, features of one size", 6, "general", 3, 5, 4, 4),
    _luong_probe("concat, features of one size", 7, "concat", 3, 5, 4, 4, 4),
    _luong_probe("dot, as many samples as keys", 8, "dot", 4, 4, 5, 5, with_W=False),
    _luong_probe("general, as many samples as keys", 9, "general", 4, 4, 5, 6),
    _luong_probe("dot, a batch of one", 10, "dot", 1, 5, 4, 4, with_W=False),
    _luong_probe("general, a batch of one", 11, "general", 1, 5, 4, 6),
    _luong_probe("concat, a batch of one", 12, "concat", 1, 5, 4, 6, 7),
)


def _small_luong(score, T_k):
    count = torch.arange(12.0)
    arguments = {
        "query": torch.tensor([[1.0, 2.0]]),
        "keys": ((count[: T_k * 2] + 1) % 5 % 3).view(1, T_k, 2),
        "score": score,
    }
    if score == "general":
        arguments["W"] = torch.tensor([[1.0, 1.0], [0.0, 1.0]])
    if score == "concat":
        arguments["W"] = torch.tensor([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, -1.0]])
        arguments["v"] = torch.tensor([2.0, 1.0])
    return Probe("", arguments, {"B": 1, "T_k": T_k, "query_dim": 2, "key_dim": 2})


SMALL_LUONG = tuple(_small_luong(score, T_k) for T_k in (1, 2) for score in ("dot", "general", "concat"))


EXERCISES = (
    Exercise(
        id="luong_score",
        reference=luong_score,
        returns={"scores": "B T_k"},
        by_steps=luong_by_steps,
        probes=LUONG,
        resized="concat, other sizes",
        small=SMALL_LUONG,
        mistakes=LUONG_MISTAKES,
        shared=("W", "v"),
        hints=(
            "Which of the three formulas multiply query and key, and which one adds them?",
            "dot and general end in the same product, (B, T_k, query_dim) with (B, query_dim, 1). For concat, each key "
            "needs the query beside it: which axis is the query missing?",
            '`projected = keys if score == "dot" else keys @ W.T`, then `(projected @ query.unsqueeze(-1))'
            ".squeeze(-1)`. For concat, `pairs = torch.cat([query.unsqueeze(1).expand(-1, keys.size(1), -1), keys], "
            "dim=-1)`, then `torch.tanh(pairs @ W.T) @ v`.",
        ),
        why="All three give one number for each query and key; dot and general do it with one matrix product, and "
        "concat has to build every pair first.",
        stretch="`W [q; k]` is a part of W times q plus the other part times k. How far is concat then from the "
        "additive score?",
    ),
)
