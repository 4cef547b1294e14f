"""Exercises on scaled dot-product attention, without and with a mask: probes and the mistake bank."""

import math
from dataclasses import replace

import torch

from utils.attention import scaled_dot_product_attention
from utils.exercises.exercise import COARSE, Exercise, Mistake, Probe
from utils.exercises.steps import exp_unshifted, fill, keep, renormalised


def attention_by_steps(changes, Q, K, V, mask=None):
    """The reference, one step a name, with some of its steps changed.

    Args:
        changes: by name of a step, the function to use instead.
        Q, K, V, mask: as for `scaled_dot_product_attention`.

    Returns:
        (output, weights), as the changed steps make them.
    """
    step = {**STEPS, **changes}
    Q, K, V = step["operands"](Q, K, V)
    scores = step["scale"](step["score"](Q, K), Q, K, V)
    if mask is not None:
        mask = step["read"](mask)
        scores = step["block"](scores, mask)
    weights = step["normalise"](scores, step["share"])
    if mask is not None:
        weights = step["clean"](weights, mask)
    weights = step["rescale"](weights, Q)
    return step["answer"](step["combine"](weights, V, Q, K), weights)


STEPS = {
    "operands": lambda Q, K, V: (Q, K, V),
    "score": lambda Q, K: Q @ K.transpose(-2, -1),
    "scale": lambda scores, Q, K, V: scores / math.sqrt(Q.size(-1)),
    "read": keep,
    "block": lambda scores, mask: scores.masked_fill(~mask, torch.finfo(scores.dtype).min),
    "normalise": lambda scores, share: share(scores, -1),
    "share": lambda scores, dim: scores.softmax(dim),
    "clean": lambda weights, mask: weights.masked_fill(~mask, 0.0),
    "rescale": keep,
    "combine": lambda weights, V, Q, K: weights @ V,
    "answer": lambda output, weights: (output, weights),
}


def _divide(by):
    """Change the scale: divide by what `by(Q, K, V)` gives."""
    return {"scale": lambda scores, Q, K, V: scores / by(Q, K, V)}


def _heads_wide(Q, K, V):  # d_model where there are heads, (B, H, T, d_k)
    return math.sqrt(Q.size(-1) * (Q.size(1) if Q.dim() == 4 else 1))


def _axis_one_of_the_scores(Q, K, V):
    return K.size(-2) if Q.dim() == 2 else Q.size(1)


def _without_an_axis(scores, share):  # the axis that F.softmax picks when it is told none
    return share(scores, 0 if scores.dim() == 3 else 1)


def _hard_argmax(scores, share):
    return torch.nn.functional.one_hot(scores.argmax(dim=-1), scores.size(-1)).to(scores.dtype)


def _exp_shifted_by_one_for_all(scores, dim):
    exponentials = (scores - scores.max()).exp()
    return exponentials / exponentials.sum(dim, keepdim=True)


def _renormalised_with_care(weights, mask):
    return weights * mask / (weights * mask).sum(dim=-1, keepdim=True).clamp_min(1e-9)


