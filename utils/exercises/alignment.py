"""An exercise of lesson 02: from scores to weights over the words of each sentence, none on its padding."""

from dataclasses import replace

import torch

from utils.attention import align
from utils.exercises.exercise import COARSE, Exercise, Mistake, Probe
from utils.exercises.steps import exp_unshifted, fill, keep, renormalised


def align_by_steps(changes, scores, keys, lengths):
    """`align`, one step a name, with some of its steps changed."""
    step = {
        "words": lambda T_k, lengths: torch.arange(T_k) < lengths.unsqueeze(1),
        "read": lambda is_word: is_word,
        "block": fill(torch.finfo(torch.float32).min),
        "normalise": lambda scores, share: share(scores, -1),
        "share": lambda scores, dim: scores.softmax(dim),
        "clean": lambda weights, is_word: weights.masked_fill(~is_word, 0.0),
        "combine": lambda weights, keys, is_word, lengths: (weights.unsqueeze(1) @ keys).squeeze(1),
        "answer": lambda context, weights: (context, weights),
        **changes,
    }
    is_word = step["read"](step["words"](scores.size(1), lengths))
    weights = step["clean"](step["normalise"](step["block"](scores, is_word), step["share"]), is_word)
    return step["answer"](step["combine"](weights, keys, is_word, lengths), weights)


def _with_any_fill(change):
    """A mistake that can leave a sample without words, where it matters how they were blocked."""
    fills = ({}, {"block": fill(float("-inf")), "clean": keep}, {"block": fill(-1e9), "clean": keep})
    return tuple({**change, **fill} for fill in fills)


def _mean_of_words(weights, keys, is_word, lengths):
    return (keys * is_word.unsqueeze(-1)).sum(dim=1) / lengths.unsqueeze(1)


def _last_word(weights, keys, is_word, lengths):
    return keys[torch.arange(len(keys)), lengths - 1]


