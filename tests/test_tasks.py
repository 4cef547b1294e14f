"""The English-Vietnamese language and the other data: well formed, aligned, split, padded."""

import itertools
import random
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from utils import grammar
from utils.tasks import (
    BOS,
    EOS,
    LOOKUP_KEYS,
    LOOKUP_VALUES,
    PAD,
    SPECIAL_TOKENS,
    UNKNOWN,
    Vocabulary,
    lookups,
    make_batch,
    make_batches,
    reversal,
    sentence,
    sentence_of_length,
    shift_target,
    split_of,
    vocabularies,
)

FUNCTION_WORDS = {"the", "do", "does"}  # English words that Vietnamese has nothing for
VIETNAMESE = {
    english: vietnamese
    for rows in (*grammar.QUALITIES.values(), grammar.COLOURS, grammar.NUMBERS, grammar.POSSESSIVES,
                 grammar.DEMONSTRATIVES)
    for english, vietnamese in rows
}  # fmt: skip


@pytest.fixture(scope="module")
def many():
    rng = random.Random(0)
    return [sentence(rng, clauses) for clauses in (1, 2, 3) for _ in range(1500)]


def text(tokens):
    return " ".join(tokens)


def test_every_target_token_has_its_place_in_the_source(many):
    for pair in many:
        assert len(pair.alignment) == len(pair.target)
        assert all(links and max(links) < len(pair.source) for links in pair.alignment), text(pair.source)


def test_the_alignment_covers_every_content_word(many):
    for pair in many:
        covered = set().union(*pair.alignment)
        missing = {pair.source[at] for at in range(len(pair.source)) if at not in covered}
        assert missing <= FUNCTION_WORDS, text(pair.source)


def test_english_agrees_in_number_and_article(many):
    singular = {noun.singular for noun in grammar.NOUNS if noun.singular != noun.plural}
    numbers = {english for english, _ in grammar.NUMBERS}
    bases = {verb.base for verb in grammar.VERBS}
    thirds = {verb.third for verb in grammar.VERBS}
    for pair in many:
        words = pair.source
        for first, second in itertools.pairwise(words):
            if first in ("a", "an"):
                assert (second[0] in "aeiou") == (first == "an"), text(words)
            if first in ("he", "she"):
                assert second not in bases | {"do", "are", "am"}, text(words)
            if first in ("I", "you", "we", "they"):
                assert second not in thirds | {"does", "is"}, text(words)
            if second == "am":
                assert first == "I", text(words)
        for at, word in enumerate(words):
            if word in numbers:
                noun = next(w for w in words[at:] if w in singular or any(w == n.plural for n in grammar.NOUNS))
                assert noun not in singular, text(words)


def translated(english):
    """A noun phrase in Vietnamese, by a rule written apart from the grammar."""
    words = english.split()
    noun = next(n for n in grammar.NOUNS if words[-1] in (n.singular, n.plural))
    before, after = [], []
    for word in words[:-1]:
        if word in ("a", "an"):
            before.append("một")
        elif word in dict(grammar.NUMBERS):
            before.append(VIETNAMESE[word])
        elif word in dict(grammar.POSSESSIVES) or word in dict(grammar.DEMONSTRATIVES):
            after.append(VIETNAMESE[word])  # last of all
        elif word != "the":
            after.insert(0, VIETNAMESE[word])  # an adjective: the later in English, the nearer to the noun
    ends = [word for word in after if word.startswith("của") or word in dict(grammar.DEMONSTRATIVES).values()]
    middle = [word for word in after if word not in ends]
    return text(text([*before, noun.classifier, noun.vietnamese, *middle, *ends]).split())


def test_a_noun_phrase_is_turned_round():
    rng = random.Random(0)
    seen = set()
    for _ in range(3000):
        phrase, plural = grammar.noun_phrase(rng, rng.choice(grammar.NOUNS))
        assert text(phrase.target) == translated(text(phrase.source)), text(phrase.source)
        assert plural == any(word in dict(grammar.NUMBERS) for word in phrase.source)
        seen.add(phrase.source)
    assert len(seen) > 1500


def test_my_big_red_book():
    """The example of the course: adjectives and possessive come after the noun, in the opposite order."""
    assert translated("my big red book") == "quyển sách đỏ lớn của tôi"
    rng = random.Random(0)
    book = next(noun for noun in grammar.NOUNS if noun.singular == "book")
    phrases = (grammar.noun_phrase(rng, book)[0] for _ in range(100_000))
    phrase = next(phrase for phrase in phrases if text(phrase.source) == "my big red book")
    assert text(phrase.target) == "quyển sách đỏ lớn của tôi"
    assert [min(links) for links in phrase.alignment] == [3, 3, 2, 1, 0, 0]