ATTENTION_MISTAKES = (
    Mistake(
        "no scaling",
        "Your scores are q·k as it is. What is the variance of q·k as d_k grows, and what does the softmax make of it?",
        (_divide(lambda Q, K, V: 1.0),),
    ),
    Mistake(
        "divided by d_k, not by its root",
        "The spread of q·k itself is √d_k, and you divide it by something that grows like d_k, so the spread of "
        "your scores shrinks like 1/√d_k. What divides it to 1? (In Python, `d_k ** 1/2` is d_k / 2.)",
        (
            _divide(lambda Q, K, V: Q.size(-1)),
            _divide(lambda Q, K, V: Q.size(-1) / 2),
            _divide(lambda Q, K, V: Q.size(-1) * 2),
        ),
    ),
    Mistake(
        "multiplied by the root",
        "Your softmax got sharper with d_k, not softer. In which direction should the scale move the scores?",
        (_divide(lambda Q, K, V: 1 / math.sqrt(Q.size(-1))),),
    ),
    Mistake(
        "root of the wrong size",
        "You divide by the root of a size, but which axis was summed over in q·k? Only the length of that "
        "axis makes the scores spread.",
        (
            _divide(lambda Q, K, V: math.sqrt(K.size(-2))),
            _divide(lambda Q, K, V: math.sqrt(Q.size(-2))),
            _divide(lambda Q, K, V: math.sqrt(V.size(-1))),
            _divide(_heads_wide),
            _divide(lambda Q, K, V: math.sqrt(Q.size(0))),
            _divide(lambda Q, K, V: math.sqrt(Q.size(1))),
            _divide(lambda Q, K, V: math.sqrt(K.size(1))),
            _divide(lambda Q, K, V: math.sqrt(_axis_one_of_the_scores(Q, K, V))),
        ),
    ),
    Mistake(
        "scaled after the softmax",
        "Your softmax sees scores without a scale, and the shares that reach V sum to 1/√d_k instead of 1, so "
        "something happened after the softmax. What is the scale meant to soften, the scores or the weights?",
        (
            {**_divide(lambda Q, K, V: 1.0), "rescale": lambda weights, Q: weights / math.sqrt(Q.size(-1))},
            {
                **_divide(lambda Q, K, V: 1.0),
                "combine": lambda weights, V, Q, K: weights @ V / math.sqrt(Q.size(-1)),
            },
        ),
    ),
    Mistake(
        "softmax over the queries",
        "Your softmax does not run along the keys but along the queries (with `dim=1` and heads, along the heads), so "
        "the rows of your weights do not sum to 1. For one query, which axis lists the keys it chooses from?",
        (
            {"normalise": lambda scores, share: share(scores, -2)},
            {"normalise": lambda scores, share: share(scores, 1)},
        ),
    ),
    Mistake(
        "softmax over the batch",
        "Your weights sum to 1 over the samples; with a single sample they would all be 1. For one query, "
        "which axis lists the keys it chooses from?",
        ({"normalise": lambda scores, share: share(scores, 0)}, {"normalise": _without_an_axis}),
    ),
    Mistake(
        "softmax over all entries",
        "All your weights together sum to 1. Should one query get less because another exists?",
        (
            {"normalise": lambda scores, share: share(scores.flatten(), 0).view_as(scores)},
            {"normalise": lambda scores, share: share(scores.flatten(-2), -1).view_as(scores)},
            {"normalise": lambda scores, share: share(scores.flatten(1), -1).view_as(scores)},
        ),
    ),
    Mistake(
        "no softmax",
        "Your weights are the scores themselves: some are negative, and their rows sum to anything. What "
        "turns a row of scores into shares of 1?",
        ({"normalise": keep},),
    ),
    Mistake(
        "divided by the sum without exp",
        "Your rows sum to 1, but a score can be negative, and so is its weight; and the sum of a row can be 0. What "
        "must be done to the scores first, so that every share is positive?",
        ({"normalise": lambda scores, share: scores / scores.sum(dim=-1, keepdim=True)},),
    ),
    Mistake(
        "sigmoid instead of softmax",
        "Each of your weights is between 0 and 1, yet a row does not sum to 1. Where do the keys compete?",
        ({"normalise": lambda scores, share: scores.sigmoid()},),
    ),
    Mistake(
        "exp without normalising",
        "Your weights are positive but their rows do not sum to 1. What does a softmax do after exp?",
        ({"normalise": lambda scores, share: scores.exp()},),
    ),
    Mistake(
        "hard argmax",
        "Each of your rows is a single 1. How would a gradient tell the model that another key was nearly as good?",
        ({"normalise": _hard_argmax},),
    ),
    Mistake(
        "exp without subtracting the maximum",
        "It is right for small scores, but exp(1000) overflows to infinity, and infinity divided by infinity "
        "is NaN. What can be subtracted from a whole row without changing its softmax?",
        ({"share": exp_unshifted},),
    ),
    Mistake(
        "shifted by the maximum of all rows",
        "You take the same number off every row. A row that lies far below it becomes all zeros, and 0 divided by 0 is "
        "NaN. Whose maximum should a row be shifted by (`keepdim=True` keeps it beside its row)?",
        ({"share": _exp_shifted_by_one_for_all},),
    ),
    Mistake(
        "Q and K swapped",
        "Row i of your weights belongs to key i. Row i of the output should mix values for query i: which of "
        "Q and K should give the rows?",
        ({"score": lambda Q, K: K @ Q.transpose(-2, -1)}, {"operands": lambda Q, K, V: (K, Q, V)}),
    ),
    Mistake(
        "weights transposed before V",
        "Your weights are right, but row i of your output mixes with column i of them. Which axis of the "
        "weights should meet the positions of V?",
        (
            {"combine": lambda weights, V, Q, K: weights.transpose(-2, -1) @ V},
            {"combine": lambda weights, V, Q, K: torch.einsum("...kq,...kd->...qd", weights, V)},
        ),
    ),
    Mistake(
        "keys used as values",
        "You found where to look and returned the address, not the content. Which tensor holds the content?",
        ({"combine": lambda weights, V, Q, K: weights @ K},),
    ),
    Mistake(
        "queries used as values",
        "You found where to look and returned the question, not the content. Which tensor holds the content?",
        (
            {"combine": lambda weights, V, Q, K: weights @ Q},
            {"combine": lambda weights, V, Q, K: torch.einsum("...qk,...kd->...qd", weights, Q)},
        ),
    ),
    Mistake(
        "squeeze() without a dimension",
        "With a batch of one, or one query, your result has fewer axes. Which axis vanished, and does the "
        "caller expect it?",
        (
            {"answer": lambda output, weights: (output.squeeze(), weights.squeeze())},
            {"answer": lambda output, weights: (output.squeeze(), weights)},
            {"answer": lambda output, weights: (output, weights.squeeze())},
            {"score": lambda Q, K: (Q @ K.transpose(-2, -1)).squeeze()},
            {"normalise": lambda scores, share: share(scores, -1).squeeze()},
        ),
    ),
    Mistake(
        "axes counted from the front",
        "It is right for (B, T, d), but with heads, (B, H, T, d), axis 1 or 2 is another one. How do you name "
        "an axis so that it stays the same however many stand before it?",
        (
            {"score": lambda Q, K: Q @ K.transpose(1, 2)},  # fails with heads, so any later step may count too
            {"score": lambda Q, K: Q @ K.permute(0, 2, 1)},
            {"normalise": lambda scores, share: share(scores, 2)},
            _divide(lambda Q, K, V: math.sqrt(Q.size(2))),
            {
                **_divide(lambda Q, K, V: math.sqrt(Q.size(2))),
                "normalise": lambda scores, share: share(scores, 2),
            },
        ),
    ),
)

