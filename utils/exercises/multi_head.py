"""Exercises of lesson 04: splitting and merging heads, and multi-head attention as a class."""

import math

import torch
import torch.nn.functional as F

from utils.attention import MultiHeadAttention, merge_heads, scaled_dot_product_attention, split_heads
from utils.exercises.exercise import Exercise, Mistake, Probe
from utils.exercises.modules import runner
from utils.exercises.scaled_dot_product import ATTENTION_MISTAKES, MASK_MISTAKES, attention_by_steps
from utils.exercises.steps import keep

LAYERS = ("W_q", "W_k", "W_v", "W_o")


def split_by_steps(changes, x, num_heads):
    """`split_heads`, with some of its steps changed."""
    step = {**STEPS, **changes}
    return step["split_returned"](step["split"](x, num_heads))


def merge_by_steps(changes, heads):
    """`merge_heads`, with some of its steps changed."""
    step = {**STEPS, **changes}
    return step["merge_returned"](step["merge"](heads, heads.size(0), heads.size(2)))


def multi_head_by_steps(changes, num_heads, projections, query, key, value, mask=None):
    """`MultiHeadAttention` with these projections, one step a name, with some of its steps changed.

    Args:
        changes: by name of a step, the function to use instead; those of `attention_by_steps` among them.
        num_heads: H.
        projections: (4, d_model, d_model + 1), W_q, W_k, W_v and W_o, the last column of each its bias.
        query, key, value, mask: as for `MultiHeadAttention.forward`.
    """
    step = {**STEPS, **changes}
    B, T_q, _ = query.shape
    W_q, W_k, W_v, W_o = step["layers"](*step["biases"](projections))
    query, key, value = step["sources"](query, key, value)
    Q, K, V = (step["project"](W, x, num_heads, step["split"]) for W, x in ((W_q, query), (W_k, key), (W_v, value)))
    if mask is not None:
        mask = step["axis"](mask, B, num_heads)
    heads, weights = step["attend"](changes, Q, K, V, mask)
    return step["returned"](step["out"](W_o, step["merge"](heads, B, T_q)), weights)


def _linear(W, x):
    return F.linear(x, W[:, :-1], W[:, -1])


STEPS = {
    "biases": keep,
    "layers": lambda W_q, W_k, W_v, W_o: (W_q, W_k, W_v, W_o),
    "sources": lambda query, key, value: (query, key, value),
    "project": lambda W, x, H, split: split(x if W is None else _linear(W, x), H),
    "split": split_heads,
    "split_returned": keep,
    "axis": lambda mask, B, H: mask.unsqueeze(1),
    "attend": attention_by_steps,
    "merge": lambda heads, B, T: heads.transpose(1, 2).reshape(B, T, -1),
    "merge_returned": keep,
    "out": _linear,
    "returned": lambda output, weights: (output, weights),
}


# ---------------------------------------------------------------- the mistake bank


def _viewed(x, H):
    return x.view(x.size(0), H, x.size(1), -1)


def _interleaved(x, H):
    return x.view(*x.shape[:2], -1, H).permute(0, 3, 1, 2)


def _not_transposed(x, H):
    return x.view(*x.shape[:2], H, -1)


def _one_at_a_time_joined(heads, B, T):
    return heads.reshape(B, T, -1)


def _interleaved_back(heads, B, T):
    return heads.permute(0, 2, 3, 1).reshape(B, T, -1)