def test_natural_language_processing_is_crossed():
    rng = random.Random(0)
    terms = (grammar.term(rng) for _ in range(1000))
    term = next(term for term in terms if text(term.source) == "natural language processing")
    assert text(term.target) == "xử lý ngôn ngữ tự nhiên"
    assert [min(links) for links in term.alignment] == [2, 2, 1, 1, 0, 0]


@pytest.mark.parametrize(
    ("english", "vietnamese"),
    [
        (r"\b(\w+) (?:does|do) not buy\b", "không mua"),
        (r"\bdid not buy\b", "đã không mua"),
        (r"\bwill not buy\b", "sẽ không mua"),
        (r"\bwill buy\b", "sẽ mua"),
        (r"\bbought\b", "đã mua"),
        (r"\b(?:is|am|are) buying\b", "đang mua"),
    ],
)
def test_tense_and_negation_stand_before_the_verb(many, english, vietnamese):
    found = [pair for pair in many if re.search(english, text(pair.source))]
    assert found
    assert all(vietnamese in text(pair.target) for pair in found)


def test_the_language_is_several_thousand_million_sentences_wide():
    """One clause without a time: subjects x predicates x objects, counted verb by verb."""
    determiners = len(grammar.POSSESSIVES) + len(grammar.DEMONSTRATIVES) + 2
    numbered = len(grammar.NUMBERS) * (len(grammar.POSSESSIVES) + 1)

    def phrases(kinds):
        total = 0
        for noun in (noun for noun in grammar.NOUNS if set(kinds) & set(noun.kinds)):
            kind = next(kind for kind in grammar.QUALITIES if kind in noun.kinds)
            colours = len(grammar.COLOURED[kind])
            total += (1 + len(grammar.QUALITIES[kind])) * (1 + colours) * (determiners + numbered)
        return total

    width = 0
    for verb in grammar.VERBS:
        subjects = phrases(verb.subjects) + len(grammar.PRONOUNS)
        objects = phrases(verb.objects) + ("field" in verb.objects) * len(grammar.TERMS)
        width += subjects * (6 + verb.in_progress) * objects  # present, past, future, with and without not
    assert width > 3_000_000_000


def test_the_same_seed_gives_the_same_sentences_and_another_others():
    def first(seed):
        rng = random.Random(seed)
        return [sentence(rng, 2) for _ in range(20)]

    assert first(3) == first(3)
    assert first(3) != first(4)


@pytest.mark.parametrize("split", ["train", "test", "combinations"])
def test_a_sentence_belongs_to_one_split_alone(split):
    rng = random.Random(0)
    pairs = [sentence(rng, clauses, split) for clauses in (1, 2) for _ in range(300)]
    assert {split_of(pair) for pair in pairs} == {split}


def test_training_never_sees_a_combination_that_is_held_out(many):
    rng = random.Random(1)
    held_out = {
        c for _ in range(500) for c in sentence(rng, 1, "combinations").combinations
    } - {c for pair in many for c in pair.combinations}  # fmt: skip
    trained = {c for pair in many for c in pair.combinations}
    assert len(held_out) >= 8
    # The words themselves are in training, each beside others.
    assert {adjective for adjective, _ in held_out} <= {adjective for adjective, _ in trained}
    assert {noun for _, noun in held_out} <= {noun for _, noun in trained}


@pytest.mark.parametrize("length", [5, 8, 13, 21, 30, 40])
def test_the_length_can_be_chosen(length):
    rng = random.Random(0)
    assert {len(sentence_of_length(rng, length).source) for _ in range(5)} == {length}


def test_the_vocabularies_hold_every_word_and_no_other(many):
    english, vietnamese = vocabularies()
    used = [set(), set()]
    for pair in many:
        used[0] |= set(pair.source)
        used[1] |= set(pair.target)
    assert UNKNOWN not in english.encode(used[0])
    assert UNKNOWN not in vietnamese.encode(used[1])
    assert set(vietnamese.tokens) - set(SPECIAL_TOKENS) - used[1] == set()
    assert english.encode(["computer", "xyzzy"])[1] == UNKNOWN


def test_ids_and_tokens_are_each_others_inverse():
    vocabulary = Vocabulary(["b", "a", "b"])
    assert vocabulary.tokens == (*SPECIAL_TOKENS, "a", "b")
    assert vocabulary.decode([BOS, *vocabulary.encode(["b", "a"]), EOS, *vocabulary.encode(["a"]), PAD]) == ["b", "a"]
    assert len(vocabulary) == 6