MASK_MISTAKES = (
    Mistake(
        "mask inverted",
        "You attend exactly where you must not. In this course True means 'may attend', as in "
        "F.scaled_dot_product_attention; nn.MultiheadAttention means the opposite. Which pairs should your "
        "fill go to?",
        ({"read": lambda mask: ~mask},),
    ),
    Mistake(
        "blocked scores set to 0",
        "A blocked key still gets weight, because exp(0) = 1 is not nothing. Which score gives exp = 0?",
        ({"block": fill(0.0), "clean": keep},),
    ),
    Mistake(
        "applied after the softmax, not renormalised",
        "Your blocked weights are 0, but the rows no longer sum to 1: the mass that they had is lost. What if "
        "the blocked keys never entered the softmax?",
        ({"block": keep},),
    ),
    Mistake(
        "0 times -inf",
        "0 times -inf is NaN, and it is the allowed pairs that you multiply by 0. What picks a value instead of "
        "computing with it (`masked_fill`, `torch.where`)?",
        ({"block": lambda scores, mask: scores + (~mask).to(scores.dtype) * float("-inf"), "clean": keep},),
    ),
    Mistake(
        "NaN where a query may attend to nothing",
        "A row that is blocked throughout has no softmax: it is 0 divided by 0. What should such a query get, "
        "and after which step can you give it that?",
        (
            {"block": fill(float("-inf")), "clean": keep},
            {
                "block": lambda scores, mask: scores + torch.zeros_like(scores).masked_fill(~mask, float("-inf")),
                "clean": keep,
            },
            {"block": keep, "clean": renormalised},
        ),
    ),
    Mistake(
        "NaN gradients where a query may attend to nothing",
        "The weights look right, but the NaN of the blocked row comes back in the gradients. Can you keep the "
        "NaN from arising, instead of painting it over?",
        (
            {
                "block": lambda scores, mask: scores + torch.zeros_like(scores).masked_fill(~mask, float("-inf")),
                "clean": lambda weights, mask: weights.nan_to_num(0.0),
            },
            {"block": lambda scores, mask: scores + torch.zeros_like(scores).masked_fill(~mask, float("-inf"))},
            {
                "block": fill(float("-inf")),
                "clean": keep,
                "answer": lambda output, weights: (output.nan_to_num(0.0), weights.nan_to_num(0.0)),
            },
        ),
    ),
    Mistake(
        "uniform weights where a query may attend to nothing",
        "A row that is blocked throughout got equal weights on keys that it must not see. What should such a "
        "query get, and after which step can you give it that?",
        (
            {"clean": keep},
            {"block": lambda scores, mask: scores - 1e9 * ~mask, "clean": keep},
            {"block": fill(float("-inf")), "clean": lambda weights, mask: weights.nan_to_num(1 / mask.size(-1))},
        ),
    ),
    Mistake(
        "masked after the softmax, then renormalised",
        "On paper this is the same. But take a blocked score far above the allowed ones: the softmax gives it "
        "all of the "
        "1, the allowed keys are rounded to 0, and nothing is left to divide. What if the blocked keys never entered?",
        (
            {"block": keep, "clean": _renormalised_with_care},
            {"block": keep, "clean": lambda weights, mask: renormalised(weights, mask).nan_to_num(0.0)},
            {
                "block": keep,
                "clean": lambda weights, mask: torch.where(
                    mask.any(-1, keepdim=True), renormalised(weights, mask), 0.0
                ),
            },
        ),
    ),
    # The fills below come after the three above: where a mistake of another kind hides which fill it was, what
    # is seen is theirs.
    Mistake(
        "fill not low enough",
        "Your fill is a low score, but there can be lower ones: when the allowed scores are, the blocked keys "
        "win. Which "
        "number is below every score?",
        tuple({"block": fill(value), "clean": keep} for value in (-1.0, -5.0, -10.0, -100.0, -1e4))
        + tuple({"block": fill(value)} for value in (-10.0, -1e4))
        + tuple(
            {"block": lambda scores, mask, value=value: scores + value * ~mask, "clean": keep}
            for value in (-10.0, -100.0, -1e3, -1e4)
        ),
    ),
    Mistake(
        "wrong sign",
        "The blocked keys won all the weight, or made it NaN where their score is infinite. In which direction must a "
        "score go for its exp to vanish?",
        (
            {"block": fill(1e9), "clean": keep},
            {"block": fill(float("inf")), "clean": keep},
            {"block": lambda scores, mask: scores + 1e9 * ~mask, "clean": keep},
            {"block": lambda scores, mask: scores.masked_fill(~mask, torch.finfo(scores.dtype).max), "clean": keep},
        ),
    ),
    Mistake(
        "mask ignored",
        "Your result is the same as without a mask. Is the masked tensor the one that goes into the softmax? "
        "(`masked_fill` returns a new tensor; `masked_fill_` changes the old one.)",
        ({"block": keep, "clean": keep},),
    ),
    Mistake(
        "mask transposed",
        "Your rows and columns of the mask are exchanged; a causal mask turned so shows a token only itself and "
        "the future. Which "
        "axis of the mask stands for the queries?",
        ({"read": lambda mask: mask.transpose(-2, -1)},),
    ),
    Mistake(
        "boolean added to the scores as a number",
        "True and False became 1 and 0, so a blocked score is one point lower than it would be if allowed, and "
        "no more. "
        "How low must it be?",
        (
            {"block": lambda scores, mask: scores + mask, "clean": keep},
            {"block": lambda scores, mask: scores - (~mask).to(scores.dtype), "clean": keep},
        ),
    ),
)

