"""The data of the lessons: the English-Vietnamese language, the reversal of digits, and lookups among items.

The first two come as pairs of a source and a target whose right alignment is known (`utils/grammar.py`), with splits
for training and testing, vocabularies and padded batches.
"""

import random
from dataclasses import dataclass
from functools import cache
from zlib import crc32

import torch

from utils import grammar
from utils.grammar import Pair, join, word

PAD, BOS, EOS, UNKNOWN = range(4)
SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<unk>")
LOOKUP_KEYS = "ABCDEFGHIJKLMNOP"  # the names of the keys in `lookups`; a key is its place in here
LOOKUP_VALUES = 16  # the values in `lookups` are the numbers below this one


def sentence(rng, clauses=1, split="train"):
    """A sentence of the language, by a grammar that can make several thousand million of one clause alone.

    Args:
        rng: a `random.Random`; the same one in the same state gives the same sentence.
        clauses: how many clauses, joined by conjunctions; one has 4 to 15 source tokens, seldom above 11.
        split: "train"; "test", sentences that training never has; or "combinations", sentences with an adjective
            beside a noun that training never has together.

    Returns:
        The Pair.

    Raises:
        ValueError: `clauses` below 1, or an unknown split.
    """
    if clauses < 1:
        raise ValueError(f"clauses={clauses}; expected 1 or more")
    if split not in ("train", "test", "combinations"):
        raise ValueError(f"split={split!r}; expected 'train', 'test' or 'combinations'")
    while True:
        parts = [grammar.clause(rng)]
        for _ in range(clauses - 1):
            parts += [word(*rng.choice(grammar.CONJUNCTIONS)), grammar.clause(rng)]
        pair = join(parts)
        if split_of(pair) == split:
            return pair


def split_of(pair):
    """The split that a sentence belongs to, by a fixed hash: "train", "test" or "combinations"."""
    if any(one_in(8, f"{adjective} {noun}") for adjective, noun in pair.combinations):
        return "combinations"
    return "test" if one_in(10, " ".join(pair.source)) else "train"


def one_in(n, text):
    """Whether a fixed hash of a text picks it, as it picks one in `n`."""
    return crc32(text.encode()) % n == 0


def sentence_of_length(rng, length, split="train"):
    """A sentence with exactly `length` source tokens, 5 to 40.

    Raises:
        ValueError: a length outside 5 to 40.
    """
    if not 5 <= length <= 40:
        raise ValueError(f"length={length}; expected 5 to 40 source tokens")
    while True:
        pair = sentence(rng, clauses=max(1, round(length / 7.5)), split=split)
        if len(pair.source) == length:
            return pair


def reversal(rng, length):
    """A string of digits and the same digits backwards: the smallest task whose right alignment is known.

    Raises:
        ValueError: a length below 1.
    """
    if length < 1:
        raise ValueError(f"length={length}; expected 1 or more")
    digits = tuple(str(rng.randrange(10)) for _ in range(length))
    return Pair(digits, digits[::-1], tuple(frozenset({at}) for at in reversed(range(length))))