def test_reversal_is_aligned_from_both_ends():
    pair = reversal(random.Random(0), 7)
    assert pair.target == pair.source[::-1]
    assert [set(links) for links in pair.alignment] == [{6}, {5}, {4}, {3}, {2}, {1}, {0}]


def test_a_batch_is_padded_and_shifted():  # FIELD_CASES 21
    vocabulary = Vocabulary("abc")
    a, b, c = vocabulary.encode("abc")
    pairs = [grammar.word("a b c", "a b"), grammar.word("c", "c")]
    batch = make_batch(pairs, vocabulary, vocabulary)
    assert batch.source.tolist() == [[a, b, c], [c, PAD, PAD]]
    # EOS as an input of the shorter one does no harm: nothing is to be answered there.
    assert batch.decoder_input.tolist() == [[BOS, a, b], [BOS, c, EOS]]
    assert batch.labels.tolist() == [[a, b, EOS], [c, EOS, PAD]]


def test_the_decoder_is_given_one_token_and_asked_for_the_next():  # FIELD_CASES 21
    a, b = 4, 5
    decoder_input, labels = shift_target(torch.tensor([[BOS, a, b, EOS]]))
    assert decoder_input.tolist() == [[BOS, a, b]]
    assert labels.tolist() == [[a, b, EOS]]
    # An empty sentence is answered at once.
    decoder_input, labels = shift_target(torch.tensor([[BOS, EOS]]))
    assert (decoder_input.tolist(), labels.tolist()) == ([[BOS]], [[EOS]])


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.integers(UNKNOWN, 9), max_size=5), min_size=1, max_size=4))
def test_every_answer_is_the_next_input(sentences):
    width = max(map(len, sentences)) + 2
    rows = [[BOS, *words, EOS] for words in sentences]
    target = torch.tensor([row + [PAD] * (width - len(row)) for row in rows])
    before = target.clone()
    decoder_input, labels = shift_target(target)
    assert decoder_input.shape == labels.shape == (len(sentences), width - 1)
    assert torch.equal(decoder_input[:, 1:], labels[:, :-1])
    for words, given_ids, asked in zip(sentences, decoder_input.tolist(), labels.tolist(), strict=True):
        counted = len(words) + 1
        assert given_ids[:counted] == [BOS, *words]
        assert asked == [*words, EOS] + [PAD] * (width - 1 - counted)
    assert torch.equal(target, before)


DIGITS = Vocabulary("0123456789")


def reversals(count, seed=0):
    rng = random.Random(seed)
    return [reversal(rng, rng.randint(1, 9)) for _ in range(count)]


def rows_of(batch):
    """The (source, target) of each row of a Batch, as tokens."""
    return [
        (tuple(DIGITS.decode(source)), tuple(DIGITS.decode(labels)))
        for source, labels in zip(batch.source.tolist(), batch.labels.tolist(), strict=True)
    ]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 40), st.integers(1, 12), st.integers(0, 5))
def test_batches_hold_every_pair_once_among_its_like(count, size, seed):
    pairs = reversals(count)
    given_pairs = list(pairs)
    batches = make_batches(pairs, size, DIGITS, DIGITS, seed)
    rows = [row for batch in batches for row in rows_of(batch)]
    assert sorted(rows) == sorted((pair.source, pair.target) for pair in pairs)
    sizes = sorted((len(batch.source) for batch in batches), reverse=True)
    assert sizes == [size] * (count // size) + [count % size] * (count % size > 0)
    # In the order of their lengths, no batch reaches into the next, so a shorter padding is not to be had.
    spans = sorted((min(lengths), max(lengths)) for lengths in ([len(s) for s, _ in rows_of(b)] for b in batches))
    assert all(longest <= shortest for (_, longest), (shortest, _) in itertools.pairwise(spans))
    assert all(batch.source.size(1) == max(len(source) for source, _ in rows_of(batch)) for batch in batches)
    assert pairs == given_pairs


def test_batches_come_in_an_order_that_the_seed_fixes():
    pairs, state = reversals(60), random.getstate()

    def lengths(seed):
        return [batch.source.size(1) for batch in make_batches(pairs, 4, DIGITS, DIGITS, seed)]

    first, again = (make_batches(pairs, 4, DIGITS, DIGITS, seed=3) for _ in range(2))
    assert [rows_of(batch) for batch in first] == [rows_of(batch) for batch in again]
    assert lengths(3) != lengths(4)
    assert lengths(3) != sorted(lengths(3))  # not from short to long
    assert sorted(lengths(3)) == sorted(lengths(4))
    assert random.getstate() == state


def test_sentences_of_the_language_are_batched_with_little_padding():
    rng = random.Random(0)
    pairs = [sentence(rng, 1 + at % 2) for at in range(400)]

    def padding(batches):
        return sum(int((b.source == PAD).sum()) for b in batches) / sum(b.source.numel() for b in batches)

    unsorted = [make_batch(pairs[at : at + 20], *vocabularies()) for at in range(0, 400, 20)]
    assert padding(make_batches(pairs, 20, *vocabularies())) < 0.1 < padding(unsorted)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 30), st.integers(2, len(LOOKUP_KEYS)), st.integers(1, 12), st.integers(0, 2**32))