VIEWED = Mistake(
    "split by view without a transpose",
    "`view` only cuts the memory anew, in the order in which it lies: your head 0 holds the first tokens whole instead "
    "of a share of every token. Which axis alone should the cut be made from, and which two must change places then?",
    ({"split": _viewed},),
)
INTERLEAVED = Mistake(
    "heads interleaved",
    "Feature f goes to head f % H: a consistent split, but not the usual one, so weights that are copied from another "
    "model meet the wrong features. Of the two factors of d_model, which comes first in the cut: H or d_k?",
    ({"split": _interleaved},),
)
SPLIT_VIEW_AFTER_TRANSPOSE = Mistake(
    "view after transpose",
    "After a transpose the numbers lie in memory in another order than the axes say, and `view` never copies. Should "
    "d_model not be cut before anything changes places, while it is still the last axis?",
    ({"split": lambda x, H: x.transpose(1, 2).view(x.size(0), H, x.size(1), -1)},),
)
TRANSPOSED_FIRST = Mistake(
    "transposed before the cut",
    "After `transpose(1, 2)` the positions are the last axis, and your cut goes through them. On which axis must "
    "d_model stand when it is cut into heads?",
    ({"split": lambda x, H: x.transpose(1, 2).reshape(x.size(0), H, x.size(1), -1)},),
)
SIZES_EXCHANGED = Mistake(
    "number of heads and size of a head exchanged",
    "You cut d_model into d_k heads of H features each. `num_heads` is the number of pieces, not their size: which of "
    "the two factors of d_model is which? (`torch.split` takes a size, `chunk` a number of pieces.)",
    ({"split": lambda x, H: x.view(*x.shape[:2], -1, H).transpose(1, 2)},),
)
SPLIT_MISTAKES = (
    VIEWED,
    INTERLEAVED,
    SPLIT_VIEW_AFTER_TRANSPOSE,
    TRANSPOSED_FIRST,
    SIZES_EXCHANGED,
    Mistake(
        "heads left behind the positions",
        "Your result is (B, T, H, d_k), and the matrix products of attention work on the last two axes: the heads of a "
        "token would look at each other. Which two axes must change places, so that the positions come last but one?",
        ({"split": _not_transposed},),
    ),
    Mistake(
        "positions and features exchanged",
        "Each of your heads is turned: its rows are features. Which axis should stand last, the positions or d_k?",
        ({"split": lambda x, H: split_heads(x, H).transpose(2, 3)},),
    ),
    Mistake(
        "heads before the batch",
        "Your heads are the first axis and the samples the second. Along which `dim` should the heads be stacked?",
        ({"split": lambda x, H: split_heads(x, H).transpose(0, 1)},),
    ),
    Mistake(
        "heads folded into the batch",
        "The heads are right, but they share one axis with the samples, (B H, T, d_k). Which axis is missing, and how "
        "would a mask per sample find its sample?",
        (
            {"split": lambda x, H: split_heads(x, H).flatten(0, 1)},
            {"split": lambda x, H: _viewed(x, H).flatten(0, 1)},
        ),
    ),
    Mistake(
        "squeeze() without a dimension",
        "With a batch of one, one head or one token, your result has fewer axes. Which axis vanished, and does the "
        "caller expect it?",
        ({"split_returned": lambda heads: heads.squeeze()},),
    ),
)

NOT_TRANSPOSED_BACK = Mistake(
    "merged without a transpose",
    "The heads are right, the gluing is not: in memory all positions of head 0 come before head 1, so your first rows "
    "are made of head 0 alone. Which two axes must change places before H and d_k can be taken for one?",
    ({"merge": _one_at_a_time_joined},),
)
MERGE_VIEW_AFTER_TRANSPOSE = Mistake(
    "view after transpose",
    "After a transpose the numbers lie in memory in another order than the axes say, and `view` never copies. What "
    "does: `reshape`, or `contiguous` before the `view`?",
    ({"merge": lambda heads, B, T: heads.transpose(1, 2).view(B, T, -1)},),
)
INTERLEAVED_BACK = Mistake(
    "heads interleaved",
    "In your rows the first features of all heads come first, then the second ones, so the features of a head are "
    "scattered. What should stand side by side in a row: whole heads, or one feature of each?",
    ({"merge": _interleaved_back},),
)
MERGE_MISTAKES = (
    NOT_TRANSPOSED_BACK,
    MERGE_VIEW_AFTER_TRANSPOSE,
    INTERLEAVED_BACK,
    Mistake(
        "heads averaged or summed",
        "Your rows have d_k features, and what the heads found can no longer be told apart. How can a token keep what "
        "each of them found?",
        (
            {"merge": lambda heads, B, T: heads.mean(dim=1)},
            {"merge": lambda heads, B, T: heads.sum(dim=1)},
        ),
    ),
    Mistake(
        "only one head",
        "You return one of the heads. Where do the others go?",
        ({"merge": lambda heads, B, T: heads[:, 0]}, {"merge": lambda heads, B, T: heads[:, -1]}),
    ),
    Mistake(
        "joined along the positions",
        "Your heads stand one below the other, (B, H T, d_k): there are more rows than tokens. Along which axis must "
        "they be joined, so that each token has one row?",
        (
            {"merge": lambda heads, B, T: heads.flatten(1, 2)},
            {"merge": lambda heads, B, T: heads.transpose(1, 2).flatten(1, 2)},
        ),
    ),
    Mistake(
        "not merged",
        "The transpose is right, and the heads of a token stand together now, but they still have an axis of their "
        "own. How do the last two axes become one of length d_model?",
        ({"merge": lambda heads, B, T: heads.transpose(1, 2)},),
    ),
    Mistake(
        "wrong axes transposed",
        "The two axes that change places are not those of the heads and the positions. For one token, which two axes "
        "should lie side by side in memory, and last?",
        (
            {"merge": lambda heads, B, T: heads.transpose(2, 3).reshape(B, T, -1)},
            {"merge": lambda heads, B, T: heads.transpose(1, 3).reshape(B, T, -1)},
        ),
    ),
    Mistake(
        "squeeze() without a dimension",
        "With a batch of one or one token, your result has fewer axes. Which axis vanished, and does the caller expect "
        "it?",
        ({"merge_returned": lambda merged: merged.squeeze()},),
    ),
)