HALF_PRECISION_FILL = Mistake(
    "-1e9 in half precision",
    "The largest float16 is 65504. Which fill is right for every dtype (`torch.finfo`, -inf)?",
    ({"block": fill(-1e9)}, {"block": fill(-1e9), "clean": keep}),
)


def _inputs(seed, sizes, leading, mask=None, low=1.0, dtype=torch.float32):
    """Random Q, K and V with these named sizes; `leading` names the dimensions before positions."""
    generator = torch.Generator().manual_seed(seed)
    before = [sizes[name] for name in leading]

    def normal(*last):
        return torch.randn(*before, *(sizes[name] for name in last), generator=generator).to(dtype)

    arguments = {"Q": normal("T_q", "d_k") * low, "K": normal("T_k", "d_k") * low, "V": normal("T_k", "d_v")}
    if mask is not None:
        arguments["mask"] = mask
    return arguments


def _probe(name, seed, leading, *numbers, gradients=False, **options):
    sizes = dict(zip([*leading, "T_q", "T_k", "d_k", "d_v"], numbers, strict=True))
    return Probe(name, _inputs(seed, sizes, leading, **options), sizes, gradients)


UNMASKED = (
    _probe("all sizes different", 1, ["B"], 2, 3, 5, 4, 6, gradients=True),
    _probe("other sizes", 2, ["B"], 3, 4, 2, 5, 7),
    _probe("as many queries as keys", 3, ["B"], 2, 5, 5, 4, 4),
    _probe("heads, (B, H, T, d)", 4, ["B", "H"], 2, 3, 4, 7, 5, 6),
    _probe("a batch of one", 5, ["B"], 1, 3, 5, 4, 6),
    _probe("one query", 6, ["B"], 2, 1, 5, 4, 6),
    _probe("no batch, (T, d)", 7, [], 3, 5, 4, 6),
    _probe("large scores", 8, ["B"], 2, 3, 5, 4, 6, low=40.0),
)

