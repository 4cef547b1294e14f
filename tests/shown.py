"""The lessons' explorers on small data of their own, and what can be done with their controls."""

import itertools
import random

import ipywidgets as widgets
import torch

from utils.attention import scaled_dot_product_attention
from utils.explorers import (
    change_one_token,
    change_the_adjective,
    follow_one_number,
    mask_laboratory,
    one_query_steps,
    pick_heads,
    predict_the_alignment,
    score_scaling,
    step_through_translation,
    translate_your_own,
    translations_by_length,
)
from utils.masks import create_causal_mask
from utils.pronouns import ADJECTIVE, FIRST, IT, OF_THE_FIRST, SECOND, pronoun_vocabulary
from utils.tasks import EOS, UNKNOWN, sentence_of_length, vocabularies
from utils.training import Translation
from utils.transformer import Translator

WIDTHS = [4, 16, 64]
TOKENS = ["the", "cat", "sat", "on", "a", "mat"]


def fill(value):
    def weights(Q, K, mask):
        return torch.softmax((Q @ K.T / Q.size(-1) ** 0.5).masked_fill(~mask, value), dim=-1)

    return weights


WAYS = {
    "-inf": fill(float("-inf")),
    "-1e9": fill(-1e9),
    "0": fill(0.0),
    "after": lambda Q, K, mask: torch.softmax(Q @ K.T / Q.size(-1) ** 0.5, dim=-1) * mask,
    "ours": lambda Q, K, mask: scaled_dot_product_attention(Q, K, K, mask)[1],
}