def _tied(number, other):
    """One projection where there should be two: `layers` with number `other` replaced."""
    return {"layers": lambda *layers: [layers[other if at == number else at] for at in range(4)]}


def _exchanged(one, other):
    order = {one: other, other: one}
    return {"layers": lambda *layers: [layers[order.get(at, at)] for at in range(4)]}


def _without_biases(*numbers):
    kept = torch.ones(4, 1, 1)
    kept[list(numbers)] = 0.0
    return {"biases": lambda projections: torch.cat([projections[..., :-1], projections[..., -1:] * kept], dim=-1)}


def _of_the_course(changes, Q, K, V, mask):
    """Attention as the reader may call it, which refuses a mask with fewer axes than the weights."""
    return scaled_dot_product_attention(Q, K, V, mask)


def _folded(attend):
    """Heads in the batch, and the mask of each sample repeated for its heads, without looking at how many there are."""

    def attend_folded(changes, Q, K, V, mask):
        B, H = Q.shape[:2]
        mask = None if mask is None else mask.repeat_interleave(H, dim=0)
        results = attend(changes, Q.flatten(0, 1), K.flatten(0, 1), V.flatten(0, 1), mask)
        return tuple(x.unflatten(0, (B, H)) for x in results)

    return {"axis": keep, "attend": attend_folded}


def _repeated_in_the_wrong_order(mask, B, H):
    return mask.repeat(H, 1, 1).unflatten(0, (B, H))


