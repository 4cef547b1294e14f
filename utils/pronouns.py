"""Sentences in which one word decides what *it* is: "The animal didn't cross the street because it was too tired".

Of the two nouns, *it* is the first where the adjective tells why somebody would not do it, and the second where the
adjective tells why it could not be done. Most nouns stand in either place, so no noun gives the answer away.
"""

import random
from dataclasses import dataclass
from functools import cache

import torch

from utils.tasks import Vocabulary, one_in

ANIMALS = (
    *("animal", "bear", "camel", "cat", "dog", "donkey", "duck", "fox"),
    *("goat", "horse", "monkey", "mouse", "pig", "puppy", "tiger", "wolf"),
)
PLACES = (
    *("bridge", "canal", "desert", "field", "forest", "garden"),
    *("lake", "river", "road", "street", "tunnel", "valley"),
)
TO_PLACES = ("cross", "enter", "leave", "pass", "reach")
TO_ANIMALS = ("carry", "catch", "chase", "follow", "pull", "push")
OF_THE_FIRST = ("hungry", "lazy", "nervous", "scared", "sick", "sleepy", "slow", "tired", "weak", "young")
OF_PLACES = ("busy", "dark", "deep", "long", "narrow", "steep", "wet", "wide")
OF_ANIMALS = ("big", "dangerous", "fast", "heavy", "loud", "quick", "strong", "wild")
FIRST, VERB, SECOND, IT, ADJECTIVE = 1, 3, 5, 7, 10  # where they stand: the first noun, and so on
TEMPLATE = ("the", "", "didn't", "", "the", "", "because", "it", "was", "too", "")


def pronoun_sentence(first, verb, second, adjective):
    """The tokens of such a sentence."""
    tokens = list(TEMPLATE)
    tokens[FIRST], tokens[VERB], tokens[SECOND], tokens[ADJECTIVE] = first, verb, second, adjective
    return tuple(tokens)


def random_pronoun_sentence(rng, split="train"):
    """A sentence of the grammar.

    Args:
        rng: a `random.Random`.
        split: "train"; or "test", sentences whose adjective training never has with the noun that it tells of.

    Returns:
        The tokens.

    Raises:
        ValueError: an unknown split.
    """
    if split not in ("train", "test"):
        raise ValueError(f"split={split!r}; expected 'train' or 'test'")
    while True:
        first = rng.choice(ANIMALS)
        if rng.random() < 0.5:
            second, verb, adjectives = rng.choice(PLACES), rng.choice(TO_PLACES), OF_PLACES
        else:
            second = rng.choice([noun for noun in ANIMALS if noun != first])
            verb, adjectives = rng.choice(TO_ANIMALS), OF_ANIMALS
        adjective = rng.choice(rng.choice([OF_THE_FIRST, adjectives]))
        tokens = pronoun_sentence(first, verb, second, adjective)
        if _is_held_out(tokens) == (split == "test"):
            return tokens


def referent(tokens):
    """Where the noun stands that *it* is, FIRST or SECOND."""
    return FIRST if tokens[ADJECTIVE] in OF_THE_FIRST else SECOND


def _is_held_out(tokens):
    return one_in(5, f"{tokens[ADJECTIVE]} {tokens[referent(tokens)]}")


@cache
def pronoun_vocabulary():
    """The Vocabulary of these sentences."""
    nouns_and_verbs = (*ANIMALS, *PLACES, *TO_PLACES, *TO_ANIMALS)
    return Vocabulary((*filter(None, TEMPLATE), *nouns_and_verbs, *OF_THE_FIRST, *OF_PLACES, *OF_ANIMALS))


@dataclass(frozen=True)
class Pronouns:
    """A batch of sentences.

    Attributes:
        token_ids: (B, 11).
        right: (B,), where the noun stands that *it* is.
        wrong: (B,), where the other noun stands.
        nouns: (B,), the token id of the noun that *it* is.
    """

    token_ids: torch.Tensor
    right: torch.Tensor
    wrong: torch.Tensor
    nouns: torch.Tensor


def pronoun_batch(sentences):
    """Put sentences into one Pronouns, in their order."""
    token_ids = torch.tensor([pronoun_vocabulary().encode(tokens) for tokens in sentences])
    right = torch.tensor([referent(tokens) for tokens in sentences])
    nouns = token_ids.gather(1, right.unsqueeze(1)).squeeze(1)
    return Pronouns(token_ids, right, FIRST + SECOND - right, nouns)


def pronoun_batches(number, size, seed, split="train"):
    """`number` batches of `size` random sentences each."""
    rng = random.Random(seed)
    return [pronoun_batch([random_pronoun_sentence(rng, split) for _ in range(size)]) for _ in range(number)]
