"""Exercises of lesson 06: attention to another sequence, and its mask."""

import torch

from utils.cross_attention import cross_attention
from utils.exercises.exercise import Exercise, Mistake, Probe
from utils.exercises.multi_head import MULTI_HEAD_MISTAKES
from utils.exercises.self_attention import (
    SELF_ATTENTION_MISTAKES,
    first_tokens,
    fixed_attention,
    named,
    random_tensor,
    zeros_for_padding,
)
from utils.exercises.steps import keep
from utils.masks import create_causal_mask


def cross_attention_by_steps(changes, x, memory, attend, is_target, is_source):
    """`cross_attention`, one step a name, with some of its steps changed."""
    step = {
        "memory": keep,
        "inputs": lambda x, memory: (x, memory, memory),
        "real": lambda is_target, is_source: is_source,
        "place": lambda real, is_target: real.unsqueeze(1),  # (B, 1, S)
        "causal": keep,
        "mask": keep,
        "output": lambda output, x, is_target: output,
        "weights": lambda weights, mask: weights,
        "returned": lambda output, weights: (output, weights),
        **changes,
    }
    mask = step["place"](step["real"](is_target, is_source), is_target)
    mask = step["causal"](mask, x.size(1), memory.size(1))
    inputs = step["inputs"](x, step["memory"](memory, is_source))
    output, weights = attend(*inputs, step["mask"](mask))
    return step["returned"](step["output"](output, x, is_target), step["weights"](weights, mask))


def _all_allowed(real, *unused):
    return torch.ones_like(real).unsqueeze(1)


def _top_left(T, S):
    return torch.ones(T, S, dtype=torch.bool).tril()


def _target(is_target, is_source):
    return is_target


CROSS_ATTENTION_MISTAKES = (
    Mistake(
        "the source's padding not masked",
        "Padding of the source is looked at. Where does your function use `is_source`?",
        ({"mask": lambda mask: None}, {"place": _all_allowed}),
    ),
    Mistake(
        "the source asks, the target answers",
        "Your weights have a row for each token of the source. Which of the two sequences wants to know something, and "
        "how many rows must come out?",
        (
            {"inputs": lambda x, memory: (memory, x, x)},
            {"inputs": lambda x, memory: (memory, x, x), "real": _target},
        ),
    ),
    Mistake(
        "keys and values from x",
        "Queries, keys and values are all of the target: that is self-attention. Which two of them must come from the "
        "source?",
        (
            {"inputs": lambda x, memory: (x, x, x)},
            {"inputs": lambda x, memory: (x, x, x), "real": _target},
        ),
    ),
    Mistake(
        "keys from x",
        "Your values are of the source, but they are found by keys of the target. Which sequence must each key and its "
        "value come from?",
        ({"inputs": lambda x, memory: (x, x, memory)},),
    ),
    Mistake(
        "values from x",
        "You look for the right token of the source and bring back one of the target. Which sequence must each key and "
        "its value come from?",
        ({"inputs": lambda x, memory: (x, memory, x)},),
    ),
    Mistake(
        "the target's mask",
        "Your mask is made from `is_target`, and the keys are tokens of the source. Which of the two says where the "
        "source has padding?",
        ({"real": _target}, {"real": _target, "place": lambda real, is_target: real.unsqueeze(2)}),
    ),
    Mistake(
        "padding on the query axis",
        "The source has padding, and its tokens are the keys. Which axis of a mask (B, T, S) lists them, and where "
        "must an axis of size 1 stand in `is_source`?",
        ({"place": lambda real, is_target: real.unsqueeze(2)},),
    ),
    Mistake(
        "padding queries blocked too",
        "The keys are right, but the rows of the target's padding are blocked throughout. Does anyone read the output "
        "of a padding token?",
        ({"place": lambda real, is_target: real.unsqueeze(1) & is_target.unsqueeze(2)},),
    ),
    Mistake(
        "source OR target",
        "A key is allowed as soon as the query is a token, so padding of the source comes in. Must one of your masks "
        "allow it, or both, and is the target's needed at all?",
        ({"place": lambda real, is_target: real.unsqueeze(1) | is_target.unsqueeze(2)},),
    ),
    Mistake(
        "is_source without an axis for the queries",
        "A mask of two axes is read as (T, S), so your (B, S) puts the batch on the queries, or does not fit. Where "
        "must an axis of size 1 stand, so that it becomes (B, 1, S)?",
        ({"place": lambda real, is_target: real},),
    ),
    Mistake(
        "one sample's padding for all",
        "Every sample gets one and the same padding, that of one sample or of all together. Whose row of `is_source` "
        "does sample 1 need?",
        (
            {"real": lambda is_target, is_source: is_source[:1]},
            {"real": lambda is_target, is_source: is_source.all(dim=0, keepdim=True)},
            {"real": lambda is_target, is_source: is_source.any(dim=0, keepdim=True)},
        ),
    ),
    Mistake(
        "a causal mask on the source",
        "The later a token of the source stands, the fewer tokens of the target may look at it. The whole source is "
        "there before the first word is written: is any of it the future?",
        (
            {"causal": lambda mask, T, S: mask & create_causal_mask(T, S)},
            {"causal": lambda mask, T, S: mask & _top_left(T, S)},
            {"causal": lambda mask, T, S: mask & create_causal_mask(T)},
        ),
    ),
    Mistake(
        "mask inverted",
        "Your True marks what must not be attended to. In this course True means 'may attend'; "
        "`nn.MultiheadAttention` means the opposite. Which does `attend` take, and what is True in `is_source`?",
        ({"mask": lambda mask: ~mask},),
    ),
    Mistake(
        "padding set to zero, not masked",
        "You set the source's padding to 0 before, but a key of zeros still has a score, and exp of any score is more "
        "than 0. What gives a key the weight 0?",
        ({"memory": zeros_for_padding, "mask": lambda mask: None},),
    ),
    Mistake(
        "the weights masked afterwards",
        "You blank the weights that `attend` returned; its output was averaged with all of them. When must a mask be "
        "there, so that the output knows of it?",
        ({"mask": lambda mask: None, "weights": lambda weights, mask: weights * mask.unsqueeze(1)},),
    ),
    Mistake(
        "weights of one head",
        "The weights that you return are those of one head. Which axis of (B, H, T, S) did your index take away?",
        (
            {"returned": lambda output, weights: (output, weights[:, 0])},
            {"returned": lambda output, weights: (output, weights[:, -1])},
        ),
    ),
    *named(SELF_ATTENTION_MISTAKES, "the output at padding set to zero", "the input added"),
    *named(MULTI_HEAD_MISTAKES, "weights averaged over the heads", "squeeze() without a dimension"),
)


