"""Exercises on masks: causal, padding, and both together; probes and the mistake bank."""

import torch

from utils.exercises.exercise import Exercise, Mistake, Probe
from utils.masks import create_causal_mask, create_padding_mask


def create_decoder_mask(token_ids, pad_id=0):
    """What each position of a padded sequence may attend to: real tokens, up to itself.

    Args:
        token_ids: integer tensor (B, T).
        pad_id: the id that marks padding.

    Returns:
        Boolean tensor (B, T, T), True where both masks allow it.
    """
    return create_causal_mask(token_ids.size(1)) & create_padding_mask(token_ids, pad_id)


def causal_by_steps(changes, query_len, key_len=None):
    """`create_causal_mask`, one step a name, with some of its steps changed."""
    step = {
        "shift": lambda T_q, T_k: T_k - T_q,
        "diagonal": lambda shift: shift,
        "triangle": lambda pairs, diagonal: pairs.tril(diagonal),
        "answer": lambda mask: mask,
        **changes,
    }
    key_len = query_len if key_len is None else key_len
    pairs = torch.ones(query_len, key_len, dtype=torch.bool)
    diagonal = step["diagonal"](step["shift"](query_len, key_len))
    return step["answer"](step["triangle"](pairs, diagonal))


def padding_by_steps(changes, token_ids, pad_id=0):
    """`create_padding_mask`, one step a name, with some of its steps changed."""
    step = {
        "real": lambda token_ids, pad_id: token_ids != pad_id,
        "place": lambda real: real.unsqueeze(1),  # (B, 1, T_k)
        "answer": lambda mask: mask,
        **changes,
    }
    return step["answer"](step["place"](step["real"](token_ids, pad_id)))


def decoder_by_steps(changes, token_ids, pad_id=0):
    """`create_decoder_mask`, one step a name, with some of its steps changed."""
    step = {
        "causal": lambda T: create_causal_mask(T),
        "padding": lambda token_ids, pad_id: create_padding_mask(token_ids, pad_id),
        "combine": lambda causal, padding: causal & padding,
        "answer": lambda mask: mask,
        **changes,
    }
    causal, padding = step["causal"](token_ids.size(1)), step["padding"](token_ids, pad_id)
    return step["answer"](step["combine"](causal, padding))


INVERTED = Mistake(
    "mask inverted",
    "Your True marks what must not be attended to. In this course True means 'may attend', as in "
    "F.scaled_dot_product_attention; nn.MultiheadAttention means the opposite. Which one do you return?",
    ({"answer": lambda mask: ~mask},),
)
NUMBERS = Mistake(
    "numbers instead of booleans",
    "The places are right, but these are numbers. What would `~mask` do to 1.0, and `&` to two of them?",
    ({"answer": lambda mask: mask.float()}, {"answer": lambda mask: mask.long()}),
)
ADDITIVE = Mistake(
    "an additive mask",
    "You return what is added to the scores (0 and -inf). The course's masks answer a yes-or-no question, may "
    "this query attend to this key. Which comparison gives that?",
    (
        {"answer": lambda mask: torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))},
        {"answer": lambda mask: torch.zeros(mask.shape).masked_fill(~mask, -1e9)},
    ),
)
ALL_ALLOWED = Mistake(
    "nothing is blocked",
    "Every pair is allowed, so this mask does not change anything. Is the result of your last step the one that "
    "you return?",
    ({"answer": lambda mask: torch.ones_like(mask)},),
)
MASKS_OF_ANY_KIND = (INVERTED, NUMBERS, ADDITIVE, ALL_ALLOWED)

CAUSAL_MISTAKES = (
    Mistake(
        "upper triangle for lower",
        "Each query sees itself and the future only. With rows as queries, on which side of the diagonal does "
        "the past lie?",
        ({"triangle": lambda pairs, diagonal: pairs.triu(diagonal)},),
    ),
    Mistake(
        "diagonal left out",
        "May token 0 see itself? Look at the first row of a square mask: what is left for its softmax?",
        ({"diagonal": lambda shift: shift - 1},),
    ),
    Mistake(
        "one too far",
        "Change token t+1: whose output moves? With your mask output t does, so it has seen the future.",
        ({"diagonal": lambda shift: shift + 1},),
    ),
    Mistake(
        "aligned at the top left",
        "It is right for T_q = T_k. With one new query and a cache of five keys, which of them may it see, and "
        "where does the last query stand?",
        ({"shift": lambda T_q, T_k: 0},),
    ),
    Mistake(
        "shift in the wrong direction",
        "It is right for T_q = T_k. With more keys than queries, should the triangle reach further right or less far?",
        ({"shift": lambda T_q, T_k: T_q - T_k},),
    ),
    Mistake(
        "transposed",
        "Your mask is (T_k, T_q). Rows are queries: which length comes first?",
        ({"answer": lambda mask: mask.T},),
    ),
    *MASKS_OF_ANY_KIND,
)