REPEATED_WRONGLY = Mistake(
    "mask repeated in the wrong order",
    "Whose padding does sample 0 wear? `repeat` puts the samples in the order 0 1 2 0 1 2, and the heads in the batch "
    "come as 0 0 0 1 1 1. What repeats each element before it goes on to the next?",
    (
        {"axis": lambda mask, B, H: _repeated_in_the_wrong_order(mask.expand(B, -1, -1), B, H)},
        {"axis": _repeated_in_the_wrong_order},
    ),
)
OF_ATTENTION = (
    *("no scaling", "divided by d_k, not by its root", "softmax over the queries", "mask ignored", "mask inverted"),
    *("NaN where a query may attend to nothing", "uniform weights where a query may attend to nothing"),
    *("blocked scores set to 0", "applied after the softmax, not renormalised", "exp without subtracting the maximum"),
)
MULTI_HEAD_MISTAKES = (
    VIEWED,
    Mistake(
        INTERLEAVED.name,
        INTERLEAVED.lead,
        (
            {"split": _interleaved, "merge": _interleaved_back},
            {"split": _interleaved},
            {"merge": _interleaved_back},
        ),
    ),
    SPLIT_VIEW_AFTER_TRANSPOSE,
    TRANSPOSED_FIRST,
    SIZES_EXCHANGED,
    NOT_TRANSPOSED_BACK,
    MERGE_VIEW_AFTER_TRANSPOSE,
    Mistake(
        "attention over the heads",
        "Your weights are (B, T, H, H): for each token, its heads look at each other. Tokens should look at tokens. "
        "Which two axes does the matrix product work on, and what must stand there?",
        (
            {"split": _not_transposed, "merge": _one_at_a_time_joined},
            {"split": _not_transposed},
            {"split": _not_transposed, "merge": lambda heads, B, T: merge_heads(heads)},
        ),
    ),
    Mistake(
        "no output projection",
        "Your output is the heads side by side: its first features come from head 0 alone. What mixes the heads?",
        ({"out": lambda W, merged: merged},),
    ),
    Mistake(
        "heads averaged or summed",
        "Your output has d_k features, and what the heads found can no longer be told apart. How can a token keep what "
        "each of them found, and what mixes them then?",
        (
            {"merge": lambda heads, B, T: heads.mean(dim=1), "out": lambda W, merged: merged},
            {"merge": lambda heads, B, T: heads.sum(dim=1), "out": lambda W, merged: merged},
        ),
    ),
    Mistake(
        "a projection inside a head",
        "Your layers take d_model features, and one of them gets the d_k features of a head (or of an average or a sum "
        "of heads). Which come before the split, and what must stand side by side before `W_o`?",
        (
            {"project": lambda W, x, H, split: _linear(W, split(x, H))},
            {"merge": lambda heads, B, T: heads},
            {"merge": lambda heads, B, T: heads.transpose(1, 2)},
            {"merge": lambda heads, B, T: heads[:, 0]},
        ),
    ),
    Mistake(
        "only one head",
        "Your output is what one of the heads found, d_k features. Does a loop keep the last head only? Where do the "
        "others go?",
        (
            {"merge": lambda heads, B, T: heads[:, 0], "out": lambda W, merged: merged},
            {"merge": lambda heads, B, T: heads[:, -1], "out": lambda W, merged: merged},
        ),
    ),
    Mistake(
        "K or V from the query's sequence",
        "In self-attention nobody would notice, but in cross-attention the other sequence supplies both keys and "
        "values. Which arguments do `W_k` and `W_v` get?",
        (
            {"sources": lambda query, key, value: (query, query, query)},
            {"sources": lambda query, key, value: (query, query, value)},
            {"sources": lambda query, key, value: (query, key, query)},
        ),
    ),
    Mistake(
        "key and value mixed up",
        "Here `key` and `value` are two tensors, and one of them goes where the other belongs, or is not used. Which "
        "does `W_k` get, and which `W_v`?",
        (
            {"sources": lambda query, key, value: (query, key, key)},
            {"sources": lambda query, key, value: (query, value, key)},
        ),
    ),
    Mistake(
        "scale of d_model",
        "You divide by the root of d_model, but inside a head the product q·k is over d_k features only. Which axis is "
        "summed over there?",
        ({"scale": lambda scores, Q, K, V: scores / math.sqrt(Q.size(1) * Q.size(-1))},),
    ),
    Mistake(
        "root of the number of heads",
        "You divide by the root of the number of heads. Over how many features is the product q·k summed?",
        ({"scale": lambda scores, Q, K, V: scores / math.sqrt(Q.size(1))},),
    ),
    Mistake(
        "W_q, W_k or W_v swapped",
        "Two of your projections are exchanged: with weights copied from a trained model, queries would be made by the "
        "matrix of something else. Which layer belongs to `query`, which to `key`, which to `value`?",
        (_exchanged(0, 1), _exchanged(1, 2), _exchanged(0, 2)),
    ),
    Mistake(
        "one projection for several",
        "One layer makes two or all of Q, K and V. What can three different ones learn that one cannot?",
        ({"layers": lambda W_q, W_k, W_v, W_o: (W_q, W_q, W_q, W_o)}, _tied(2, 1), _tied(1, 0)),
    ),
    Mistake(
        "a projection left out",
        "You split what came in as it is. What do `W_q`, `W_k` and `W_v` make of it first?",
        (
            {"layers": lambda W_q, W_k, W_v, W_o: (None, None, None, W_o)},
            {"layers": lambda W_q, W_k, W_v, W_o: (W_q, W_k, None, W_o)},
        ),
    ),
    Mistake(
        "no biases",
        "Your layers have no biases (`bias=False`), and the exercise asks for `nn.Linear(d_model, d_model)` as it is. "
        "What would become of weights copied from `nn.MultiheadAttention`, which bring some?",
        (_without_biases(0, 1, 2, 3), _without_biases(0, 1, 2)),
    ),
    Mistake(
        "mask without a head axis",
        "The mask is (B, T_q, T_k) and the weights are (B, H, T_q, T_k), so its batch lands on the heads, or does not "
        "fit. Where must an axis of size 1 stand, so that all heads of a sample share its mask?",
        (
            {"axis": keep},
            {"axis": keep, "attend": _of_the_course},
            {"axis": lambda mask, B, H: mask.unsqueeze(2)},
            {"axis": lambda mask, B, H: mask.unsqueeze(0), "attend": _of_the_course},
        ),
    ),
    REPEATED_WRONGLY,
    Mistake(
        "a mask for all samples repeated as if for one",
        "A mask (1, T_q, T_k) is for all samples, and repeated H times it fits one. What makes it (B, T_q, T_k) first "
        "(`expand`)?",
        (_folded(_of_the_course), _folded(attention_by_steps)),
    ),
    Mistake(
        "the first sample's mask for all",
        "Every sample wears the mask of sample 0. Which axis of the mask did your index take away?",
        ({"axis": lambda mask, B, H: mask[0]},),
    ),
    Mistake(
        "weights averaged over the heads",
        "Your weights have no axis for the heads, or one of size 1: they are the mean over the heads, as "
        "`nn.MultiheadAttention` returns it by default. What can the mean of two sharp heads not tell you?",
        (
            {"returned": lambda output, weights: (output, weights.mean(dim=1))},
            {"returned": lambda output, weights: (output, weights.mean(dim=1, keepdim=True))},
        ),
    ),
    Mistake(
        "weights of one head",
        "The weights that you return are those of one head. Does a loop keep the last ones only? What would gather "
        "those of all (`torch.stack`)?",
        (
            {"returned": lambda output, weights: (output, weights[:, 0])},
            {"returned": lambda output, weights: (output, weights[:, -1])},
        ),
    ),
    Mistake(
        "squeeze() without a dimension",
        "With a batch of one, one head or one query, your result has fewer axes. Which axis vanished, and does the "
        "caller expect it?",
        (
            {"returned": lambda output, weights: (output.squeeze(), weights.squeeze())},
            {"returned": lambda output, weights: (output, weights.squeeze())},
            {"returned": lambda output, weights: (output.squeeze(), weights)},
        ),
    ),
    *(mistake for mistake in MASK_MISTAKES + ATTENTION_MISTAKES if mistake.name in OF_ATTENTION),
)