def test_a_question_asks_for_the_values_of_two_of_the_items(sets, items, questions, seed):
    """Entry by entry: no key and no value twice in a set, two keys to a question, and the values that go with them."""
    found = lookups(sets, seed, items, questions)
    assert found.keys.shape == found.values.shape == (sets, items)
    assert found.asked.shape == found.answers.shape == found.places.shape == (sets, questions, 2)
    for keys, values, asked, answers, places in zip(
        *(x.tolist() for x in (found.keys, found.values, found.asked, found.answers, found.places)), strict=True
    ):
        assert len(set(keys)) == len(set(values)) == items
        assert set(keys) <= set(range(len(LOOKUP_KEYS)))
        assert set(values) <= set(range(LOOKUP_VALUES))
        value_of = dict(zip(keys, values, strict=True))
        assert all(first != second for first, second in asked)
        assert [[keys[at] for at in pair] for pair in places] == asked
        assert [[value_of[key] for key in pair] for pair in asked] == answers


def test_the_seed_alone_fixes_the_lookups():
    """Nothing else is drawn from and nothing else is changed; `sets`, `items` and `questions` have an effect too."""

    def drawn(*arguments, **sizes):
        return [x.tolist() for x in vars(lookups(*arguments, **sizes)).values()]

    state = torch.get_rng_state()
    first = drawn(20, 3)
    torch.rand(1)
    assert drawn(20, 3) == first == drawn(20, 3, items=6, questions=4)
    assert all(one != other for one, other in zip(first, drawn(20, 4), strict=True))
    torch.set_rng_state(state)
    drawn(20, 3)
    assert torch.equal(torch.get_rng_state(), state)


def test_every_key_value_and_pair_of_places_is_as_frequent_as_any_other():
    """6000 sets: each count is within five standard deviations of what a fair draw gives."""
    found = lookups(6000, 0)
    pairs = found.places[..., 0] * 6 + found.places[..., 1]
    first = [found.keys[:, 0], found.values[:, 0], found.keys[:, -1], found.values[:, -1], found.asked[:, 0, 0]]
    for drawn, kinds in (*((x, 16) for x in first), (found.keys, 16), (found.values, 16), (pairs, 36)):
        counts = drawn.flatten().bincount(minlength=kinds).double()
        possible = 30 if kinds == 36 else kinds  # a place is never paired with itself
        share, n = 1 / possible, drawn.numel()
        assert int((counts > 0).sum()) == possible
        assert ((counts[counts > 0] - n * share).abs() < 5 * (n * share * (1 - share)) ** 0.5).all()
    # Keys tell nothing of values: of all 256 couples, each one is there about as often.
    couples = (found.keys * 16 + found.values).flatten().bincount(minlength=256).double()
    assert (couples / couples.mean() - 1).abs().max() < 5 / couples.mean() ** 0.5


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda rng: sentence(rng, 0), "clauses=0"),
        (lambda rng: sentence(rng, 1, "valid"), "split='valid'"),
        (lambda rng: sentence_of_length(rng, 4), "length=4"),
        (lambda rng: sentence_of_length(rng, 41), "length=41"),
        (lambda rng: reversal(rng, 0), "length=0"),
        (lambda rng: make_batches([reversal(rng, 3)], 0, DIGITS, DIGITS), "size=0"),
        (lambda rng: make_batches([reversal(rng, 3)], -1, DIGITS, DIGITS), "size=-1"),
        (lambda rng: lookups(0, 0), "sets=0, questions=4, items=6; expected at least one set"),
        (lambda rng: lookups(5, 0, questions=0), "sets=5, questions=0, items=6; .* one question"),
        (lambda rng: lookups(5, 0, items=1), "sets=5, questions=4, items=1; .* 2 to 16 items"),
        (lambda rng: lookups(5, 0, items=17), "sets=5, questions=4, items=17; .* 2 to 16 items"),
    ],
)
def test_what_cannot_be_made_is_named(call, named):
    with pytest.raises(ValueError, match=named):
        call(random.Random(0))