def _cross_probe(name, seed, H, d_k, is_target, is_source, gradients=False):
    (B, T), S, d_model = is_target.shape, is_source.size(1), H * d_k
    arguments = {
        "x": random_tensor(seed, B, T, d_model),
        "memory": random_tensor(seed + 100, B, S, d_model),
        "attend": fixed_attention(seed, H, d_model),
        "is_target": is_target,
        "is_source": is_source,
    }
    return Probe(name, arguments, {"B": B, "T": T, "S": S, "H": H, "d_model": d_model}, gradients)


def _small_cross(x, memory, is_target, is_source):
    x, memory = (torch.tensor(one).unsqueeze(-1) for one in (x, memory))  # one feature
    arguments = {
        "x": x,
        "memory": memory,
        "attend": fixed_attention(None, 1, 1),
        "is_target": torch.tensor(is_target).bool(),
        "is_source": torch.tensor(is_source).bool(),
    }
    return Probe("", arguments, {"B": x.size(0), "T": x.size(1), "S": memory.size(1), "H": 1, "d_model": 1})


CROSS_ATTENTION = (
    _cross_probe("all sizes different", 1, 4, 2, first_tokens(3, [3, 2]), first_tokens(5, [5, 3]), gradients=True),
    _cross_probe("other sizes", 2, 2, 5, first_tokens(6, [6, 3, 5]), first_tokens(4, [2, 4, 3])),
    _cross_probe("as many target tokens as source tokens", 3, 3, 2, first_tokens(4, [4, 2]), first_tokens(4, [3, 4])),
    _cross_probe("as many samples as tokens", 4, 2, 4, first_tokens(3, [2, 3, 1]), first_tokens(3, [3, 1, 2])),
    _cross_probe("as many samples as target tokens", 5, 3, 4, first_tokens(2, [1, 2]), first_tokens(4, [4, 2])),
    _cross_probe("padding on the left", 6, 3, 4, first_tokens(4, [2, 4]).flip(1), first_tokens(5, [4, 2]).flip(1)),
    _cross_probe("no padding", 7, 3, 4, first_tokens(2, [2, 2]), first_tokens(4, [4, 4])),
    _cross_probe("a batch of one", 8, 3, 4, first_tokens(4, [3]), first_tokens(5, [4])),
    _cross_probe("one head", 9, 1, 4, first_tokens(3, [2, 3]), first_tokens(5, [5, 3])),
    _cross_probe("one target token", 10, 3, 4, first_tokens(1, [1, 1]), first_tokens(4, [2, 3])),
    _cross_probe("one source token", 11, 3, 4, first_tokens(3, [2, 3]), first_tokens(1, [1, 1])),
)
SMALL_CROSS = (
    _small_cross([[1.0]], [[2.0]], [[1]], [[1]]),
    _small_cross([[1.0]], [[2.0, 3.0]], [[1]], [[1, 1]]),
    _small_cross([[1.0]], [[2.0, 3.0]], [[1]], [[1, 0]]),
    _small_cross([[1.0, 0.0]], [[2.0, 3.0]], [[1, 1]], [[1, 1]]),
    _small_cross([[1.0, 0.0]], [[2.0, 3.0, 4.0]], [[1, 0]], [[1, 1, 0]]),
    _small_cross([[1.0], [2.0]], [[2.0, 3.0], [4.0, 5.0]], [[1], [1]], [[1, 1], [1, 0]]),
)

EXERCISES = (
    Exercise(
        id="cross_attention",
        reference=cross_attention,
        returns={"output": "B T d_model", "weights": "B H T S"},
        by_steps=cross_attention_by_steps,
        probes=CROSS_ATTENTION,
        resized="other sizes",
        small=SMALL_CROSS,
        mistakes=CROSS_ATTENTION_MISTAKES,
        hints=(
            "One sequence asks and another answers. From which of the two come the queries, and from which the keys "
            "and the values?",
            "The weights are (B, H, T, S). Padding is blocked as a key, so which of the two lengths is it about? Give "
            "that mask an axis of size 1 for the queries.",
            "`attend(x, memory, memory, mask)`, with a mask (B, 1, S) made from `is_source`.",
        ),
        why="The target asks and the source answers, so the mask is about the source's tokens alone: all are there "
        "from the start, but padding says nothing.",
        stretch="Exchange two tokens of memory and their entries in `is_source`. What changes in the output?",
    ),
)