# ---------------------------------------------------------------- probes


def _split_probe(name, seed, B, T, H, d_k, gradients=False):
    x = torch.randn(B, T, H * d_k, generator=torch.Generator().manual_seed(seed))
    return Probe(name, {"x": x, "num_heads": H}, {"B": B, "T": T, "H": H, "d_k": d_k, "d_model": H * d_k}, gradients)


def _merge_probe(name, seed, B, T, H, d_k, gradients=False):
    heads = torch.randn(B, H, T, d_k, generator=torch.Generator().manual_seed(seed))
    return Probe(name, {"heads": heads}, {"B": B, "T": T, "H": H, "d_k": d_k, "d_model": H * d_k}, gradients)


def _shape_probes(probe):
    return (
        probe("all sizes different", 1, 2, 5, 3, 4, gradients=True),
        probe("other sizes", 2, 3, 4, 2, 5),
        probe("as many tokens as heads", 3, 2, 3, 3, 4),
        probe("as many features in a head as heads", 4, 2, 5, 4, 4),
        probe("a batch of one", 5, 1, 5, 3, 4),
        probe("one head", 6, 2, 5, 1, 4),
        probe("one token", 7, 2, 1, 3, 4),
    )


def _small_split(T, H, d_k):
    x = torch.arange(1.0 * T * H * d_k).view(1, T, -1)
    return Probe("", {"x": x, "num_heads": H}, {"B": 1, "T": T, "H": H, "d_k": d_k, "d_model": H * d_k})


def _small_merge(T, H, d_k):
    heads = split_heads(*_small_split(T, H, d_k).arguments.values())
    return Probe("", {"heads": heads}, {"B": 1, "T": T, "H": H, "d_k": d_k, "d_model": H * d_k})


def _small_shapes(small):
    return tuple(small(*sizes) for sizes in ((1, 1, 2), (1, 2, 1), (2, 2, 1), (1, 2, 2), (2, 2, 2)))