def _blocked_rows_too(real):
    return real.unsqueeze(1) & real.unsqueeze(2)


PADDING_MISTAKES = (
    Mistake(
        "padding on the query axis",
        "A padding token must not be looked at; what it looks at itself does not matter. Which axis lists the keys, "
        "and where must the 1 stand so that it broadcasts over the queries?",
        (
            {"place": lambda real: real.unsqueeze(2)},
            {"place": lambda real: real.unsqueeze(2).expand(-1, -1, real.size(1))},
        ),
    ),
    Mistake(
        "padding queries blocked too",
        "The keys are right, but the rows of padding queries are now blocked throughout: nothing is left for "
        "their softmax. Does anyone read the output of a padding token?",
        ({"place": _blocked_rows_too},),
    ),
    Mistake(
        "(B, T_k) without an axis for the queries",
        "Broadcast against scores (B, T_q, T_k), your (B, T_k) is lined up from the right: which axis does the "
        "batch land "
        "on, and who notices when B equals T_q?",
        ({"place": lambda real: real},),
    ),
    Mistake(
        "one sample's padding for all",
        "Every sample gets one and the same mask, made from the tokens of one sample or of all together. Whose row of "
        "token_ids does sample 1 need?",
        (
            {"place": lambda real: real[:1].unsqueeze(1).expand(real.size(0), -1, -1)},
            {"place": lambda real: real.all(0).expand_as(real).unsqueeze(1)},
            {"place": lambda real: real.any(0).expand_as(real).unsqueeze(1)},
        ),
    ),
    Mistake(
        "pad_id ignored",
        "It is right for pad_id = 0 only. Where does your function use its second argument?",
        ({"real": lambda token_ids, pad_id: token_ids != 0}, {"real": lambda token_ids, pad_id: token_ids > 0}),
    ),
    *MASKS_OF_ANY_KIND,
)

DECODER_MISTAKES = (
    Mistake(
        "padding OR causal",
        "A key is allowed as soon as one of your masks allows it, so the future comes in. Must one of them allow "
        "it, or both?",
        ({"combine": lambda causal, padding: causal | padding},),
    ),
    Mistake(
        "padding only",
        "The future is visible. Which of the two masks is missing from your result?",
        (
            {"combine": lambda causal, padding: padding.expand(-1, padding.size(-1), -1)},
            {"combine": lambda causal, padding: padding},
        ),
    ),
    Mistake(
        "causal only",
        "Padding is looked at. Which of the two masks is missing from your result?",
        (
            {"combine": lambda causal, padding: causal.expand(padding.size(0), -1, -1)},
            {"combine": lambda causal, padding: causal},
        ),
    ),
    Mistake(
        "upper triangle for lower",
        "Each query sees itself and the future only. Rows are queries: on which side of the diagonal is the past?",
        ({"causal": lambda T: torch.ones(T, T, dtype=torch.bool).triu()},),
    ),
    Mistake(
        "diagonal left out",
        "May a token see itself? Look at the first row: what is left for its softmax?",
        ({"causal": lambda T: torch.ones(T, T, dtype=torch.bool).tril(-1)},),
    ),
    Mistake(
        "padding on the query axis",
        "A padding token must not be looked at; what it looks at itself does not matter. Which axis of the mask lists "
        "the keys?",
        ({"padding": lambda token_ids, pad_id: (token_ids != pad_id).unsqueeze(2)},),
    ),
    Mistake(
        "padding queries blocked too",
        "The keys are right, but the rows of padding queries are blocked throughout: nothing is left for their "
        "softmax. Does anyone read the output of a padding token?",
        ({"padding": lambda token_ids, pad_id: _blocked_rows_too(token_ids != pad_id)},),
    ),
    Mistake(
        "pad_id ignored",
        "It is right for pad_id = 0 only. Where does your function use its second argument?",
        ({"padding": lambda token_ids, pad_id: create_padding_mask(token_ids)},),
    ),
    *MASKS_OF_ANY_KIND,
)