_random_mask = torch.tensor(
    [[[1, 0, 1, 0, 1], [0, 1, 0, 0, 0], [1, 1, 0, 1, 1]], [[0, 0, 1, 1, 0], [1, 1, 1, 0, 1], [0, 1, 0, 0, 1]]]
).bool()
_empty_row = _random_mask.clone()
_empty_row[0, 1] = False
_causal = torch.ones(5, 5, dtype=torch.bool).tril()
_padding = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]]).bool().unsqueeze(1)
_per_head = torch.arange(2 * 3 * 4 * 7).view(2, 3, 4, 7) % 5 != 0


def _low_allowed_scores(name, level):
    """Scores of about `level` where a query may attend and near 0 where it may not, so that a higher fill loses.

    In the second sample the other way round, so that it loses for an inverted mask as well.
    """
    probe = _probe(name, 9, ["B"], 2, 3, 5, 4, 6, mask=_random_mask)
    low = _random_mask == torch.tensor([True, False]).view(2, 1, 1)
    K = probe.arguments["K"].clone()
    # Query i is the unit vector i, so the score of a pair is one number of K over 2, and each pair can have its own.
    K[..., :3] += low.transpose(1, 2) * (2 * level + 0.02 * abs(level) * K[..., :3])
    return Probe(probe.name, {**probe.arguments, "Q": torch.eye(3, 4).repeat(2, 1, 1), "K": K}, probe.sizes)


MASKED = (
    _probe("a mask (B, T_q, T_k)", 11, ["B"], 2, 3, 5, 4, 6, mask=_random_mask, gradients=True),
    _probe("other sizes and a mask", 12, ["B"], 3, 2, 4, 5, 7, mask=_per_head[0, :, :2, :4]),
    _probe("a causal mask (T, T)", 13, ["B"], 2, 5, 5, 4, 6, mask=_causal),
    _probe("padding, a mask (B, 1, T_k)", 14, ["B"], 2, 3, 5, 4, 6, mask=_padding),
    _probe("a query that may attend to nothing", 15, ["B"], 2, 3, 5, 4, 6, mask=_empty_row, gradients=True),
    _low_allowed_scores("low scores on the allowed keys", -3_000),
    replace(_low_allowed_scores("very low scores on the allowed keys", -40_000), tolerance=COARSE),
    _probe("heads and a mask (B, H, T_q, T_k)", 16, ["B", "H"], 2, 3, 4, 7, 5, 6, mask=_per_head),
    *UNMASKED,
)


