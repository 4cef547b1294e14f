"""Exercises of lesson 05: self-attention of one sequence, and its mask beside a cache."""

import torch

from utils.attention import MultiHeadAttention
from utils.exercises.exercise import Exercise, Mistake, Probe
from utils.exercises.masks import CAUSAL_MISTAKES, causal_by_steps
from utils.exercises.multi_head import MULTI_HEAD_MISTAKES
from utils.exercises.steps import keep
from utils.masks import create_causal_mask
from utils.self_attention import cached_causal_mask, self_attention


def self_attention_by_steps(changes, x, attend, is_token):
    """`self_attention`, one step a name, with some of its steps changed."""
    step = {
        "sources": lambda x, is_token: x,
        "causal": create_causal_mask,
        "keys": lambda is_token: is_token.unsqueeze(1),  # (B, 1, T)
        "combine": lambda causal, keys: causal & keys,
        "mask": keep,
        "output": lambda output, x, is_token: output,
        "weights": lambda weights, mask: weights,
        "returned": lambda output, weights: (output, weights),
        **changes,
    }
    mask = step["combine"](step["causal"](x.size(1)), step["keys"](is_token))
    x = step["sources"](x, is_token)
    output, weights = attend(x, x, x, step["mask"](mask))
    return step["returned"](step["output"](output, x, is_token), step["weights"](weights, mask))


def cached_by_steps(changes, new, cached):
    """`cached_causal_mask`, one step a name, with some of its steps changed; those of `causal_by_steps` among them."""
    lengths = changes.get("lengths", lambda new, cached: (new, cached + new))
    return causal_by_steps(changes, *lengths(new, cached))


def ones(T):
    """A square of True."""
    return torch.ones(T, T, dtype=torch.bool)


def zeros_for_padding(x, is_token):
    """Tokens (B, T, d) with 0 where there is padding."""
    return x * is_token.unsqueeze(-1)


def named(mistakes, *names):
    """Those of a bank's mistakes that have these names."""
    return [mistake for mistake in mistakes if mistake.name in names]


SELF_ATTENTION_MISTAKES = (
    Mistake(
        "no causal mask",
        "Every token looks at those after it too. Change the last token: does the first output move, and may it?",
        ({"causal": ones}, {"combine": lambda causal, keys: keys}),
    ),
    Mistake(
        "no padding mask",
        "Padding is looked at. Where does your function use `is_token`?",
        ({"combine": lambda causal, keys: causal},),
    ),
    Mistake(
        "no mask at all",
        "`attend` gets no mask, so every token looks at the later ones and at padding. Which argument of it is left?",
        ({"mask": lambda mask: None},),
    ),
    Mistake(
        "padding on the query axis",
        "A padding token must not be looked at; what it looks at itself does not matter. Which axis of the mask lists "
        "the keys, and where must an axis of size 1 stand in `is_token`?",
        ({"keys": lambda is_token: is_token.unsqueeze(2)},),
    ),
    Mistake(
        "padding queries blocked too",
        "The keys are right, but the rows of padding are blocked throughout. Does anyone read the output of a padding "
        "token?",
        ({"keys": lambda is_token: is_token.unsqueeze(1) & is_token.unsqueeze(2)},),
    ),
    Mistake(
        "is_token without an axis for the queries",
        "Beside (T, T), your (B, T) is lined up from the right, so the batch lands on the queries, or does not fit. "
        "Where must an axis of size 1 stand, so that it becomes (B, 1, T)?",
        ({"keys": keep},),
    ),
    Mistake(
        "one sample's padding for all",
        "Every sample gets one and the same padding, that of one sample or of all together. Whose row of `is_token` "
        "does sample 1 need?",
        (
            {"keys": lambda is_token: is_token[0]},
            {"keys": lambda is_token: is_token.all(dim=0)},
            {"keys": lambda is_token: is_token.any(dim=0)},
        ),
    ),
    Mistake(
        "padding OR causal",
        "A key is allowed as soon as one of your masks allows it, so the future comes in. Must one of them allow it, "
        "or both?",
        ({"combine": lambda causal, keys: causal | keys},),
    ),
    Mistake(
        "mask inverted",
        "Somewhere your True marks what must not be attended to. In this course True means 'may attend'; "
        "`nn.MultiheadAttention` means the opposite. Which does `attend` take, and what is True in `is_token`?",
        (
            {"mask": lambda mask: ~mask},
            {"keys": lambda is_token: ~is_token.unsqueeze(1)},
            {"causal": lambda T: ~create_causal_mask(T)},
            {"causal": lambda T: ~create_causal_mask(T), "keys": lambda is_token: ~is_token.unsqueeze(1)},
        ),
    ),
    Mistake(
        "upper triangle for lower",
        "Each token sees itself and the future only. With rows as queries, on which side of the diagonal is the past?",
        ({"causal": lambda T: create_causal_mask(T).T},),
    ),
    Mistake(
        "transposed",
        "The two last axes of your mask are exchanged. Rows are queries: which tokens does row 0 list, those that "
        "token 0 may look at or those that may look at it?",
        ({"mask": lambda mask: mask.transpose(-2, -1)},),
    ),
    Mistake(
        "diagonal left out",
        "May a token see itself? Look at the first row of your mask: what is left for its softmax?",
        ({"causal": lambda T: ones(T).tril(-1)},),
    ),
    Mistake(
        "one too far",
        "Change token t+1: whose output moves? With your mask output t does, so it has seen the future.",
        ({"causal": lambda T: ones(T).tril(1)},),
    ),
    Mistake(
        "padding set to zero, not masked",
        "You set padding to 0 before, but a key of zeros still has a score, and exp of any score is more than 0. What "
        "gives a key the weight 0?",
        ({"sources": zeros_for_padding, "combine": lambda causal, keys: causal},),
    ),
    Mistake(
        "the weights masked afterwards",
        "You blank the weights that `attend` returned; its output was averaged with all of them. When must a mask be "
        "there, so that the output knows of it?",
        ({"mask": lambda mask: None, "weights": lambda weights, mask: weights * mask.unsqueeze(1)},),
    ),
    Mistake(
        "the output at padding set to zero",
        "The output at padding is blanked. Nobody reads it, and the exercise asks for what `attend` returns. Which of "
        "your lines can go?",
        ({"output": lambda output, x, is_token: zeros_for_padding(output, is_token)},),
    ),
    Mistake(
        "the input added",
        "You add x to what was found, as a block does. This function is the attention alone. Who adds x, then?",
        ({"output": lambda output, x, is_token: x + output},),
    ),
    Mistake(
        "weights of one head",
        "The weights that you return are those of one head. Which axis of (B, H, T, T) did your index take away?",
        (
            {"returned": lambda output, weights: (output, weights[:, 0])},
            {"returned": lambda output, weights: (output, weights[:, -1])},
        ),
    ),
    *named(MULTI_HEAD_MISTAKES, "weights averaged over the heads", "squeeze() without a dimension"),
)