def steps():
    Q = torch.tensor([[2.0, 0.0], [0.0, 3.0]])
    K = torch.tensor([[3.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    V = torch.tensor([[4.0], [8.0], [0.0]])
    return one_query_steps(Q, K, V, ["p", "q"], ["a", "b", "c"], ["f", "g"], ["v"])


def scaling():
    generator = torch.Generator().manual_seed(0)
    queries, keys = torch.randn(50, 64, generator=generator), torch.randn(50, 8, 64, generator=generator)
    return score_scaling(queries, keys, WIDTHS)


def laboratory():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(6, 8, generator=generator)
    return mask_laboratory(X, X, TOKENS, WAYS)


def held_out():
    """Six sentences of 5, 6 and 12 tokens each, and one of 7: too few of that length to be on offer."""
    rng = random.Random(0)
    pairs = [sentence_of_length(rng, length, "test") for length in (5, 6, 12) for _ in range(6)]
    return [*pairs, sentence_of_length(rng, 7, "test")]


def translators(pairs):
    """What four hand-made models write: all of it, its first five tokens, too much, and half of it wrong."""
    return {
        "right": [Translation([*pair.target], None) for pair in pairs],
        "short": [Translation([*pair.target[:5]], None) for pair in pairs],
        "long": [Translation([*pair.target, *["và"] * 60], None) for pair in pairs],
        "wrong": [Translation(["nhưng" if at % 2 else t for at, t in enumerate(p.target)], None) for p in pairs],
    }


def by_length():
    pairs = held_out()
    return translations_by_length(translators(pairs), pairs)


def aligned():
    """Sentences of 8, 5 and 6 tokens with their translations, and weights of which no two rows are equal."""
    rng, generator = random.Random(1), torch.Generator().manual_seed(1)
    pairs = [sentence_of_length(rng, length) for length in (8, 5, 6)]
    weights = [torch.randn(len(pair.target), len(pair.source), generator=generator) for pair in pairs]
    made = [Translation([*p.target], (2 * w).softmax(-1)) for p, w in zip(pairs, weights, strict=True)]
    return pairs, made


def alignment():
    return predict_the_alignment(*aligned())


class WordByWord(torch.nn.Module):
    """A hand-made model that writes one token for each word that it reads, looking at that word above all."""

    attention = "hand-made"

    def __init__(self, sharpness):
        super().__init__()
        self.sharpness = sharpness

    def greedy(self, source):
        places = torch.arange(source.size(1))
        weights = (-self.sharpness * (places[:, None] - places).abs()).softmax(-1)
        return source.clamp(UNKNOWN, 100), weights.unsqueeze(0)


def own_sentence():
    return translate_your_own({"general": WordByWord(2.0), "additive": WordByWord(0.5)}, *vocabularies())


def numbered(T, d_model):
    """Numbers that say where they come from: the tens are the token, from 1, the ones the feature."""
    return torch.tensor([[10 * (token + 1) + feature for feature in range(d_model)] for token in range(T)])


def one_number():
    return follow_one_number(numbered(3, 8), 2)


def one_number_of_more():
    return follow_one_number(numbered(4, 6), 3)


QUESTIONS, ITEMS = ["C, F", "F, P", "A, C", "K, A"], ["C=7", "F=12", "P=3", "A=15", "K=0", "M=9"]


def head_weights(H):
    return (3 * torch.randn(H, 4, 6, generator=torch.Generator().manual_seed(0))).softmax(-1)


def made_up_accuracy(on):
    """Heads with even numbers add to the first answer, the others to the second."""
    first, second = sum(on[::2]) / len(on[::2]), sum(on[1::2]) / len(on[1::2])
    return max(first, 1 / 16), max(second, 1 / 16), min(first, second)


def picked_heads():
    return pick_heads(head_weights(8), QUESTIONS, ITEMS, made_up_accuracy)


def pronouns_by_rule(token_ids):
    """A hand-made model of two layers with two heads: *it* looks at the right noun in the last layer's head 1."""
    vocabulary = pronoun_vocabulary()
    of_first = torch.isin(token_ids[:, ADJECTIVE], torch.tensor(vocabulary.encode(OF_THE_FIRST)))
    right = torch.where(of_first, FIRST, SECOND)  # (B,)
    scores = token_ids.sin()[:, None, None].repeat(1, 2, 11, 1)  # (B, H, T, T), by the words alone
    scores[:, 1] = scores[:, 1].flip(-1)
    looking = scores.clone()
    looking[:, 1, IT] += 5 * torch.nn.functional.one_hot(right, 11)
    nouns = token_ids.gather(1, right.unsqueeze(1)).squeeze(1)
    return torch.nn.functional.one_hot(nouns, len(vocabulary)).float(), [scores.softmax(-1), looking.softmax(-1)]


def adjectives():
    return change_the_adjective(pronouns_by_rule, head=(1, 1))


def self_attention(mask):
    return lambda x: scaled_dot_product_attention(x, x, x, mask)[0]


def leaky_mask(n):
    return torch.ones(n, n).tril(1).bool()  # one token too far


def perturbed(T=6):
    x = torch.randn(1, T, 8, generator=torch.Generator().manual_seed(0))
    masks = {"causal": create_causal_mask(T), "no mask": None, "leaky mask": leaky_mask(T)}
    return {name: self_attention(mask) for name, mask in masks.items()}, x, (TOKENS * T)[:T]


def one_token():
    return change_one_token(*perturbed())


def small_translator(eos=1.5, source=None, target=None, **sizes):
    """A Translator that was never trained, with wide gaps between its logits; the larger `eos`, the sooner it ends."""
    vocabularies_used = [given or known for given, known in zip((source, target), vocabularies(), strict=True)]
    torch.manual_seed(4)
    model = Translator(*map(len, vocabularies_used), d_model=16, num_heads=2, d_ff=32, num_layers=2, **sizes).eval()
    with torch.no_grad():
        model.output.weight *= 3
        model.output.bias[EOS] += eos
    return model, *vocabularies_used


def stepped_translation():
    return step_through_translation(*small_translator())


MAKERS = [
    steps,
    scaling,
    laboratory,
    by_length,
    alignment,
    own_sentence,
    one_number,
    one_number_of_more,
    picked_heads,
    adjectives,
    one_token,
    stepped_translation,
]
TEXTS = [
    "she loves her cat",
    "She loves her cat, and I don't see the 2 zebras.",
    "i",
    "zebra",
    "",
    " ... ",
    "cat " * 15,
    "cat " * 20,
    "cat " * 21,
    'the <pad> <eos> "cat" & $x$ 猫 ' + "x" * 300,
]


def values_of(control):
    """Every value that a control offers."""
    if hasattr(control, "buttons"):
        causal = [[j <= i for j in range(6)] for i in range(6)]
        flipped = [[[c ^ ((i, j) == at) for j, c in enumerate(row)] for i, row in enumerate(causal)]
                   for at in itertools.product(range(6), repeat=2)]  # fmt: skip
        return [tuple(map(tuple, mask)) for mask in flipped]
    if hasattr(control, "toggles"):
        heads = range(len(control.toggles))
        alone = [tuple(head == other for other in heads) for head in heads]
        return [*alone, *(tuple(not on for on in one) for one in alone), (True,) * len(heads), (False,) * len(heads)]
    if hasattr(control, "sliders"):
        words = sum(slider.layout.display != "none" for slider in control.sliders)
        rest = (0,) * (len(control.sliders) - words)
        one_at_a_time = [tuple(10 * (at == most) for at in range(words)) + rest for most in range(words)]
        return [(0,) * len(control.sliders), (10,) * words + rest, (*range(words), *rest), *one_at_a_time]
    if isinstance(control, widgets.Text):
        return TEXTS
    if isinstance(control, widgets.IntSlider):
        return range(control.min, control.max + 1)
    return [value for _, value in control.options]


def set_value(control, value):
    """Move a control as a reader would: a grid of buttons by pressing them, weights by their sliders."""
    if hasattr(control, "buttons"):
        for buttons, row in zip(control.buttons, value, strict=True):
            for button, allowed in zip(buttons, row, strict=True):
                button.value = allowed
    elif hasattr(control, "toggles"):
        for toggle, on in zip(control.toggles, value, strict=True):
            toggle.value = on
    elif hasattr(control, "sliders"):
        for slider, number in zip(control.sliders, value, strict=True):
            slider.value = number
    else:
        control.value = value
