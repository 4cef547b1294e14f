"""Sentences such as "the cat sat on the mat" with a word left out, which the others give away in part.

There are four scenes, each with its animals or vehicles, verbs and places. Any of the three words tells the scene,
and the scene tells which words can fill the gap.
"""

import random
from dataclasses import dataclass
from functools import cache
from itertools import product
from zlib import crc32

import torch

from utils.tasks import Vocabulary

SCENES = (
    (("cat", "dog", "puppy", "mouse", "hamster"), ("sat", "slept", "lay"), ("mat", "rug", "sofa", "bed", "cushion")),
    (("bird", "owl", "crow", "parrot"), ("sang", "perched", "nested"), ("branch", "roof", "wire", "fence")),
    (("boat", "ship", "ferry", "canoe"), ("sailed", "floated", "drifted"), ("lake", "river", "sea", "canal")),
    (("car", "bus", "truck", "taxi"), ("drove", "parked", "stopped"), ("road", "street", "bridge", "square")),
)
GAP = "___"
WHO, VERB, PLACE = 1, 2, 5  # where the words stand that can be left out


def scene_sentences(split="train"):
    """All sentences of a split, as tuples of tokens; "the cat sat on the mat" is one of "train".

    Raises:
        ValueError: a split other than "train" and "test".
    """
    if split not in ("train", "test"):
        raise ValueError(f"split={split!r}; expected 'train' or 'test'")
    words = [one for scene in SCENES for one in product(*scene)]
    sentences = [("the", who, verb, "on", "the", place) for who, verb, place in words]
    return [tokens for tokens in sentences if _is_held_out(tokens) == (split == "test")]


def _is_held_out(tokens):
    return crc32(" ".join(tokens).encode()) % 5 == 1


@cache
def gap_vocabulary():
    """The Vocabulary of these sentences, with the gap."""
    return Vocabulary([GAP, *(word for split in ("train", "test") for s in scene_sentences(split) for word in s)])


@dataclass(frozen=True)
class Gaps:
    """A batch of sentences with a gap each.

    Attributes:
        token_ids: (B, 6), one of them the gap.
        places: (B,), where the gap is.
        words: (B,), the token id of the word that is left out.
    """

    token_ids: torch.Tensor
    places: torch.Tensor
    words: torch.Tensor


def with_gaps(sentences, places):
    """Leave out of each sentence the word at its place."""
    full, places = torch.tensor([gap_vocabulary().encode(tokens) for tokens in sentences]), torch.tensor(places)
    words = full.gather(1, places.unsqueeze(1)).squeeze(1)
    gap = gap_vocabulary().ids[GAP]
    return Gaps(full.scatter(1, places.unsqueeze(1), gap), places, words)


def gap_batches(number, size, seed, split="train"):
    """`number` batches of `size` random sentences, each with a random gap."""
    rng, sentences = random.Random(seed), scene_sentences(split)
    return [
        with_gaps(rng.choices(sentences, k=size), [rng.choice([WHO, VERB, PLACE]) for _ in range(size)])
        for _ in range(number)
    ]
