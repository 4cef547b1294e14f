"""An exercise of lesson 02: the additive attention of Bahdanau."""

import math

import torch

from utils.attention import additive_attention
from utils.exercises.exercise import Exercise, Mistake, Probe


def additive_by_steps(changes, query, keys, W_q, W_k, v):
    """`additive_attention`, one step a name, with some of its steps changed."""
    step = {
        "project": lambda query, keys, W_q, W_k: (query @ W_q.T, keys @ W_k.T),
        "tile": lambda query, T_k: query.unsqueeze(1).expand(-1, T_k, -1),  # (B, T_k, hidden_dim)
        "join": lambda query, keys: torch.tanh(query + keys),
        "score": lambda hidden, v: hidden @ v,
        "normalise": lambda scores: scores.softmax(dim=-1),
        "combine": lambda weights, keys, projected: torch.einsum("bt,btd->bd", weights, keys),
        "answer": lambda context, weights: (context, weights),
        **changes,
    }
    for_query, for_keys = step["project"](query, keys, W_q, W_k)
    scores = step["score"](step["join"](step["tile"](for_query, keys.size(1)), for_keys), v)
    weights = step["normalise"](scores)
    return step["answer"](step["combine"](weights, keys, for_keys), weights)


def _tiled_in_the_wrong_order(query, T_k):
    return query.repeat(T_k, 1).view(query.size(0), T_k, -1)


def _last_only(weights):
    one = torch.zeros_like(weights)
    one[:, -1] = 1.0
    return one


TILED_WRONGLY = Mistake(
    "query tiled in the wrong order",
    "Sample 0 is scored with the decoder state of sample 1: `repeat` lays the whole batch down again and again, and "
    "`view` then cuts it elsewhere. What repeats each row before it goes on to the next, or needs no copies at all "
    "(`unsqueeze`, `expand`, `repeat_interleave`)?",
    ({"tile": _tiled_in_the_wrong_order},),
)
UNIFORM = Mistake(
    "uniform average",
    "Every key gets the same weight, whatever the query, so the context is one vector again: the bottleneck. What "
    "should the weights depend on?",
    (
        {"normalise": lambda scores: torch.full_like(scores.detach(), 1 / scores.size(-1))},
        {"combine": lambda weights, keys, projected: keys.mean(dim=1)},
    ),
)
LAST_ONLY = Mistake(
    "last state only",
    "The context is the last state of the encoder, whatever the query: the bottleneck again. Which of the states could "
    "the decoder need?",
    ({"normalise": _last_only}, {"combine": lambda weights, keys, projected: keys[:, -1]}),
)
SQUEEZED = Mistake(
    "squeeze() without a dimension",
    "With a batch of one, your result has fewer axes. Which axis vanished, and does the caller expect it?",
    (
        {"answer": lambda context, weights: (context.squeeze(), weights.squeeze())},
        {"answer": lambda context, weights: (context.squeeze(), weights)},
        {"answer": lambda context, weights: (context, weights.squeeze())},
        *(  # squeezed early, it is an error later, in the words of whichever product comes then
            {
                "normalise": lambda scores: scores.squeeze().softmax(dim=-1),
                "combine": lambda weights, keys, projected, product=product: product(weights, keys),
            }
            for product in (
                lambda weights, keys: (weights.unsqueeze(1) @ keys).squeeze(1),
                lambda weights, keys: torch.bmm(weights.unsqueeze(1), keys).squeeze(1),
                lambda weights, keys: torch.einsum("bt,btd->bd", weights, keys),
            )
        ),
    ),
)
UNSHIFTED = Mistake(
    "exp without subtracting the maximum",
    "It is right for small scores, but exp(1000) overflows to infinity, and infinity divided by infinity is NaN. What "
    "can be subtracted from a whole row without changing its softmax?",
    ({"normalise": lambda scores: scores.exp() / scores.exp().sum(dim=-1, keepdim=True)},),
)
OVER_THE_BATCH = Mistake(
    "softmax over the batch",
    "Your weights sum to 1 over the samples; with a single sample they would all be 1. Which axis lists the keys that "
    "one query chooses from?",
    ({"normalise": lambda scores: scores.softmax(dim=0)},),
)
NO_SOFTMAX = Mistake(
    "no softmax",
    "Your weights are the scores themselves: some are negative, and their rows sum to anything. What turns a row of "
    "scores into shares of 1?",
    ({"normalise": lambda scores: scores},),
)