def _probe(name, seed, B, T_q, T_k, H, d_k, mask=None, self_attention=False, low=1.0, gradients=False):
    d_model = H * d_k
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(B, T_q, d_model, generator=generator) * low
    key, value = (torch.randn(B, T_k, d_model, generator=generator) for _ in range(2))
    arguments = {
        "num_heads": H,
        "projections": torch.randn(4, d_model, d_model + 1, generator=generator) / math.sqrt(d_model),
        **{"query": query, "key": query if self_attention else key, "value": query if self_attention else value},
    }
    if mask is not None:
        arguments["mask"] = mask
    lengths = {"T": T_q} if self_attention else {"T_q": T_q, "T_k": T_k}
    sizes = {"B": B, **lengths, "H": H, "d_k": d_k, "d_model": d_model}
    return Probe(name, arguments, sizes, gradients, {"projections": "fixed, at random"})


_padding = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]]).bool().unsqueeze(1)
_masks = torch.randn(3, 6, 5, generator=torch.Generator().manual_seed(20)) > -0.3
_masks[..., 0] |= ~_masks.any(dim=-1)
_empty_row = _masks[:2].clone()
_empty_row[0, 1] = False

MULTI_HEAD = (
    _probe("all sizes different", 1, 2, 6, 5, 3, 4, gradients=True),
    _probe("other sizes", 2, 3, 4, 6, 2, 5),
    _probe("a mask (B, T_q, T_k)", 3, 2, 6, 5, 3, 4, mask=_masks[:2]),
    _probe("padding, a mask (B, 1, T_k)", 4, 2, 6, 5, 3, 4, mask=_padding),
    _probe(
        "self-attention and a causal mask (1, T, T)",
        *(5, 2, 5, 5, 3, 4),
        mask=torch.ones(1, 5, 5, dtype=torch.bool).tril(),
        self_attention=True,
    ),
    _probe("a query that may attend to nothing", 6, 2, 6, 5, 3, 4, mask=_empty_row, gradients=True),
    _probe("as many samples as heads, and a mask", 7, 3, 6, 5, 3, 4, mask=_masks),
    _probe("self-attention of as many tokens as heads", 8, 2, 3, 3, 3, 4, self_attention=True),
    _probe("as many queries as keys", 9, 2, 5, 5, 3, 4),
    _probe("a batch of one, and a mask", 10, 1, 6, 5, 3, 4, mask=_masks[:1]),
    _probe("one head", 11, 2, 6, 5, 1, 4),
    _probe("one query", 12, 2, 1, 5, 3, 4),
    _probe("large scores", 13, 2, 6, 5, 3, 4, low=200.0),
)

PLAIN = "W_q, W_k, W_v and W_o are the identity, their biases 0"
GRADED = "W_q, W_k, W_v and W_o are 1, 2, 3 and 4 times the identity, their biases 1"


def _small(B, T_q, T_k, H, d_k, mask=None, projections=PLAIN):
    """Inputs that can be followed by hand: small whole numbers, and projections that change little."""
    d_model = H * d_k
    factors = torch.ones(4) if projections == PLAIN else torch.arange(1.0, 5.0)
    matrices = torch.cat(
        [factors.view(4, 1, 1) * torch.eye(d_model), torch.full((4, d_model, 1), float(projections == GRADED))], dim=-1
    )
    count = torch.arange(1.0 * B * max(T_q, T_k) * d_model)
    arguments = {
        "num_heads": H,
        "projections": matrices,
        "query": (count[: B * T_q * d_model] % 3).view(B, T_q, d_model),
        "key": (count[: B * T_k * d_model] % 5 % 3).view(B, T_k, d_model),
        "value": count[: B * T_k * d_model].view(B, T_k, d_model),
    }
    if mask is not None:
        arguments["mask"] = torch.tensor(mask).bool()
    sizes = {"B": B, "T_q": T_q, "T_k": T_k, "H": H, "d_k": d_k, "d_model": d_model}
    return Probe("", arguments, sizes, told={"projections": projections})


SMALL = (
    _small(1, 1, 1, 1, 2),
    _small(1, 1, 1, 2, 1),
    _small(1, 1, 2, 2, 1),
    _small(1, 2, 2, 2, 1),
    _small(1, 2, 2, 2, 2),
    _small(1, 1, 2, 2, 1, mask=[[[1, 0]]]),
    _small(1, 1, 2, 2, 1, mask=[[[0, 0]]]),
    _small(1, 2, 2, 2, 1, mask=[[[1, 0], [1, 1]]]),
    _small(2, 1, 2, 2, 1, mask=[[[1, 1]], [[1, 0]]]),
    _small(2, 1, 2, 2, 1, mask=[[[1, 0]]]),
    _small(1, 2, 2, 2, 1, projections=GRADED),
)