def _small(T_q, T_k, mask=None):
    """Inputs that can be followed by hand: d_k = 4, so that its root is 2, and small whole numbers."""
    sizes = {"B": 1, "T_q": T_q, "T_k": T_k, "d_k": 4, "d_v": 2}
    count = torch.arange(48.0)
    Q, K = (count[: T_q * 4] % 3).view(1, T_q, 4), (count[: T_k * 4] % 5 % 3).view(1, T_k, 4)
    arguments = {"Q": Q, "K": K, "V": count[: T_k * 2].view(1, T_k, 2)}
    return Probe("", arguments if mask is None else {**arguments, "mask": torch.tensor(mask).bool()}, sizes)


SMALL_UNMASKED = (_small(1, 1), _small(1, 2), _small(2, 2), _small(2, 3))
SMALL_MASKED = (
    _small(1, 2, [[1, 0]]),
    _small(1, 2, [[0, 0]]),
    _small(2, 2, [[1, 0], [1, 1]]),
    _small(2, 3, [[1, 0, 1], [0, 1, 1]]),
)

HINTS = (
    "For one query, what says how well each key fits, and what turns five such numbers into shares of 1?",
    "Three steps: scores from Q and K (which axis is summed over?), their scale, a softmax along the axis that "
    "lists the keys. Then the weights meet V.",
    "`scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))`, then `softmax(dim=-1)`, then `weights @ V`; "
    "return both.",
)
RETURNS = {"output": "... T_q d_v", "weights": "... T_q T_k"}

EXERCISES = (
    Exercise(
        id="attention",
        reference=scaled_dot_product_attention,
        returns=RETURNS,
        by_steps=attention_by_steps,
        probes=UNMASKED,
        resized="other sizes",
        small=SMALL_UNMASKED,
        mistakes=ATTENTION_MISTAKES,
        hints=HINTS,
        why="The matrix product sums over d_k for all pairs at once, and the softmax runs along the keys of each "
        "query, so no query and no sample can touch another.",
        stretch="If you add the same vector to every key, which weights change?",
    ),
    Exercise(
        id="masked_attention",
        reference=scaled_dot_product_attention,
        returns=RETURNS,
        by_steps=attention_by_steps,
        probes=MASKED,
        resized="other sizes and a mask",
        small=SMALL_MASKED + SMALL_UNMASKED,
        mistakes=MASK_MISTAKES + ATTENTION_MISTAKES,
        hints=(
            "A blocked key must get no weight at all, and the others must still share all of 1. So before which "
            "step must it be gone?",
            "Fill the blocked scores (where the mask is False) before the softmax, with a number below every score. "
            "Then think of the row that is blocked throughout.",
            "`scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)` and `weights = "
            "scores.softmax(dim=-1).masked_fill(~mask, 0.0)`, both only if mask is not None.",
        ),
        why="Blocked scores leave the softmax before it shares out the 1, and a row with nothing left to share is "
        "set to zero, with a gradient of zero.",
        stretch="Would your function still be right if the mask were the same for all heads, (B, 1, T_q, T_k)?",
        half=_probe("float16", 17, ["B"], 2, 3, 5, 4, 6, mask=_random_mask, dtype=torch.float16),
        half_mistake=HALF_PRECISION_FILL,
    ),
    Exercise(
        id="find_the_bug_in_attention",
        reference=scaled_dot_product_attention,
        returns=RETURNS,
        by_steps=attention_by_steps,
        probes=UNMASKED,
        resized="other sizes",
        small=SMALL_UNMASKED,
        mistakes=ATTENTION_MISTAKES,
        hints=(
            "Run it with d_k = 4 and four keys: it is right. With d_k = 4 and five keys it is not. What does the "
            "number of keys do in there?",
            "Print every size that the function uses. Which one has the wrong axis behind it?",
            "scores.size(-1) is T_k. The axis that q·k sums over is the last one of Q.",
        ),
        why="The variance of q·k is the number of products that are summed, and that is the last size of Q, "
        "never the number of keys.",
        stretch="Why did this bug go unnoticed in a test with as many keys as features?",
        given="root of the wrong size",
    ),
)