ALIGN_MISTAKES = (
    Mistake(
        "padding attended",
        "How much weight does the padding get? Your result does not depend on `lengths`. Is the masked tensor the one "
        "that goes into the softmax? (`masked_fill` returns a new tensor.)",
        ({"block": keep, "clean": keep},),
    ),
    Mistake(
        "zeroed after the softmax, not renormalised",
        "Padding has no weight, but your rows no longer sum to 1: what it had is lost. What if padding never entered "
        "the softmax?",
        ({"block": keep},),
    ),
    Mistake(
        "zeroed after the softmax, then renormalised",
        "On paper this is the same. But take a score at padding far above those of the words: the softmax gives it all "
        "of the 1, the words are rounded to 0, and nothing is left to divide. What if padding never entered?",
        (
            {"block": keep, "clean": renormalised},
            *(
                {
                    "block": keep,
                    "clean": lambda weights, is_word, small=small: (
                        weights * is_word / ((weights * is_word).sum(dim=-1, keepdim=True) + small)
                    ),
                }
                for small in (1e-12, 1e-9, 1e-8)
            ),
        ),
    ),
    Mistake(
        "scores at padding set to 0",
        "Padding still gets weight, because exp(0) = 1 is not nothing. Which score gives exp = 0?",
        ({"block": fill(0.0), "clean": keep},),
    ),
    Mistake(
        "inverted",
        "You look at the padding and at nothing else. Where is your mask True, and where does `masked_fill` write?",
        _with_any_fill({"read": lambda is_word: ~is_word}),
    ),
    Mistake(
        "one word too many",
        "The first pad of each sentence gets weight. With `length` words, which positions, counted from 0, are words?",
        ({"words": lambda T_k, lengths: torch.arange(T_k) <= lengths.unsqueeze(1)},),
    ),
    Mistake(
        "one word too few",
        "The last word of each sentence gets no weight. With `length` words, which positions, counted from 0, are "
        "words?",
        ({"words": lambda T_k, lengths: torch.arange(T_k) < lengths.unsqueeze(1) - 1},),
    ),
    Mistake(
        "lengths along the wrong axis",
        "Your lengths are lined up with the positions, not with the samples, which runs only when there are as many of "
        "one as of the other. Which shape must (B,) get so that each length meets its own row?",
        (
            *_with_any_fill({"words": lambda T_k, lengths: (torch.arange(T_k) < lengths).expand(len(lengths), -1)}),
            *_with_any_fill({"words": lambda T_k, lengths: torch.arange(T_k).unsqueeze(1) < lengths}),
        ),
    ),
    Mistake(
        "one length for all",
        "All samples of the batch get the same number of words. Whose length does sample 1 need?",
        (
            {"words": lambda T_k, lengths: (torch.arange(T_k) < lengths[0]).expand(len(lengths), -1)},
            {"words": lambda T_k, lengths: (torch.arange(T_k) < lengths.max()).expand(len(lengths), -1)},
            {"words": lambda T_k, lengths: (torch.arange(T_k) < lengths.min()).expand(len(lengths), -1)},
        ),
    ),
    Mistake(
        "the keys are masked, not the scores",
        "You set the keys at padding to zero, so they add nothing, but they still take weight from the words. Which "
        "step shares out the weight, and what must it not see?",
        (
            {
                "block": keep,
                "clean": keep,
                "combine": lambda weights, keys, is_word, lengths: torch.einsum(
                    "bt,btd->bd", weights, keys * is_word.unsqueeze(-1)
                ),
            },
        ),
    ),
    Mistake(
        "0 times -inf",
        "0 times -inf is NaN, and it is the words that you multiply by 0. What picks a value instead of computing "
        "with it (`masked_fill`, `torch.where`)?",
        (
            {"block": lambda scores, is_word: scores + (~is_word).float() * float("-inf"), "clean": keep},
            {
                "block": lambda scores, is_word: scores * is_word + (~is_word).float() * float("-inf"),
                "clean": keep,
            },
        ),
    ),
    Mistake(
        "fill not low enough",
        "Your fill is a low score, but there can be lower ones: when those of the words are, the padding wins. Which "
        "number is below every score?",
        tuple({"block": fill(value), "clean": keep} for value in (-1.0, -10.0, -100.0, -1e3, -1e4))
        + tuple({"block": fill(value)} for value in (-10.0, -1e4))
        + tuple(
            {"block": lambda scores, is_word, value=value: scores + value * ~is_word, "clean": keep}
            for value in (-10.0, -100.0, -1e4)
        ),
    ),
    Mistake(
        "wrong sign",
        "The padding won all the weight, or made it NaN where its score is infinite. In which direction must a score "
        "go for its exp to vanish?",
        (
            {"block": fill(1e9), "clean": keep},
            {"block": fill(float("inf")), "clean": keep},
        ),
    ),
    Mistake(
        "boolean added to the scores as a number",
        "True became 1, so a score at padding is one point lower than it would be at a word, and no more. How low must "
        "it be?",
        (
            {"block": lambda scores, is_word: scores + is_word, "clean": keep},
            {"block": lambda scores, is_word: scores - (~is_word).float(), "clean": keep},
        ),
    ),
    Mistake(
        "uniform average",
        "Your average gives every state the same say, whatever the scores: the bottleneck again. Which numbers should "
        "weigh the keys?",
        (
            {"combine": _mean_of_words},
            {"combine": lambda weights, keys, is_word, lengths: keys.mean(dim=1)},
            {
                "block": lambda scores, is_word: is_word.float(),
                "normalise": lambda scores, share: scores / scores.sum(dim=-1, keepdim=True),
            },
        ),
    ),
    Mistake(
        "last state only",
        "The context is the last state, whatever the scores: the bottleneck again. Which states could the decoder "
        "need?",
        (
            {"combine": lambda weights, keys, is_word, lengths: keys[:, -1]},
            {"combine": _last_word},
        ),
    ),
    Mistake(
        "softmax over the batch",
        "Your weights are shared out among the samples. Which axis lists the words that one query chooses from?",
        (
            {"normalise": lambda scores, share: share(scores, 0)},
            *(
                {"normalise": lambda scores, share: share(scores, 0), "block": fill(value), "clean": keep}
                for value in (float("-inf"), -1e9)
            ),
        ),
    ),
    Mistake(
        "no softmax",
        "Your weights are the scores themselves: some are negative, and their rows sum to anything. What turns a row "
        "of scores into shares of 1?",
        ({"normalise": keep},),
    ),
    Mistake(
        "exp without subtracting the maximum",
        "It is right for small scores, but exp(1000) overflows to infinity, and infinity divided by infinity is NaN. "
        "What can be subtracted from a whole row without changing its softmax?",
        (
            {"share": exp_unshifted},
            {"block": fill(float("-inf")), "share": exp_unshifted, "clean": keep},
            {
                "block": keep,
                "normalise": lambda scores, share: scores.exp(),
                "clean": renormalised,
            },
        ),
    ),
    Mistake(
        "squeeze() without a dimension",
        "With a batch of one, your result has fewer axes. Which axis vanished, and does the caller expect it?",
        (
            {"answer": lambda context, weights: (context.squeeze(), weights.squeeze())},
            {"answer": lambda context, weights: (context.squeeze(), weights)},
        ),
    ),
)