RETURNS = {"output": "B T_q d_model", "weights": "B H T_q T_k"}

EXERCISES = (
    Exercise(
        id="split_heads",
        reference=split_heads,
        returns={"heads": "B H T d_k"},
        by_steps=split_by_steps,
        probes=_shape_probes(_split_probe),
        resized="other sizes",
        small=_small_shapes(_small_split),
        mistakes=SPLIT_MISTAKES,
        hints=(
            "Head 0 gets the first d_k features of every token. Which axis of x is cut, and into which two?",
            "Cut d_model, the last axis, into H and d_k, in this order. Then (B, T, H, d_k) is one exchange of two "
            "axes away from (B, H, T, d_k).",
            "`x.view(B, T, num_heads, d_model // num_heads).transpose(1, 2)`.",
        ),
        why="The cut goes through the features of each token alone, so every head sees every token, and the transpose "
        "only changes the order of the axes.",
        stretch="How many numbers does this copy? Compare `data_ptr()` of x and of the result.",
    ),
    Exercise(
        id="merge_heads",
        reference=merge_heads,
        returns={"merged": "B T d_model"},
        by_steps=merge_by_steps,
        probes=_shape_probes(_merge_probe),
        resized="other sizes",
        small=_small_shapes(_small_merge),
        mistakes=MERGE_MISTAKES,
        hints=(
            "A row of the result belongs to one token. Which two axes of (B, H, T, d_k) make up that row, and do they "
            "stand side by side?",
            "Undo the split backwards: first the two axes that changed places, then H and d_k become one again.",
            "`heads.transpose(1, 2).reshape(B, T, H * d_k)`.",
        ),
        why="After the transpose the features of all heads of a token stand side by side, and only then can the two "
        "axes be taken for one.",
        stretch="`reshape` copies here and `view` refuses to. Why can no `view` do it?",
    ),
    *(
        Exercise(
            reference=MultiHeadAttention,
            returns=RETURNS,
            by_steps=multi_head_by_steps,
            probes=MULTI_HEAD,
            resized="other sizes",
            small=SMALL,
            mistakes=MULTI_HEAD_MISTAKES,
            shared=("projections",),
            run=runner(LAYERS),
            **texts,
        )
        for texts in (
            {
                "id": "multi_head_attention",
                "hints": (
                    "Each head is the attention that you know, on d_k features. What must be done before it so that "
                    "all heads are one call, and what after it?",
                    "Project, split, attend, merge, project. `query` goes through `W_q`, `key` and `value` through "
                    "`W_k` and `W_v`; the mask (B, T_q, T_k) needs an axis for the heads.",
                    "`Q = split_heads(self.W_q(query), self.num_heads)` and likewise K and V; `heads, weights = "
                    "scaled_dot_product_attention(Q, K, V, None if mask is None else mask.unsqueeze(1))`; return "
                    "`self.W_o(merge_heads(heads))` and the weights.",
                ),
                "why": "The heads are one more axis in front of the positions, so attention runs once for all of them, "
                "and W_o is the only place where they meet.",
                "stretch": "How many parameters does the module have with 1 head, and how many with 8?",
            },
            {
                "id": "find_the_bug_in_multi_head",
                "hints": (
                    "With one sample it is right, with two that are padded differently it is not. What is there to "
                    "mix up?",
                    "Print which sample and head each row of the folded batch belongs to, then which sample each row "
                    "of the repeated mask belongs to.",
                    "The folded batch is sample 0 with all its heads, then sample 1 with all its heads. "
                    "`mask.expand(B, -1, -1).repeat_interleave(H, dim=0)` has that order; `repeat` has not.",
                ),
                "why": "With the heads folded into the batch, row b H + h is head h of sample b, so the mask of a "
                "sample has to come H times in a row.",
                "stretch": "Without the folding, `mask.unsqueeze(1)` would do. How much memory does each of the two "
                "take?",
                "given": "mask repeated in the wrong order",
            },
        )
    ),
)