def _lengths(name, query_len, key_len=None):
    arguments = {"query_len": query_len} if key_len is None else {"query_len": query_len, "key_len": key_len}
    return Probe(name, arguments, {"T_q": query_len, "T_k": key_len or query_len})


def _tokens(name, rows, pad_id=None):
    token_ids = torch.tensor(rows)
    sizes = {"B": token_ids.size(0), "T": token_ids.size(1)}
    return Probe(
        name, {"token_ids": token_ids} if pad_id is None else {"token_ids": token_ids, "pad_id": pad_id}, sizes
    )


PADDED = (
    _tokens("three samples of different lengths", [[5, 3, 9, 4, 7], [2, 8, 0, 0, 0], [6, 1, 4, 0, 0]]),
    _tokens("another size", [[4, 2, 7, 0], [3, 0, 0, 0]]),
    _tokens("as many samples as positions", [[5, 0, 0], [2, 8, 0], [6, 1, 4]]),
    _tokens("another padding id", [[5, 3, 0, 4, 1], [0, 8, 1, 1, 1]], pad_id=1),
    _tokens("padding on the left", [[0, 0, 9, 4], [2, 8, 5, 6]]),
)
SMALL_PADDED = (_tokens("", [[5, 0]]), _tokens("", [[5, 3, 0], [7, 0, 0]]), _tokens("", [[5, 0, 1]], pad_id=1))
SMALL_LENGTHS = (_lengths("", 1), _lengths("", 2), _lengths("", 3), _lengths("", 1, 3), _lengths("", 2, 3))

EXERCISES = (
    Exercise(
        id="causal_mask",
        reference=create_causal_mask,
        returns={"mask": "T_q T_k"},
        by_steps=causal_by_steps,
        probes=(
            _lengths("as many queries as keys", 5),
            _lengths("another length", 4),
            _lengths("more keys than queries", 3, 5),
            _lengths("one new query and a cache", 1, 5),
            _lengths("more queries than keys", 5, 2),
        ),
        resized="another length",
        small=SMALL_LENGTHS,
        mistakes=CAUSAL_MISTAKES,
        hints=(
            "Write the mask for T = 3 on paper, rows as queries. Which triangle is True, and is the diagonal in it?",
            "`tensor.tril(diagonal=...)` keeps a lower triangle. For unequal lengths, the last query stands at the "
            "last key: by how much must the diagonal move?",
            "`torch.ones(query_len, key_len, dtype=torch.bool).tril(diagonal=key_len - query_len)`",
        ),
        why="The last query stands at the last key, so query i is the token at position i + T_k - T_q and sees all "
        "keys up to that position.",
        stretch="Which rows are blocked throughout when there are more queries than keys?",
    ),
    Exercise(
        id="padding_mask",
        reference=create_padding_mask,
        returns={"mask": "B 1 T"},
        by_steps=padding_by_steps,
        probes=PADDED,
        resized="another size",
        small=SMALL_PADDED,
        mistakes=PADDING_MISTAKES,
        hints=(
            "Which tokens must nobody look at: is that a question about queries or about keys?",
            "One comparison gives (B, T_k). The weights are (B, T_q, T_k): where does the missing axis go?",
            "`(token_ids != pad_id).unsqueeze(1)`",
        ),
        why="Only keys are blocked, the same ones for each query of a sample, so an axis of size 1 stands where the "
        "queries are.",
        stretch="With heads the weights are (B, H, T_q, T_k). Which axis must be added to this mask, and where?",
    ),
    Exercise(
        id="find_the_bug_in_decoder_mask",
        reference=create_decoder_mask,
        returns={"mask": "B T T"},
        by_steps=decoder_by_steps,
        probes=PADDED,
        resized="another size",
        small=SMALL_PADDED,
        mistakes=DECODER_MISTAKES,
        hints=(
            "Take a sequence without padding: its mask should be the causal one. What is it here?",
            "Look at the step that joins the two masks, and say in words when it allows a key.",
            "A key must be allowed by both masks: `&`, not `|`.",
        ),
        why="True means 'may attend', so a key that either mask forbids is forbidden: the masks are joined by `&`.",
        stretch="If True meant 'blocked', as in nn.MultiheadAttention, which operator would join them?",
        given="padding OR causal",
    ),
)