ADDITIVE_MISTAKES = (
    Mistake(
        "no tanh",
        "Does another query change your weights? Without the tanh the query adds the same number to the scores of all "
        "keys. What does a softmax make of that?",
        ({"join": lambda query, keys: query + keys},),
    ),
    Mistake(
        "tanh outside v",
        "Your scores are squeezed to between -1 and 1, so no weight can be more than about 7 times another. How could "
        "such scores single out one key, and what should be squeezed instead?",
        (
            {"join": lambda query, keys: query + keys, "score": lambda hidden, v: torch.tanh(hidden @ v)},
            {"score": lambda hidden, v: torch.tanh(hidden @ v)},
        ),
    ),
    Mistake(
        "no v",
        "You add up the features of the tanh, each with the same say. What does `v` learn in this score?",
        (
            {"score": lambda hidden, v: hidden.sum(dim=-1)},
            {"score": lambda hidden, v: hidden.mean(dim=-1)},
        ),
    ),
    TILED_WRONGLY,
    Mistake(
        "query without an axis for the keys",
        "Lined up from the right, (B, hidden_dim) meets (B, T_k, hidden_dim) with its batch on the axis of the keys. "
        "With as many samples as keys nobody notices. Where must an axis of size 1 stand?",
        ({"tile": lambda query, T_k: query}, {"tile": lambda query, T_k: query.unsqueeze(0)}),
    ),
    Mistake(
        "context from the projected states",
        "The projection is there to compare keys with the query. What should the decoder receive, the keys as the "
        "encoder made them, or as they were made comparable?",
        ({"combine": lambda weights, keys, projected: torch.einsum("bt,bth->bh", weights, projected)},),
    ),
    Mistake(
        "W_q and W_k swapped",
        "Each matrix has its own input: W_q is (hidden_dim, query_dim) and W_k is (hidden_dim, key_dim). Which one "
        "meets the query, and who would notice if the two sizes were equal?",
        ({"project": lambda query, keys, W_q, W_k: (query @ W_k.T, keys @ W_q.T)},),
    ),
    Mistake(
        "a matrix not transposed",
        "A matrix (hidden_dim, query_dim) stands on the right of rows (B, query_dim), and the axis that is summed over "
        "is not query_dim. Which of its axes should meet the features, and who would notice if all sizes were equal?",
        (
            {"project": lambda query, keys, W_q, W_k: (query @ W_q, keys @ W_k)},
            {"project": lambda query, keys, W_q, W_k: (query @ W_q, keys @ W_k.T)},
            {"project": lambda query, keys, W_q, W_k: (query @ W_q.T, keys @ W_k)},
        ),
    ),
    Mistake(
        "a dot product instead of the additive score",
        "You multiply query and key, feature by feature: the idea of Luong's scores. What does Bahdanau's score do "
        "with the two projections before the tanh?",
        (
            {"join": lambda query, keys: query * keys, "score": lambda hidden, v: hidden.sum(dim=-1)},
            {
                "join": lambda query, keys: query * keys,
                "score": lambda hidden, v: hidden.sum(dim=-1) / math.sqrt(hidden.size(-1)),
            },
            {"join": lambda query, keys: query * keys},
            {"join": lambda query, keys: torch.tanh(query * keys)},
            {
                "project": lambda query, keys, W_q, W_k: (query, keys),
                "join": lambda query, keys: query * keys,
                "score": lambda hidden, v: hidden.sum(dim=-1),
            },
        ),
    ),
    Mistake(
        "the query is left out",
        "Your scores are made of the keys alone, so every query looks at the same place. Where should the query come "
        "in?",
        ({"join": lambda query, keys: torch.tanh(keys)},),
    ),
    Mistake(
        "scaled by a root",
        "Your scores are divided by the root of a size. That is for a dot product, whose spread grows with the number "
        "of products that are added. Does the formula here have a scale?",
        ({"score": lambda hidden, v: hidden @ v / math.sqrt(hidden.size(-1))},),
    ),
    UNIFORM,
    LAST_ONLY,
    OVER_THE_BATCH,
    NO_SOFTMAX,
    UNSHIFTED,
    SQUEEZED,
)