class Vocabulary:
    """Tokens and their ids; 0 to 3 are padding, beginning, end and unknown."""

    def __init__(self, tokens):
        self.tokens = (*SPECIAL_TOKENS, *sorted(set(tokens)))
        self.ids = {token: at for at, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        """The ids of tokens; UNKNOWN for a token that is not in the vocabulary."""
        return [self.ids.get(token, UNKNOWN) for token in tokens]

    def decode(self, ids):
        """The tokens of ids, up to the first EOS; padding and BOS are left out."""
        tokens = []
        for at in ids:
            if at == EOS:
                break
            if at not in (PAD, BOS):
                tokens.append(self.tokens[at])
        return tokens


@cache
def vocabularies():
    """The vocabularies of the language, English and Vietnamese: every word that the grammar can use."""
    english, vietnamese = grammar.words()
    return Vocabulary(english), Vocabulary(vietnamese)


@dataclass(frozen=True)
class Batch:
    """Padded token ids.

    Attributes:
        source: (B, S).
        decoder_input: (B, T), BOS and then the target.
        labels: (B, T), the target and then EOS; PAD where nothing is to be answered.
    """

    source: torch.Tensor
    decoder_input: torch.Tensor
    labels: torch.Tensor


def shift_target(target):
    """What the decoder is given and what it should answer, from targets that begin with BOS and end with EOS.

    Built in lesson 01.

    Args:
        target: (B, T + 1) token ids, each row BOS, the sentence, EOS, and then padding.

    Returns:
        decoder_input: (B, T), all but the last.
        labels: (B, T), all but the first: at each place, the token that comes next.
    """
    return target[:, :-1], target[:, 1:]


def make_batch(pairs, source_vocabulary, target_vocabulary):
    """Pad pairs into one Batch, in the order in which they come."""
    source = [source_vocabulary.encode(pair.source) for pair in pairs]
    target = [[BOS, *target_vocabulary.encode(pair.target), EOS] for pair in pairs]
    return Batch(_padded(source), *shift_target(_padded(target)))


def make_batches(pairs, size, source_vocabulary, target_vocabulary, seed=0):
    """Batches of sentences of similar length, so that little is padding, in a random order.

    Args:
        pairs: the Pairs.
        size: how many to a batch; the last one may have fewer.
        source_vocabulary, target_vocabulary: the Vocabularies.
        seed: of the order.

    Returns:
        A list of Batches.

    Raises:
        ValueError: `size` below 1.
    """
    if size < 1:
        raise ValueError(f"size={size}; expected 1 or more")
    by_length = sorted(pairs, key=lambda pair: (len(pair.source), len(pair.target)))
    batches = [
        make_batch(by_length[at : at + size], source_vocabulary, target_vocabulary)
        for at in range(0, len(by_length), size)
    ]
    random.Random(seed).shuffle(batches)
    return batches


@dataclass(frozen=True)
class Lookups:
    """Sets of items, each a key with its value, and questions that ask for the values of two keys at once.

    Attributes:
        keys: (B, T_k), the key of each item, all different within a set.
        values: (B, T_k), the value of each item, all different within a set.
        asked: (B, T_q, 2), the two keys of each question, in order.
        answers: (B, T_q, 2), the values of those two keys, in order.
        places: (B, T_q, 2), at which items the two stand.
    """

    keys: torch.Tensor
    values: torch.Tensor
    asked: torch.Tensor
    answers: torch.Tensor
    places: torch.Tensor


def lookups(sets, seed, items=6, questions=4):
    """Random Lookups: the smallest task in which one query has to look at two places.

    Used in lesson 04.

    Args:
        sets: number of sets, B.
        seed: equal seeds give equal lookups.
        items: number of items in a set, T_k.
        questions: number of questions to a set, T_q.

    Returns:
        The Lookups.

    Raises:
        ValueError: `sets` or `questions` below 1, or fewer items than 2 or more than there are keys.
    """
    if sets < 1 or questions < 1 or not 2 <= items <= len(LOOKUP_KEYS):
        raise ValueError(
            f"sets={sets}, questions={questions}, items={items}; expected at least one set and one question, and "
            f"2 to {len(LOOKUP_KEYS)} items"
        )
    generator = torch.Generator().manual_seed(seed)

    def drawn(number, among, *shape):  # (*shape, number), without repeats
        return torch.rand(*shape, among, generator=generator).argsort(dim=-1)[..., :number]

    keys = drawn(items, len(LOOKUP_KEYS), sets)
    values = drawn(items, LOOKUP_VALUES, sets)
    places = drawn(2, items, sets, questions)
    asked, answers = (x.unsqueeze(1).expand(-1, questions, -1).gather(2, places) for x in (keys, values))
    return Lookups(keys, values, asked, answers, places)


def _padded(rows):
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)