def _padded(name, seed, lengths, T_k, key_dim, scale=1.0, level=0.0, gradients=False):
    """Random scores and keys; the scores of words lie `level` above those at padding."""
    generator = torch.Generator().manual_seed(seed)
    B, lengths = len(lengths), torch.tensor(lengths)
    scores = torch.randn(B, T_k, generator=generator) * scale
    scores += level * (torch.arange(T_k) < lengths.unsqueeze(1))
    keys = torch.randn(B, T_k, key_dim, generator=generator)
    sizes = {"B": B, "T_k": T_k, "key_dim": key_dim}
    return Probe(name, {"scores": scores, "keys": keys, "lengths": lengths}, sizes, gradients)


PADDED = (
    _padded("three samples with padding", 1, (4, 2, 3), 5, 6, gradients=True),
    _padded("another size", 2, (3, 2), 4, 5),
    _padded("one sample without padding among others", 3, (2, 5, 4), 5, 6),
    _padded("a batch of one", 4, (3,), 5, 6),
    _padded("as many samples as positions", 5, (2, 4, 3, 2), 4, 6),
    _padded("large scores", 6, (4, 2, 3), 5, 6, scale=200.0),
    _padded("low scores on the words", 7, (4, 2, 3), 5, 6, level=-3_000.0),
    replace(_padded("very low scores on the words", 8, (4, 2, 3), 5, 6, level=-40_000.0), tolerance=COARSE),
)


def _small(lengths, T_k):
    B = len(lengths)
    scores = (torch.arange(1.0, B * T_k + 1) % 3).view(B, T_k)
    keys = torch.arange(1.0, B * T_k * 2 + 1).view(B, T_k, 2)
    return Probe(
        "",
        {"scores": scores, "keys": keys, "lengths": torch.tensor(lengths)},
        {"B": B, "T_k": T_k, "key_dim": 2},
    )


EXERCISES = (
    Exercise(
        id="align",
        reference=align,
        returns={"context": "B key_dim", "weights": "B T_k"},
        by_steps=align_by_steps,
        probes=PADDED,
        resized="another size",
        small=(_small((1,), 1), _small((1,), 2), _small((2,), 2), _small((2,), 3), _small((1, 2), 3)),
        mistakes=ALIGN_MISTAKES,
        hints=(
            "Padding must get no weight at all, and the words must still share all of 1. So before which step must "
            "padding be gone?",
            "`torch.arange(T_k)` counts the positions. Which comparison with `lengths` gives (B, T_k), True at words, "
            "and which axis must `lengths` get for that?",
            "`is_word = torch.arange(scores.size(1)) < lengths.unsqueeze(1)`, `weights = torch.softmax("
            'scores.masked_fill(~is_word, float("-inf")), dim=-1)`, `context = (weights.unsqueeze(1) @ keys)'
            ".squeeze(1)`.",
        ),
        why="Padding leaves before the softmax shares out the 1, so a sentence has the same weights however much "
        "padding stands after it.",
        stretch="What would a sentence without a single word get from your function, and what should it get?",
    ),
)