def _cache_blocked(pairs, diagonal):
    return pairs.tril(diagonal) & (torch.arange(pairs.size(1)) >= pairs.size(1) - pairs.size(0))


def _cache_last(pairs, diagonal):
    return pairs.tril(diagonal).roll(pairs.size(0) - pairs.size(1), dims=1)


CACHED_MISTAKES = (
    Mistake(
        "the cache left out",
        "Your mask is (new, new): the cached tokens are no keys any more. How many keys can a new token look at?",
        ({"lengths": lambda new, cached: (new, new)},),
    ),
    Mistake(
        "the new tokens left out",
        "Your mask has a column for each cached token alone. May a new token look at itself, and how many keys are "
        "there then?",
        ({"lengths": lambda new, cached: (new, cached)},),
    ),
    Mistake(
        "rows for the cached tokens too",
        "Your mask is square: it has a row for each cached token. Which tokens ask in this step, and which only "
        "answer?",
        ({"lengths": lambda new, cached: (cached + new, cached + new)},),
    ),
    Mistake(
        "new and cached exchanged",
        "Your mask has as many rows as there are cached tokens. Which of the two asks?",
        ({"lengths": lambda new, cached: (cached, cached + new)},),
    ),
    Mistake(
        "the cached ones blocked",
        "The new tokens do not see what is cached. They come after it: is anything in the cache in their future?",
        ({"triangle": _cache_blocked},),
    ),
    Mistake(
        "the cache behind the new tokens",
        "Your columns begin with the new tokens. In which order do the keys stand, when new ones are appended to the "
        "cached ones?",
        ({"triangle": _cache_last},),
    ),
    Mistake(
        "shifted by the number of new tokens",
        "It is right when as many tokens are new as are cached. New token 0 stands at position `cached`: how far to "
        "the right must its row reach?",
        ({"shift": lambda T_q, T_k: T_q},),
    ),
    *CAUSAL_MISTAKES,
)


def fixed_attention(seed, H, d_model):
    """A multi-head attention with fixed weights, those of the identity without a seed, as a function."""
    with torch.device("meta"):  # where no random numbers are drawn for weights that are replaced
        module = MultiHeadAttention(d_model, H)
    module = module.to_empty(device="cpu").requires_grad_(False)
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        known = torch.eye(d_model) if parameter.dim() == 2 else torch.zeros(d_model)
        parameter.copy_(known if seed is None else torch.randn(parameter.shape, generator=generator) / d_model**0.5)

    def attend(query, key, value, mask=None, need_weights=True):
        return module(query, key, value, mask, need_weights)

    heads = "one head" if H == 1 else f"{H} heads"
    attend.__doc__ = f"multi-head attention, {heads}, " + ("all W the identity" if seed is None else "W fixed")
    return attend