def _additive_probe(name, seed, B, T_k, query_dim, key_dim, hidden_dim, scale=1.0, gradients=False):
    generator = torch.Generator().manual_seed(seed)
    arguments = {
        "query": torch.randn(B, query_dim, generator=generator),
        "keys": torch.randn(B, T_k, key_dim, generator=generator),
        "W_q": torch.randn(hidden_dim, query_dim, generator=generator),
        "W_k": torch.randn(hidden_dim, key_dim, generator=generator),
        "v": torch.randn(hidden_dim, generator=generator) * scale,
    }
    sizes = {"B": B, "T_k": T_k, "query_dim": query_dim, "key_dim": key_dim, "hidden_dim": hidden_dim}
    return Probe(name, arguments, sizes, gradients)


ADDITIVE = (
    _additive_probe("all sizes different", 1, 3, 5, 4, 6, 7, gradients=True),
    _additive_probe("other sizes", 2, 2, 4, 5, 3, 6),
    _additive_probe("a batch of one", 3, 1, 5, 4, 6, 7),
    _additive_probe("as many samples as keys", 4, 4, 4, 5, 6, 7),
    _additive_probe("features of one size", 5, 3, 4, 5, 5, 5),
    _additive_probe("large scores", 6, 3, 5, 4, 6, 7, scale=200.0),
)


def _small_additive(B, T_k):
    """Inputs that can be followed by hand: matrices that only pick features, and small whole numbers."""
    count = torch.arange(24.0)
    arguments = {
        "query": (count[: B * 2] % 3).view(B, 2),
        "keys": (count[: B * T_k * 2] % 5 % 3).view(B, T_k, 2),
        "W_q": torch.eye(2),
        "W_k": torch.eye(2).flip(0),
        "v": torch.tensor([2.0, 1.0]),
    }
    return Probe("", arguments, {"B": B, "T_k": T_k, "query_dim": 2, "key_dim": 2, "hidden_dim": 2})


EXERCISES = (
    Exercise(
        id="additive_attention",
        reference=additive_attention,
        returns={"context": "B key_dim", "weights": "B T_k"},
        by_steps=additive_by_steps,
        probes=ADDITIVE,
        resized="other sizes",
        small=(_small_additive(1, 1), _small_additive(1, 2), _small_additive(1, 3), _small_additive(2, 2)),
        mistakes=ADDITIVE_MISTAKES,
        shared=("W_q", "W_k", "v"),
        hints=(
            "For one query and one key, what has to be done before the two can be added, and what makes one number of "
            "the sum?",
            "W_q and W_k bring both to hidden_dim features. The query is the same for all keys of its sample: where "
            "does its axis of size 1 stand? Then tanh, v, a softmax over the keys, and the average of the keys.",
            "`hidden = torch.tanh((query @ W_q.T).unsqueeze(1) + keys @ W_k.T)`, `weights = torch.softmax(hidden @ v, "
            "dim=-1)`, `context = (weights.unsqueeze(1) @ keys).squeeze(1)`.",
        ),
        why="The tanh stands between the sum and v, so what the query adds to a score depends on the key, and the "
        "softmax cannot cancel it.",
        stretch="`keys @ W_k.T` is the same at every step of the decoder. What could be computed once for a sentence, "
        "and what could not?",
    ),
)