def first_tokens(T, lengths):
    """Boolean (B, T), True for the first `lengths[b]` tokens of each sample."""
    return torch.arange(T) < torch.tensor(lengths).unsqueeze(1)


def random_tensor(seed, *shape):
    """Normal numbers that are the same at every call."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _attention_probe(name, seed, H, d_k, is_token, gradients=False):
    (B, T), d_model = is_token.shape, H * d_k
    arguments = {
        "x": random_tensor(seed, B, T, d_model),
        "attend": fixed_attention(seed, H, d_model),
        "is_token": is_token,
    }
    return Probe(name, arguments, {"B": B, "T": T, "H": H, "d_model": d_model}, gradients)


def _small_attention(x, is_token):
    x = torch.tensor(x).unsqueeze(-1)  # one feature
    arguments = {"x": x, "attend": fixed_attention(None, 1, 1), "is_token": torch.tensor(is_token).bool()}
    return Probe("", arguments, {"B": x.size(0), "T": x.size(1), "H": 1, "d_model": 1})


SELF_ATTENTION = (
    _attention_probe("all sizes different", 1, 3, 4, first_tokens(5, [5, 3]), gradients=True),
    _attention_probe("other sizes", 2, 2, 5, first_tokens(4, [2, 4, 3])),
    _attention_probe("as many samples as tokens", 3, 2, 4, first_tokens(3, [3, 1, 2])),
    _attention_probe("padding on the left", 4, 3, 4, first_tokens(5, [4, 2]).flip(1)),
    _attention_probe("no padding", 5, 3, 4, first_tokens(4, [4, 4])),
    _attention_probe("a batch of one", 6, 3, 4, first_tokens(5, [4])),
    _attention_probe("one head", 7, 1, 4, first_tokens(5, [5, 3])),
    _attention_probe("one token", 8, 3, 4, first_tokens(1, [1, 1])),
)
SMALL_ATTENTION = (
    _small_attention([[1.0]], [[1]]),
    _small_attention([[1.0, 2.0]], [[1, 1]]),
    _small_attention([[1.0, 2.0]], [[1, 0]]),
    _small_attention([[1.0, 2.0]], [[0, 1]]),
    _small_attention([[1.0, 2.0, 3.0]], [[1, 1, 0]]),
    _small_attention([[1.0, 2.0], [3.0, 4.0]], [[1, 1], [1, 0]]),
)


def _cached(name, new, cached):
    return Probe(name, {"new": new, "cached": cached}, {"new": new, "cached": cached, "cached + new": cached + new})


EXERCISES = (
    Exercise(
        id="self_attention",
        reference=self_attention,
        returns={"output": "B T d_model", "weights": "B H T T"},
        by_steps=self_attention_by_steps,
        probes=SELF_ATTENTION,
        resized="other sizes",
        small=SMALL_ATTENTION,
        mistakes=SELF_ATTENTION_MISTAKES,
        hints=(
            "Three of the arguments of `attend` are one and the same here. What is left to be made is the mask: which "
            "two reasons are there not to look at a key?",
            "One mask is (T, T) and the same for all samples, the other differs by sample and is about keys. Give "
            "`is_token` an axis of size 1 for the queries; a key must be allowed by both.",
            "`mask = create_causal_mask(x.size(1)) & is_token.unsqueeze(1)`, then `attend(x, x, x, mask)`.",
        ),
        why="Queries, keys and values all come from x, so the mask alone makes it causal and blind to padding.",
        stretch="With padding on the left, which rows of the mask are empty, and what is their output?",
    ),
    Exercise(
        id="cached_causal_mask",
        reference=cached_causal_mask,
        returns={"mask": "new cached+new"},
        by_steps=cached_by_steps,
        probes=(
            _cached("more new tokens than cached ones", 3, 2),
            _cached("another size", 4, 1),
            _cached("fewer new tokens than cached ones", 2, 5),
            _cached("one new token", 1, 4),
            _cached("nothing cached", 4, 0),
            _cached("as many new tokens as cached ones", 3, 3),
        ),
        resized="another size",
        small=tuple(_cached("", *sizes) for sizes in ((1, 0), (1, 1), (2, 0), (2, 1), (1, 2), (2, 2))),
        mistakes=CACHED_MISTAKES,
        hints=(
            "Three tokens are cached and two are new. Write down which of the five keys each of the two may see.",
            "The mask has a row for each new token and a column for each token so far. At which position does the "
            "first new one stand, and the last?",
            "`create_causal_mask(new, cached + new)`: it is aligned at the bottom right.",
        ),
        why="The new tokens are the last of all, so their rows are the last rows of the causal mask of the whole "
        "sequence.",
        stretch="One new token a step, as in generation: what does the mask block then?",
    ),
)
