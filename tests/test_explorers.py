"""Interactive figures, moved through every value as plain Python."""

import gc
import io
import itertools
import random
import unicodedata
import weakref
from collections import Counter

import ipywidgets as widgets
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image
from shown import (
    ITEMS,
    MAKERS,
    QUESTIONS,
    TEXTS,
    WIDTHS,
    adjectives,
    aligned,
    alignment,
    by_length,
    head_weights,
    held_out,
    laboratory,
    made_up_accuracy,
    numbered,
    one_number,
    one_token,
    own_sentence,
    perturbed,
    picked_heads,
    pronouns_by_rule,
    scaling,
    set_value,
    small_translator,
    stepped_translation,
    steps,
    translators,
    values_of,
)

from utils import page
from utils.attention import LuongAttention, merge_heads, split_heads
from utils.explorers import (
    Explorer,
    change_one_token,
    change_the_adjective,
    explorer,
    follow_one_number,
    pick_heads,
    predict_the_alignment,
    step_through_translation,
    translate_your_own,
    translations_by_length,
)
from utils.explorers.cross_attention import MOST_STEPS
from utils.explorers.words import CUT, Words, fitted, typed_words
from utils.grammar import Pair
from utils.models import Encoder, Seq2Seq
from utils.pronouns import (
    ANIMALS,
    FIRST,
    IT,
    OF_THE_FIRST,
    PLACES,
    SECOND,
    TO_PLACES,
    pronoun_sentence,
    pronoun_vocabulary,
    random_pronoun_sentence,
)
from utils.tasks import BOS, EOS, UNKNOWN, Vocabulary, vocabularies
from utils.training import Translation, accuracy_by_length
from utils.transformer import EncoderBlock


@pytest.mark.parametrize("make", MAKERS)
def test_every_value_of_every_control_gives_a_picture_and_a_sentence(make):
    shown = make()
    for control in shown.controls.values():
        start = control.value
        for value in values_of(control):
            set_value(control, value)
            assert shown.error is None, shown.error
            picture = Image.open(io.BytesIO(shown.png))
            assert picture.size[0] > 400
            assert shown.sentence.endswith(".")
        set_value(control, start)


@pytest.mark.parametrize("make", MAKERS)
def test_equal_values_give_equal_pictures_whatever_was_shown_between(make):
    shown = make()
    first, sentence = shown.png, shown.sentence
    for control in shown.controls.values():
        start = control.value
        pictures = set()
        for value in values_of(control)[:6]:
            set_value(control, value)
            pictures.add(shown.png)
        assert len(pictures) > 1, "this control changes nothing"
        set_value(control, start)
    assert shown.png == first
    assert shown.sentence == sentence
    assert make().png == first


@pytest.mark.parametrize("make", MAKERS)
def test_25_moves_open_no_figure_and_show_one_picture_each(make):  # FIELD_CASES 31
    shown = make()
    sent = []
    shown._picture.observe(lambda change: sent.append(change["new"]), names="value")
    control = list(shown.controls.values())[-1]
    values = itertools.cycle(values_of(control))
    moves = 0
    while moves < 25:
        value = next(values)
        if value != control.value:
            control.value = value
            moves += 1
    assert len(sent) == 25
    assert plt.get_fignums() == []


def test_the_steps_are_the_attention_of_the_lesson():
    shown = steps()
    weights = torch.softmax(torch.tensor([6.0, 0.0, 2.0]) / 2**0.5, dim=-1)
    assert shown.sentence.endswith(f"{float(weights @ torch.tensor([4.0, 8.0, 0.0])):.2f} v.")
    shown.controls["step"].value = 1
    assert "the largest, 6, is a's" in shown.sentence
    shown.controls["query"].value = 1
    assert "the largest, 6, is b's" in shown.sentence
    shown.controls["step"].value = 3
    assert "sum to 1.00" in shown.sentence


def test_the_scaling_sentence_tells_what_was_measured():
    shown = scaling()
    shown.controls["query"].value = 3
    generator = torch.Generator().manual_seed(0)
    queries, keys = torch.randn(50, 64, generator=generator), torch.randn(50, 8, 64, generator=generator)
    for d_k, (name, power) in itertools.product(WIDTHS, [("no scaling", 0.0), ("1/√d_k", 0.5), ("1/d_k", 1.0)]):
        shown.controls["d_k"].value, shown.controls["power"].value = d_k, power
        scores = (keys[..., :d_k] @ queries[:, :d_k, None]).squeeze(-1) / d_k**power
        largest = scores.softmax(-1).amax(-1)
        assert f"d_k = {d_k} and {name}" in shown.sentence
        assert f"is {largest[3]:.2f} for query 4 and {largest.mean():.2f} on average" in shown.sentence


@pytest.mark.parametrize(
    ("way", "dtype", "mask", "alarms"),
    [
        ("-inf", "float32", "causal", []),
        ("-inf", "float32", "causal, first key is padding", ["NaN"]),
        ("-1e9", "float32", "causal", []),
        ("-1e9", "float32", "causal, first key is padding", ["leak"]),
        ("-1e9", "float16", "causal", ["overflow"]),
        ("-1e9", "bfloat16", "causal", []),
        ("0", "float32", "padding: last two keys", ["leak"]),
        ("after", "float32", "causal", ["lost mass"]),
        ("ours", "float32", "causal, first key is padding", []),
        ("ours", "float16", "causal, first key is padding", []),
        ("ours", "bfloat16", "padding: last two keys", []),
    ],
)
def test_the_laboratory_raises_the_alarms_that_are_due(way, dtype, mask, alarms):
    shown = laboratory()
    shown.controls["mask"].ready_made.value = dict(shown.controls["mask"].ready_made.options)[mask]
    shown.controls["way"].value, shown.controls["dtype"].value = way, dtype
    assert shown.error is None
    raised = [kind for kind in ("NaN", "leak", "lost mass", "overflow") if f"{kind}:" in shown.sentence]
    assert raised == alarms
    assert ("No alarm" in shown.sentence) == (not alarms)


def test_a_button_says_and_does_what_it_shows():
    grid = laboratory().controls["mask"]
    grid.ready_made.value = dict(grid.ready_made.options)["causal"]
    assert grid.buttons[0][1].description == "0"
    grid.buttons[0][1].value = True
    assert grid.buttons[0][1].description == "1"
    assert grid.value[0][1] is True
    assert grid.ready_made.label == "as pressed"  # no longer the ready-made mask
    grid.buttons[0][1].value = False
    assert dict(grid.ready_made.options)["causal"] == grid.ready_made.value


# Lesson 01


def paragraphs(shown):
    """The three paragraphs of a picture of `translations_by_length`: texts, and the number of frames."""
    figure, _ = shown._draw(**shown.values)
    labels = [c for c in figure.axes[0].collections if hasattr(c, "labels")]
    frames = [c for c in figure.axes[0].collections if not hasattr(c, "labels")]
    return [label.labels for label in labels], [len(frame.get_paths()) for frame in frames]


def test_only_lengths_with_enough_different_sentences_are_on_offer():
    assert values_of(by_length().controls["length"]) == [5, 6, 12]
    five = [pair for pair in held_out() if len(pair.source) == 5]
    with pytest.raises(ValueError, match="no length with 5 different sentences"):
        translations_by_length({"one": translators([five[0]] * 9)["right"]}, [five[0]] * 9)


def test_translations_are_of_all_pairs_and_models_can_be_told_apart():
    pairs = held_out()
    right = translators(pairs)["right"]
    with pytest.raises(ValueError, match=r"models\['a'\] has 3 translations but pairs has 19"):
        translations_by_length({"a": right[:3]}, pairs)
    with pytest.raises(ValueError, match="7 models; expected 1 to 6"):
        translations_by_length(dict.fromkeys("abcdefg", right), pairs)


def test_what_a_model_wrote_is_counted_token_by_token():
    shown, pairs = by_length(), held_out()
    made = translators(pairs)
    for model, length, sentence in itertools.product(made, (5, 6, 12), range(5)):
        for name, value in (("model", model), ("length", length), ("sentence", sentence)):
            shown.controls[name].value = value
        at = [place for place, pair in enumerate(pairs) if len(pair.source) == length][sentence]
        target, written = pairs[at].target, made[model][at].tokens
        right = sum(a == b for a, b in zip(written, target, strict=False))
        said = shown.sentence
        assert said.startswith(f'Sentence {sentence + 1}, "{" ".join(pairs[at].source)}", has {length} tokens; {model}')
        expected = {
            "right": f"all {len(target)} target tokens right.",
            "short": f"5 of {len(target)} target tokens right and ends after token 5.",
            "long": f"{len(target)} of {len(target)} target tokens right and does not end there.",
            "wrong": f"{right} of {len(target)} target tokens right and is first wrong at token 2.",
        }
        if model != "short" or len(target) > 5:
            assert f"{model} writes {expected[model]}" in said
        share = accuracy_by_length(made[model], pairs)[length]
        assert said.endswith(f"Of {share.count} sentences of this length it gets {share.sentences:.2f} right.")


def test_wrong_and_missing_tokens_are_framed():
    shown, pairs = by_length(), held_out()
    target = next(pair for pair in pairs if len(pair.source) == 12).target
    shown.controls["length"].value = 12
    frames = {}
    for model in translators(pairs):
        shown.controls["model"].value = model
        (source, right, written), (*others, frames[model]) = paragraphs(shown)
        assert others == [0, 0]
        assert " ".join(source) in shown.sentence
        assert right == [*target]
        if model == "short":
            assert written == [*target[:5], *[""] * (len(target) - 5)]  # empty frames
        if model == "long":
            assert written[: len(target)] == right
            assert written[-1] == CUT  # what does not fit
            assert 0 < frames.pop(model) == len(written) - 1 - len(target)
    assert frames == {"right": 0, "short": len(target) - 5, "wrong": sum(t != "nhưng" for t in target[1::2])}


def test_words_wrap_and_never_leave_their_width():
    _, axes = explorer.new_figure(6, 3)
    words = Words(axes, 0.5, 2.5, 2.0, 3)
    words.show(["chuyện"] * 30, framed=range(30))
    places, labels = words.labels.get_offsets(), words.labels.labels
    assert labels[-1] == CUT
    assert len(set(places[:, 1].round(3))) == 3
    assert len(words.frames.get_paths()) == len(labels) - 1
    edges = [x for frame in words.frames.get_paths() for x in frame.vertices[:, 0]]
    assert 0.4 < min(edges) < max(edges) < 2.6
    words.show([])
    assert words.labels.labels == []


# Lesson 02


def test_a_guess_is_normalised_and_compared_with_the_models_weights():
    shown, (pairs, made) = alignment(), aligned()
    words = pairs[0].source
    shown.controls["step"].value = 3
    numbers = (0, 6, 0, 0, 2, 0, 0, 0)
    set_value(shown.controls["guess"], numbers)
    said = (
        f'Token 3 of {len(pairs[0].target)} is "{pairs[0].target[2]}". Your guess is 0.75 {words[1]}, 0.25 {words[4]}'
    )
    assert shown.sentence == f'{said}; its largest is 0.75, on "{words[1]}".'
    hidden = shown.png
    shown.controls["reveal"].value = True
    weights = made[0].weights[2]
    shared = float(torch.minimum(torch.tensor(numbers) / 8, weights).sum())
    assert f"You and the model share {shared:.2f} of the weight" in shown.sentence
    assert shown.sentence.endswith(f'its largest is {weights.max():.2f}, on "{words[int(weights.argmax())]}".')
    assert shown.png != hidden


def test_a_missing_guess_is_said_to_be_missing():
    shown = alignment()
    set_value(shown.controls["guess"], (0,) * 8)
    assert shown.error is None
    assert "Your guess is missing" in shown.sentence
    shown.controls["reveal"].value = True
    assert shown.error is None
    assert "share" not in shown.sentence
    assert "The model's largest is" in shown.sentence


def test_another_sentence_brings_its_own_words_and_hides_what_was_revealed():
    shown, (pairs, _) = alignment(), aligned()
    sentence, step, guess, reveal = shown.controls.values()
    step.value = step.max
    set_value(guess, (1, 2, 3, 4, 5, 6, 7, 8))
    reveal.value = True
    for at in (1, 2, 0, 1):
        sentence.value = at
        names = [slider.description for slider in guess.sliders if slider.layout.display != "none"]
        assert names == [*pairs[at].source]
        assert guess.value == (1,) * len(names) + (0,) * (8 - len(names))
        assert reveal.value is False
        assert step.max == len(pairs[at].target) >= step.value
        assert "on every word" in shown.sentence
        assert "model" not in shown.sentence
        figure, _ = shown._draw(**shown.values)
        written, named, _ = (c.labels for c in figure.axes[0].collections if hasattr(c, "labels"))
        assert named == names
        assert written == [*pairs[at].target[: step.value]]
    step.value = 1
    assert shown._draw(0, 99, (1,) * 8, True)[1].startswith(f"Token {len(pairs[0].target)} of ")


def test_another_token_is_another_question():
    shown = alignment()
    set_value(shown.controls["guess"], (9,) + (0,) * 7)
    shown.controls["reveal"].value = True
    shown.controls["step"].value = 2
    assert shown.controls["guess"].value == (1,) * 8
    assert shown.controls["reveal"].value is False


def test_a_word_that_is_there_twice_is_told_with_its_place():
    pair = Pair(("cat", "and", "cat"), ("mèo", "và", "mèo"), (frozenset({0}), frozenset({1}), frozenset({2})))
    shown = predict_the_alignment([pair], [Translation([*pair.target], torch.eye(3))])
    shown.controls["reveal"].value = True
    assert shown.sentence.endswith('its largest is 1.00, on "cat" (word 1).')
    shown.controls["guess"].sliders[0].value = 0
    assert 'largest is 0.50, on "and" and "cat" (word 3).' in shown.sentence


def changed(pairs, made, **change):
    return pairs, [Translation(**{**vars(made[0]), **change}), *made[1:]]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda pairs, made: ([], []), "pairs has 0 and translations has 0"),
        (lambda pairs, made: (pairs, made[:2]), "pairs has 3 and translations has 2"),
        (lambda pairs, made: changed(pairs, made, weights=None), r"translations\[0\] has no weights"),
        (lambda pairs, made: changed(pairs, made, tokens=["và"]), r"translations\[0\] is not the target"),
        (
            lambda pairs, made: ([Pair(pairs[0].source * 2, pairs[0].target, ()), *pairs[1:]], made),
            r"pairs\[0\] has 16 source tokens; expected 8 or fewer",
        ),
    ],
)
def test_only_right_translations_of_short_sentences_can_be_guessed(spoil, message):
    with pytest.raises(ValueError, match=message):
        predict_the_alignment(*spoil(*aligned()))


def untrained(attention):
    """A small model that writes something, whatever it is given."""
    english, vietnamese = vocabularies()
    encoder = Encoder(len(english), 8, 8, bidirectional=True)
    return Seq2Seq(encoder, len(vietnamese), 8, 8, attention).eval()


def test_a_typed_sentence_goes_to_the_model_as_the_vocabulary_has_it():
    english, vietnamese = vocabularies()
    torch.manual_seed(0)
    model = untrained(LuongAttention(8, 16, "general"))
    shown = translate_your_own({"general": model}, english, vietnamese)
    shown.controls["text"].value = " i don't SEE her, cat: zebra. zebra"
    read = ["I", "don't", "see", "her", "cat", "zebra", "zebra"]
    ids = english.encode(read)
    assert [at for at, one in enumerate(ids) if one == UNKNOWN] == [1, 5, 6]
    token_ids, weights = model.greedy(torch.tensor([ids]))
    tokens = vietnamese.decode(token_ids[0].tolist())
    assert tokens
    assert shown.sentence.startswith(f'With general, "{" ".join(read)}" becomes "{" ".join(tokens)}".')
    assert f"The strongest link is {weights[0, : min(len(tokens), 40)].max():.2f}, from" in shown.sentence
    assert shown.sentence.endswith("not in the vocabulary: don't, zebra.")
    figure, _ = shown._draw(**shown.values)
    image = figure.axes[0].images[0]
    torch.testing.assert_close(torch.tensor(image.get_array().data), weights[0, : min(len(tokens), 40)])
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == read
    assert figure.axes[0].get_title(loc="left").startswith("general")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "There is no word to translate"),
        ("  ...!", "There is no word to translate"),
        ("cat " * 21, "The sentence has 21 words and the picture has room for 20"),
        ("the <eos>", "not in the vocabulary: eos."),
        ("x" * 300, f"not in the vocabulary: {'x' * 13}…."),
    ],
)
def test_what_cannot_be_translated_is_said_plainly(text, said):
    shown = own_sentence()
    shown.controls["text"].value = text
    assert shown.error is None
    assert said in shown.sentence


def test_the_first_sentence_is_in_the_vocabulary_and_the_picture_never_changes_its_size(capsys):
    shown = own_sentence()
    assert "not in the vocabulary" not in shown.sentence
    sizes = set()
    for text in TEXTS:
        shown.controls["text"].value = text
        sizes.add(Image.open(io.BytesIO(shown.png)).size)
    assert len(sizes) == 1
    assert capsys.readouterr().out == ""  # where a widget's callback prints, nobody looks


class Fixed(torch.nn.Module):
    """A model that writes the same ids whatever it reads."""

    attention = "some"

    def __init__(self, ids):
        super().__init__()
        self.ids = torch.tensor([ids])

    def greedy(self, source):
        return self.ids, torch.full((1, self.ids.size(1), source.size(1)), 1 / source.size(1))


def test_an_empty_translation_and_an_endless_one():
    shown = translate_your_own({"none": Fixed([2, 0]), "endless": Fixed([5] * 80)}, *vocabularies())
    assert shown.sentence.endswith('becomes "".')
    shown.controls["model"].value = "endless"
    assert "The map has its first 40 tokens of 80." in shown.sentence
    figure, _ = shown._draw(**shown.values)
    assert figure.axes[0].images[0].get_array().shape[0] == 40


def test_a_model_without_attention_has_no_map():
    with pytest.raises(ValueError, match=r"models\['plain'\] has no attention"):
        translate_your_own({"plain": untrained(None)}, *vocabularies())


# Lesson 04

WAYS_TO_SPLIT = ["right", "split without transpose", "merged without transpose"]


def torch_stages(x, H, way):
    """The four stages as lesson 04 writes them, with its axis B."""
    B, (T, d_model) = 1, x.shape
    x = x.unsqueeze(0)
    cut = x.view(B, H, T, d_model // H) if way == WAYS_TO_SPLIT[1] else x.view(B, T, H, d_model // H)
    heads = cut if way == WAYS_TO_SPLIT[1] else split_heads(x, H)
    merged = heads.reshape(B, T, d_model) if way == WAYS_TO_SPLIT[2] else merge_heads(heads)
    return [stage[0] for stage in (x, cut, heads, merged)]


def drawn(shown):
    """The texts of a picture of `follow_one_number` by kind, and what is outlined and what has a corner."""
    figure, _ = shown._draw(**shown.values)
    cells, _, corners, numbers, frames, names, steps, indices = figure.axes[0].collections
    outlined, marked = (
        {
            tuple((path.vertices[:4].min(axis=0) + path.vertices[:4].max(axis=0)).round(3) / 2)
            for path in part.get_paths()
        }
        for part in (frames, cells)
    )
    places = [tuple(place) for place in numbers.get_offsets().round(3)]
    assert marked == set(places)  # a number stands in the middle of each cell
    framed = [label for label, place in zip(numbers.labels, places, strict=True) if place in outlined]
    return numbers.labels, names.labels, steps.labels, indices.labels, framed, len(corners.get_paths())


@pytest.mark.parametrize(("T", "d_model", "H"), [(3, 8, 2), (4, 6, 3), (2, 4, 4), (5, 8, 2)])
@pytest.mark.parametrize("way", WAYS_TO_SPLIT)
def test_a_number_goes_where_torch_puts_it(T, d_model, H, way):
    x = numbered(T, d_model)
    shown = follow_one_number(x, H)
    shown.controls["way"].value = way
    stages, right = torch_stages(x, H, way), torch_stages(x, H, "right")
    due = [
        right[0],
        right[1] if stages[1].shape == right[1].shape and way != WAYS_TO_SPLIT[1] else right[2],
        *right[2:],
    ]
    for token, feature in [(0, 0), (T - 1, 0), (T // 2, d_model - 1)]:
        shown.controls["token"].value, shown.controls["feature"].value = token, feature
        number = int(x[token, feature])
        numbers, names, _, indices, framed, corners = drawn(shown)
        assert numbers == [str(n) for stage in stages for n in stage.flatten().tolist()]
        assert indices == [str((stage == number).nonzero()[0].tolist()) for stage in stages]
        assert framed == [str(number)] * 4
        assert corners == sum(int((stage != wanted).sum()) for stage, wanted in zip(stages, due, strict=True))
        assert (corners == 0) == (way == "right")
        assert names.count("token") == 4
        assert all(names.count(f"head {head}") == (2 if d_model > H else 0) for head in range(H))
        out = int((stages[-1] != x).sum())
        at = (stages[-1] == number).nonzero()[0].tolist()
        if way == "right":
            assert shown.sentence.endswith(f"{x.numel()} of {x.numel()} numbers are where they were, {number} at {at}.")
        else:
            where = f"{number} is at {at}{' again' if at == [token, feature] else f', not at [{token}, {feature}]'}"
            assert shown.sentence.endswith(f"{where}, and {out} of {x.numel()} numbers are out of place.")


def test_what_is_wrong_is_told_of_the_head_in_question():
    shown = one_number()
    assert shown.sentence.startswith("23 is feature 3 of token 1.")
    assert "head 0 gets 10 to 13, 20 to 23 and 30 to 33, a row a token" in shown.sentence
    shown.controls["way"].value = "split without transpose"
    assert "23 of token 1 becomes part of head 0's row 2, the model's token 2." in shown.sentence
    assert (
        "Head 0 gets 10 to 13, 14 to 17 and 20 to 23 for its 3 tokens: its row 1 holds token 0's features 4 to 7."
        in shown.sentence
    )
    shown.controls["token"].value = 2
    assert "Head 1 gets 24 to 27, 30 to 33 and 34 to 37" in shown.sentence
    assert "its row 0 holds token 1's features 4 to 7." in shown.sentence
    shown.controls["way"].value = "merged without transpose"
    assert "Row 1 of the result holds 30 to 33 and 14 to 17, of tokens 2 and 0; 33 is at [1, 3]" in shown.sentence


def test_the_steps_are_named_with_their_shapes():
    shown = one_number()
    for way, shape, left_out in zip(
        WAYS_TO_SPLIT, ["T, H", "H, T", "T, H"], ["", "no transpose", "reshape alone"], strict=True
    ):
        shown.controls["way"].value = way
        _, _, steps, _, _, _ = drawn(shown)
        assert steps[:2] == ["x", "view"]
        assert steps[4:] == ["(T, d_model)", f"({shape}, d_k)", "(H, T, d_k)", "(T, d_model)"]
        assert left_out in [*steps, ""]


def test_numbers_that_do_not_follow_each_other_are_told_one_by_one():
    shown = follow_one_number(torch.tensor([[5.0, 0.0, 7.0, 2.0], [40.0, 99.0, 8.0, 1.0]]), 2)
    assert shown.sentence.startswith("99 is feature 1 of token 1.")
    assert "head 0 gets 5 0 and 40 99" in shown.sentence


@pytest.mark.parametrize(
    ("x", "num_heads", "error", "message"),
    [
        ([[1, 2]], 2, TypeError, "x is a list; expected a torch.Tensor"),
        (numbered(3, 8).unsqueeze(0), 2, ValueError, r"x has shape \(1, 3, 8\); expected \(T, d_model\)"),
        (numbered(3, 8), 3, ValueError, "d_model=8 is not divisible by num_heads=3"),
        (numbered(3, 8), 2.0, TypeError, "num_heads=2.0 is a float"),
        (numbered(3, 8), 1, ValueError, "T=3 and num_heads=1; expected at least 2 of each"),
        (numbered(1, 8), 2, ValueError, "T=1 and num_heads=2; expected at least 2 of each"),
        (numbered(3, 9), 3, ValueError, r"x has shape \(3, 9\) and num_heads=3; expected d_model up to 8"),
        (numbered(5, 8), 4, ValueError, r"x has shape \(5, 8\) and num_heads=4; .* up to 16"),
        (numbered(3, 8) + 0.5, 2, ValueError, "expected whole ones from 0 to 99, all different"),
        (numbered(3, 8) // 2, 2, ValueError, "all different"),
        (numbered(3, 8) + 80, 2, ValueError, "from 0 to 99"),
    ],
)
def test_only_numbers_that_can_be_followed(x, num_heads, error, message):
    with pytest.raises(error, match=message):
        follow_one_number(x, num_heads)


def switched(*on, of=8):
    return tuple(head in on for head in range(of))


@pytest.mark.parametrize(
    ("on", "said"),
    [
        (switched(*range(8)), "All 8 heads are on"),
        (switched(), "No head is on"),
        (switched(3), "Head 3 is on"),
        (switched(1, 4), "Heads 1 and 4 are on"),
        (switched(0, 2, 7), "Heads 0, 2 and 7 are on"),
    ],
)
def test_the_heads_that_are_on_and_their_answers_are_told(on, said):
    shown = picked_heads()
    set_value(shown.controls["heads"], on)
    first, second, both = made_up_accuracy(on)
    told = f"{said}: first answer right {first:.2f}, second {second:.2f}, both {both:.2f}."
    assert shown.sentence == told
    shown.controls["show"].value = "average of those on"
    assert shown.sentence.startswith(told)
    if not any(on):
        assert shown.sentence.endswith("There is nothing to average.")
        return
    average = head_weights(8)[torch.tensor(on)].mean(dim=0)
    row, column = divmod(int(average.argmax()), 6)
    assert shown.sentence.endswith(f'is {average.max():.2f}, from "{QUESTIONS[row]}" to {ITEMS[column]}.')


def test_what_is_off_is_covered_and_not_in_the_average():
    shown, weights = picked_heads(), head_weights(8)
    set_value(shown.controls["heads"], switched(1, 4))
    figure, _ = shown._draw(**shown.values)
    maps = [axes for axes in figure.axes if axes.images]
    assert len(maps) == 8
    for head, axes in enumerate(maps):
        on = head in (1, 4)
        assert [cover.get_visible() for cover in axes.patches] == [not on]
        assert axes.get_title(loc="left") == (f"head {head}" if on else f"head {head}, off")
        torch.testing.assert_close(torch.tensor(axes.images[0].get_array().data), weights[head])
    shown.controls["show"].value = "average of those on"
    figure, _ = shown._draw(**shown.values)
    (image,) = (axes.images[0] for axes in figure.axes if axes.images)
    torch.testing.assert_close(torch.tensor(image.get_array().data), weights[[1, 4]].mean(dim=0))
    others = weights[[0, 1, 5, 6, 4, 7, 2, 3]]  # the same two where they were, the rest elsewhere
    again = pick_heads(others, QUESTIONS, ITEMS, made_up_accuracy)
    set_value(again.controls["heads"], switched(1, 4))
    assert again.png != shown.png
    again.controls["show"].value = "average of those on"
    assert again.png == shown.png


def test_the_accuracy_is_measured_once_for_each_choice_of_heads():
    asked = Counter()

    def accuracy(on):
        asked[on] += 1
        return made_up_accuracy(on)

    shown = pick_heads(head_weights(8), QUESTIONS, ITEMS, accuracy)
    heads, show = shown.controls["heads"], shown.controls["show"]
    for _ in range(2):
        for value in (switched(3), switched(), switched(3), switched(*range(8))):
            heads.ready_made.value = value
            for way in values_of(show):
                show.value = way
    assert asked == dict.fromkeys([switched(3), switched(), switched(*range(8))], 1)


def test_each_move_of_the_heads_is_one_change():
    heads = picked_heads().controls["heads"]
    changes = []
    heads.observe(lambda change: changes.append(change["new"]), names="value")
    heads.ready_made.value = dict(heads.ready_made.options)["no head"]
    assert changes == [switched()]
    assert [toggle.description for toggle in heads.toggles] == [f"head {head} off" for head in range(8)]
    heads.toggles[5].value = True
    assert changes[1:] == [switched(5)]
    assert heads.toggles[5].description == "head 5 on"
    assert heads.ready_made.label == "only head 5"
    heads.toggles[2].value = True
    assert changes[2:] == [switched(2, 5)]
    assert heads.ready_made.label == "as pressed"  # and not blank
    assert len(changes) == 3


@pytest.mark.parametrize("H", [1, 2, 5, 8])
def test_one_to_eight_heads_and_one_size_of_picture(H):
    shown = pick_heads(head_weights(H).requires_grad_(), QUESTIONS, ITEMS, lambda on: (0.5, 0.25, 0.125))
    sizes = set()
    for way in values_of(shown.controls["show"]):
        shown.controls["show"].value = way
        assert "first answer right 0.50, second 0.25, both 0.12." in shown.sentence
        sizes.add(Image.open(io.BytesIO(shown.png)).size)
    assert len(sizes) == 1
    assert len(shown.controls["heads"].toggles) == H


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"weights": [[1.0]]}, TypeError, "weights is a list; expected a torch.Tensor"),
        ({"weights": head_weights(8)[0]}, ValueError, r"weights has shape \(4, 6\); expected \(H, T_q, T_k\)"),
        ({"weights": head_weights(9)}, ValueError, r"shape \(9, 4, 6\), so 9 heads; expected 8 or fewer"),
        (
            {"weights": head_weights(8) * 2 - 1},
            ValueError,
            r"weights runs from -1\.00 to .*; expected weights from 0 to 1",
        ),
        ({"question_names": ["a"]}, ValueError, r"question_names has 1 names but .* \(8, 4, 6\); expected 4"),
        ({"item_names": ["a"] * 4}, ValueError, r"item_names has 4 names but .* \(8, 4, 6\); expected 6"),
        ({"accuracy": lambda on: (1.0, 1.0)}, ValueError, "accuracy returned 2 numbers; expected 3"),
    ],
)
def test_only_maps_and_answers_that_fit(change, error, message):
    right = {"weights": head_weights(8), "question_names": QUESTIONS, "item_names": ITEMS, "accuracy": made_up_accuracy}
    with pytest.raises(error, match=message):
        pick_heads(**{**right, **change})


# Lesson 05


def by_rule(*words):
    """The noun and the weights (2, 2, 11) of *it*, by layer and head, that `pronouns_by_rule` gives for a sentence."""
    tokens = pronoun_sentence(*words)
    logits, weights = pronouns_by_rule(torch.tensor([pronoun_vocabulary().encode(tokens)]))
    return pronoun_vocabulary().tokens[int(logits.argmax())], torch.stack(weights)[:, 0, :, IT]


@pytest.mark.parametrize(
    ("words", "instead", "nouns"),
    [
        (("animal", "cross", "street", "tired"), "wide", ("animal", "street")),
        (("animal", "cross", "street", "wide"), "tired", ("street", "animal")),
        (("fox", "reach", "lake", "hungry"), "wide", ("fox", "lake")),
        (("dog", "chase", "cat", "tired"), "fast", ("dog", "cat")),
        (("dog", "chase", "cat", "loud"), "tired", ("cat", "dog")),
    ],
)
def test_the_row_of_it_is_told_with_either_adjective(words, instead, nouns):
    shown = adjectives()
    for name, word in zip(("first", "verb", "second", "adjective"), words, strict=True):
        shown.controls[name].value = word
    either = [by_rule(*words), by_rule(*words[:3], instead)]
    for layer, head in itertools.product(range(2), repeat=2):
        shown.controls["head"].value = (layer, head)
        rows = [weights[layer, head] for _, weights in either]
        (one, two), (three, four) = ([f"{row[at]:.2f}" for at in (FIRST, SECOND)] for row in rows)
        assert shown.sentence == (
            f'"{words[1]}", "{words[3]}": in layer {layer + 1}, head {head}, "it" puts {one} on "{words[0]}" and {two} '
            f'on "{words[2]}"; with '
            f'"{instead}" instead {three} and {four}. The model says: {nouns[0]} (right); with "{instead}": {nouns[1]} '
            "(right)."
        )
        axes = shown._draw(**shown.values)[0].axes[0]
        *_, first, second, drawn_words, _ = axes.collections
        for bars, row in zip((first, second), rows, strict=True):
            torch.testing.assert_close(
                torch.tensor([path.vertices[:, 1].max() for path in bars.get_paths()]).float(), row
            )
        assert drawn_words.labels == [*pronoun_sentence(*words), instead]
    assert (
        axes.get_title(loc="left")
        == f'Layer 2, head 1: "it" looks most at "{nouns[0]}", with "{instead}" at "{nouns[1]}"'
    )


def test_the_head_shown_first_is_the_one_asked_for_or_of_the_last_layer():
    assert adjectives().controls["head"].value == (1, 1)
    shown = change_the_adjective(pronouns_by_rule)
    assert shown.controls["head"].value == (1, 0)
    assert shown.controls["head"].label == "layer 2, head 0"
    assert values_of(shown.controls["head"]) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_no_sentence_of_the_grammar_is_said_to_be_none():
    shown, rng = adjectives(), random.Random(0)
    for split in ["train", "test"] * 20:
        tokens = random_pronoun_sentence(rng, split)
        _, said = shown._draw(tokens[1], tokens[3], tokens[5], tokens[10], (1, 1))
        assert "grammar" not in said
        assert said.count("(right)") == 2


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (("cat", "chase", "cat", "tired"), "the two nouns are the same"),
        (("cat", "chase", "street", "tired"), '"chase" does not go with "street"'),
        (("cat", "cross", "dog", "tired"), '"cross" does not go with "dog"'),
        (("cat", "cross", "street", "fast"), '"fast" tells of an animal'),
        (("cat", "chase", "dog", "wide"), '"wide" tells of a place'),
        (("cat", "cross", "cat", "wide"), 'same, "cross" does not go with "cat" and "wide" tells of a place'),
    ],
)
def test_what_the_grammar_has_not_is_drawn_and_said(words, wrong):
    shown = adjectives()
    _, said = shown._draw(*words, (1, 1))
    assert "The grammar has no such sentence, so there is no right answer: " in said
    assert said.endswith(f"{wrong}.")
    assert "(right)" not in said
    assert said.startswith(f'"{words[1]}", "{words[3]}": in layer 2, head 1, "it" puts ')
    if words[0] == words[2]:
        assert 'on "cat" (word 2) and' in said
        assert 'on "cat" (word 6);' in said


def test_a_wrong_answer_is_said_to_be_wrong():
    def stubborn(token_ids):
        _, weights = pronouns_by_rule(token_ids)
        return torch.nn.functional.one_hot(token_ids[:, FIRST], len(pronoun_vocabulary())), weights

    assert change_the_adjective(stubborn).sentence.endswith('says: animal (right); with "wide": animal (wrong).')


def test_the_groups_of_words_are_named_in_their_menus():
    shown = adjectives()
    labels = {name: [label for label, _ in shown.controls[name].options] for name in ("verb", "adjective")}
    assert labels["verb"][: len(TO_PLACES)] == [f"{verb} (a place)" for verb in TO_PLACES]
    assert labels["adjective"][: len(OF_THE_FIRST)] == [f"{adjective} (the first)" for adjective in OF_THE_FIRST]
    assert {label.split(" ", 1)[1] for label in labels["adjective"]} == {"(the first)", "(a place)", "(an animal)"}
    assert values_of(shown.controls["second"]) == [*PLACES, *ANIMALS]


def returning(change):
    return lambda token_ids: change(*pronouns_by_rule(token_ids))


@pytest.mark.parametrize(
    ("model", "head", "error", "message"),
    [
        (None, None, TypeError, "model is a NoneType; expected a function of token ids"),
        (returning(lambda logits, weights: logits), None, TypeError, "model returned a Tensor; expected"),
        (returning(lambda logits, weights: (logits, weights[0])), None, TypeError, "model returned a tuple; expected"),
        (returning(lambda logits, weights: (logits, [None])), None, TypeError, "weights that are a NoneType; expected"),
        (returning(lambda logits, weights: (logits[:, :5], weights)), None, ValueError, r"logits of shape \(1, 5\)"),
        (returning(lambda logits, weights: (logits, [])), None, ValueError, "no weights; expected those of one layer"),
        (
            returning(lambda logits, weights: (logits, [weights[0], weights[1][:, 0]])),
            None,
            ValueError,
            r"weights of shape \(1, 11, 11\) in layer 1; expected \(1, H, 11, 11\)",
        ),
        (returning(lambda logits, weights: (logits, [weights[0] * 5 - 1])), None, ValueError, "weights from -"),
        (
            pronouns_by_rule,
            (2, 0),
            ValueError,
            r"head=\(2, 0\) is not there; expected \(layer, head\), one of \(0, 0\)",
        ),
        (pronouns_by_rule, 1, ValueError, "head=1 is not there"),
    ],
)
def test_only_a_model_of_pronouns_and_a_head_that_it_has(model, head, error, message):
    with pytest.raises(error, match=message):
        change_the_adjective(model, head)


def listed(places):
    *others, last = map(str, places)
    return f"{', '.join(others)} and {last}" if others else last


@pytest.mark.parametrize(("model", "ahead"), [("causal", 0), ("leaky mask", 1), ("no mask", 6)])
def test_the_outputs_that_move_are_those_that_may_see_the_change(model, ahead):
    shown = one_token()
    shown.controls["model"].value = model
    for changed in range(6):
        shown.controls["changed"].value = changed
        moved = [at for at in range(6) if at >= changed or changed - at <= ahead]
        stayed, leaked = [at for at in range(6) if at not in moved], [at for at in moved if at < changed]
        said = shown.sentence
        assert said.startswith(f'With {model}, token {changed}, "{perturbed()[2][changed]}", is changed: ')
        if not stayed:
            assert "all 6 outputs move." in said
        elif len(moved) == 1:
            assert f"output 5 moves, {listed(stayed)} stay bit for bit." in said
        else:
            some = "stay" if len(stayed) > 1 else "stays"
            assert f"outputs {listed(moved)} move, {listed(stayed)} {some} bit for bit." in said
        assert ("seen the future" in said) == bool(leaked)
        assert not leaked or f"{listed(leaked)} move" in said.split(". ")[1]
        assert ("cannot show a leak" in said) == (changed == 0)
        figure, _ = shown._draw(**shown.values)
        axes = figure.axes[0]
        before = f", {len(leaked)} of them before the change" if leaked else ", none before the change"
        assert axes.get_title(loc="left").endswith(before if changed else "outputs move")
        _, lines, border, _, moves, leaks, outputs, _, inputs, signs, sizes = axes.collections
        assert len(lines.get_segments()) == len(moved)
        assert len(border.get_segments()) == (changed > 0)
        assert [len(bars.get_paths()) for bars in (moves, leaks)] == [len(moved) - len(leaked), len(leaked)]
        assert moves.get_hatch() != leaks.get_hatch()
        assert len(set(map(tuple, outputs.get_facecolor()))) == bool(stayed) + bool(leaked) + 1
        assert inputs.labels == perturbed()[2]
        assert signs.labels == ["≠" if at in moved else "=" for at in range(6)]
        assert [label != "0" for label in sizes.labels] == [at in moved for at in range(6)]


def test_the_sizes_are_those_of_the_change():
    models, x, tokens = perturbed()
    shown = change_one_token(models, x, tokens)
    moved = x.clone()
    moved[0, 3, ::2] += 1
    by = (models["causal"](moved) - models["causal"](x))[0].abs().amax(-1).tolist()
    *_, sizes = shown._draw("causal", 3)[0].axes[0].collections
    assert sizes.labels == [f"{change:.2g}" for change in by]


def test_a_layer_norm_does_not_hide_the_change():
    torch.manual_seed(0)
    block = EncoderBlock(8, 2, 16)
    shown = change_one_token({"block": lambda x: block(x)[0]}, *perturbed()[1:])
    *_, sizes = shown._draw("block", 3)[0].axes[0].collections
    assert min(map(float, sizes.labels)) > 1e-4


def test_models_run_when_the_figure_is_made_and_leave_x_alone():
    (_, x, tokens), calls = perturbed(), []

    def greedy_for_memory(x):
        calls.append(x)
        return x.add_(1)

    kept = x.clone()
    shown = change_one_token({"one": greedy_for_memory}, x, tokens)
    assert len(calls) == 8  # twice on x, once for each token
    assert x.equal(kept)
    for changed in range(6):
        shown.controls["changed"].value = changed
        assert f"output {changed} moves, " in shown.sentence
    assert len(calls) == 8


def test_a_model_that_sees_nothing_moves_nothing():
    shown = change_one_token({"blind": torch.zeros_like}, *perturbed()[1:])
    assert shown.sentence == 'With blind, token 3, "on", is changed: no output moves, all 6 stay bit for bit.'
    *_, signs, sizes = shown._draw("blind", 3)[0].axes[0].collections
    assert (signs.labels, sizes.labels) == (["="] * 6, ["0"] * 6)


@pytest.mark.parametrize("T", [2, 12])
def test_two_to_twelve_tokens_with_long_names(T):
    models, x, _ = perturbed(T)
    shown = change_one_token(models, x, ["unbelievable", *["猫$x$"] * (T - 1)])
    *_, inputs, _, _ = shown._draw("causal", 0)[0].axes[0].collections
    assert max(np.ptp(path.vertices[:, 0]) for path in inputs.get_paths()) / 72 < 7.1 / T


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"x": [[1.0]]}, TypeError, "x is a list; expected a torch.Tensor"),
        ({"x": torch.ones(1, 6, 8).long()}, TypeError, "x holds torch.int64; expected floating point"),
        ({"x": torch.ones(6, 8)}, ValueError, r"x has shape \(6, 8\); expected \(1, T, d\)"),
        ({"x": torch.ones(2, 6, 8)}, ValueError, r"x has shape \(2, 6, 8\); expected \(1, T, d\), one sequence"),
        ({"x": torch.ones(1, 13, 8)}, ValueError, "2 to 12 tokens"),
        ({"x": torch.ones(1, 6, 1)}, ValueError, "2 features or more"),
        ({"tokens": ["a"]}, ValueError, r"tokens has 1 names but x has shape \(1, 6, 8\); expected 6"),
        ({"models": {}}, ValueError, "models is empty"),
        ({"models": {"a": None}}, TypeError, r"models\['a'\] is a NoneType; expected a function"),
        ({"models": {"a": lambda x: (x, x)}}, TypeError, r"models\['a'\] returned a tuple; expected a tensor"),
        ({"models": {"a": lambda x: x[0]}}, ValueError, r"models\['a'\] returned shape \(6, 8\); expected \(1, 6, 8\)"),
        ({"models": {"a": lambda x: x / 0}}, ValueError, r"models\['a'\] returned NaN or infinity"),
        ({"models": {"a": torch.nn.Dropout()}}, ValueError, r"two outputs for the same x; .* model\.eval\(\)"),
    ],
)
def test_only_models_that_can_be_compared(change, error, message):
    right = dict(zip(("models", "x", "tokens"), perturbed(), strict=True))
    with pytest.raises(error, match=message):
        change_one_token(**{**right, **change})


# Lesson 06

LONGEST = [
    "mmmmmmmmmmmmmmmmmm the the understanding reinforcement recognition intelligence processing translation "
    "beautiful WWWWWWWWWWWWWWWWWW ngườiii yesterday 猫猫 tomorrow",
    "x" * 300,
]


def decoded_step_by_step(model, ids, most):
    """For each step the id given, the probabilities of the next one and the weights of each layer's two attentions."""
    memory, mask = model.encode(torch.tensor([ids]))
    token_id, cache, made = BOS, [], []
    while len(made) < most and (not made or token_id != EOS):
        logits, maps = model.decode(torch.tensor([[token_id]]), memory, mask, cache)
        made.append((token_id, logits[0, 0].softmax(-1), [[weights[0, :, 0] for weights in two] for two in maps]))
        token_id = int(logits.argmax())
    return made


def drawn_step(shown, **values):
    """What the picture has, by name: its collections in the order in which they are drawn, and the map."""
    (axes,) = shown._draw(**{**shown.values, **values})[0].axes
    names = ["tracks", "bars", "room", "query", "new", "words", "weights", "names", "numbers", "steps", "places"]
    return {**dict(zip(names, axes.collections, strict=True)), "map": axes.images[1], "heading": axes.texts[-1]}


@torch.no_grad()
@pytest.mark.parametrize("text", ["I bought two beautiful red flowers", "cat " * 15, "we"])
def test_each_step_shows_what_the_model_does_step_by_step(text):
    model, english, vietnamese = small_translator()
    shown = step_through_translation(model, english, vietnamese)
    shown.controls["text"].value = text
    read = text.split()
    made = decoded_step_by_step(model, english.encode(read), MOST_STEPS)
    assert shown.controls["step"].max == len(made)
    tokens = [vietnamese.tokens[token_id] for token_id, *_ in made]
    for step, (head, (layer, at)) in itertools.product(
        range(1, len(made) + 1), enumerate(values_of(shown.controls["head"]))
    ):
        _, chances, maps = made[step - 1]
        likely = chances.topk(3)
        rows = [weights.mean(dim=0) if at is None else weights[at] for weights in maps[layer]]
        drawn = drawn_step(shown, step=step, head=(layer, at))
        sentence = shown._draw(text, step, (layer, at))[1]
        # In the picture: what is written, with what is written now and is no key yet; the source; the likeliest.
        next_ones = [vietnamese.tokens[token_id] for token_id in likely.indices]
        assert drawn["words"].labels == [*tokens[:step], next_ones[0], *read, *next_ones]
        shares = torch.cat([*rows, likely.values])
        assert drawn["weights"].labels == [f"{share:.2f}" for share in shares]
        bars, tracks = (
            [np.ptp(path.vertices[:, 0]) for path in drawn[name].get_paths()] for name in ("bars", "tracks")
        )
        np.testing.assert_allclose(np.divide(bars, tracks), shares, atol=1e-5)
        assert drawn["names"].labels == [shown.controls["head"].options[head][0]] * 2
        # In the map: the rows of cross-attention up to here.
        so_far = [cross.mean(dim=0) if at is None else cross[at] for _, cross in (m[layer] for *_, m in made[:step])]
        np.testing.assert_allclose(drawn["map"].get_array(), torch.stack(so_far), atol=1e-5)
        # In the sentence: both tokens, of the input and of the output, and the largest weights.
        assert f'Step {step} of {len(made)} writes "{next_ones[0]}" ({likely.values[0]:.2f}; next likely: ' in sentence
        assert f'"{next_ones[1]}" {likely.values[1]:.2f} and "{next_ones[2]}" {likely.values[2]:.2f})' in sentence
        whence = f"which step {step - 1} wrote" if step > 1 else "before anything is written"
        assert f'Its query stands at input {step}, "{tokens[step - 1]}", {whence}.' in sentence
        where = f"layer {layer + 1}, " + ("averaged over its heads" if at is None else f"head {at}")
        assert f'In {where}, it puts most, {rows[0].max():.2f}, on "' in sentence
        assert f'and {rows[1].max():.2f} on "{read[rows[1].argmax()]}"' in sentence
        assert ("which ends the sentence" in sentence) == (next_ones[0] == "<eos>") == (step == len(made))
        assert "both rows sum to 1.00." in sentence


def test_the_first_picture_shows_what_greedy_returns():
    model, english, vietnamese = small_translator()
    shown = step_through_translation(model, english, vietnamese)
    assert shown.values == {"text": "I bought two beautiful red flowers", "step": 3, "head": (1, None)}
    assert "not in the vocabulary" not in shown.sentence
    _, weights = model.greedy(torch.tensor([english.encode(shown.values["text"].split())]), MOST_STEPS)
    np.testing.assert_allclose(drawn_step(shown)["map"].get_array(), weights[0, :3], atol=1e-5)


def test_the_query_is_framed_and_what_it_writes_stands_below_it():
    shown = stepped_translation()
    for step in values_of(shown.controls["step"]):
        drawn = drawn_step(shown, step=step)
        for name, row in (("query", step - 1), ("new", step)):
            (frame,) = drawn[name].get_paths()
            assert frame.contains_point(drawn["words"].get_offsets()[row] + (0.02, 0))
        asks, writes = drawn["words"].labels[step - 1 : step + 1]
        assert drawn["heading"].get_text().startswith(f'Step {step} of {shown.controls["step"].max}: "{asks}" looks')
        assert drawn["heading"].get_text().endswith(f'and writes "{writes}"')
        assert len(drawn["weights"].labels) == len(drawn["words"].labels) - 1  # what is written is no key yet


def test_the_slider_follows_the_sentence():
    shown = stepped_translation()
    text, step = shown.controls["text"], shown.controls["step"]
    step.value = last = step.max
    for typed, now in (("", last), ("cat " * 16, last)):  # where there is nothing to step through, it stays
        text.value = typed
        assert (step.value, step.max) == (now, last)
    text.value = "she loves her cat"
    assert shown.error is None
    assert step.value == step.max < last
    assert shown.sentence.startswith(f"Step {step.max} of {step.max} writes")
    shown.controls["head"].value = (0, 1)
    text.value = "I bought two beautiful red flowers"
    assert step.max == last
    assert shown.controls["head"].value == (0, 1)
    assert "In layer 1, head 1, it puts" in shown.sentence


def test_a_step_beyond_the_end_is_the_last_one():
    shown = stepped_translation()
    values = {**shown.values, "step": shown.controls["step"].max}
    last = shown._draw(**values)[1]
    beyond = shown._draw(**{**values, "step": 99})[1]
    assert beyond == f"Step 99 is beyond the end, so this is the last. {last}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "There is no word to translate"),
        ("  ...!", "There is no word to translate"),
        ("cat " * 16, "The sentence has 16 words and the picture has room for 15"),
        ("the <eos> and Zebra", "not in the vocabulary: eos, Zebra."),
        ("x" * 300, f"not in the vocabulary: {'x' * 13}…."),
        ("see the CAT", 'of the source; both rows sum to 1.00.'),
    ],
)  # fmt: skip
def test_a_sentence_is_read_and_what_cannot_be_is_said(text, said):
    shown = stepped_translation()
    shown.controls["text"].value = text
    assert shown.error is None
    assert said in shown.sentence


def test_what_is_read_as_unknown_is_marked_and_a_repeated_word_has_its_place():
    shown = stepped_translation()
    shown.controls["text"].value = "the zebra and the zebra"
    assert drawn_step(shown, step=1)["words"].labels[2:7] == ["the", "zebra (<unk>)", "and", "the", "zebra (<unk>)"]
    said = [shown._draw(**{**shown.values, "step": step})[1] for step in values_of(shown.controls["step"])]
    assert any("(word " in sentence for sentence in said)
    assert all(('on "the" of' not in sentence) and ('on "zebra" of' not in sentence) for sentence in said)


@pytest.mark.parametrize("eos", [-100, 1.5, 100])
def test_a_translation_without_end_and_an_empty_one(eos):
    shown = step_through_translation(*small_translator(eos))
    step = shown.controls["step"]
    step.value = step.max
    assert shown.error is None
    if eos == -100:
        assert step.max == MOST_STEPS == 31
        assert shown.sentence.endswith("The model writes no <eos> in 31 steps, and the picture has room for no more.")
        assert "ends the sentence" not in shown.sentence
    else:
        assert "writes no <eos>" not in shown.sentence
    if eos == 100:
        assert step.max == 1
        assert shown.sentence.startswith('Step 1 of 1 writes "<eos>" (1.00; ')


def test_a_model_with_few_positions_is_asked_for_no_more():
    shown = step_through_translation(*small_translator(-100, max_len=6))
    assert shown.controls["step"].max == 6
    shown.controls["text"].value = "cat " * 7
    assert "has 7 words and the picture has room for 6" in shown.sentence


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_letters_with_two_accents_are_one_whatever_the_vocabulary_has(form):
    english, vietnamese = (
        Vocabulary([unicodedata.normalize(form, token) for token in (*known.tokens[4:], "ngữ")])
        for known in vocabularies()
    )
    shown = step_through_translation(*small_translator(-100, english, vietnamese))
    shown.controls["text"].value = unicodedata.normalize("NFD", "my Ngữ")
    assert "not in the vocabulary" not in shown.sentence
    drawn = drawn_step(shown, step=31)
    for said in (*drawn["words"].labels, drawn["heading"].get_text()):
        assert said == unicodedata.normalize("NFC", said)
    assert "ngữ" in drawn["words"].labels


@pytest.mark.parametrize("text", LONGEST)
@pytest.mark.parametrize("step", [1, 2, 15, 16, 17, 30, 31])
def test_no_text_lies_on_another_or_leaves_the_figure(text, step):
    names = ["wwwwwwwwwwwwwwww", "nghiêng", "ƯƠƯƠƯƠƯƠ", "猫猫猫猫猫猫猫猫猫"] * 40
    target = Vocabulary([f"{name}{at}" if at % 2 else f"{at}{name}" for at, name in enumerate(names)])
    shown = step_through_translation(*small_translator(-100, target=target))
    shown.controls["text"].value = text
    figure, _ = shown._draw(text, step, (1, None))
    (axes,) = figure.axes
    explorer.to_png(figure)
    boxes = [
        (label, (place + corner / 72).tolist())
        for labels in axes.collections[5:]
        for label, place, path in zip(labels.labels, labels.get_offsets(), labels.get_paths(), strict=True)
        if label
        for corner in [path.get_extents().get_points()]
    ]
    boxes += [(t.get_text(), (t.get_window_extent().get_points() / figure.dpi).tolist()) for t in axes.texts]
    for (label, ((left, low), (right, high))), (other, ((left_2, low_2), (right_2, high_2))) in itertools.combinations(
        boxes, 2
    ):
        across = min(right, right_2) - max(left, left_2)
        upwards = min(high, high_2) - max(low, low_2)
        assert min(across, upwards) <= 0.01, (label, other)
    for label, ((left, low), (right, high)) in boxes:
        assert 0.05 < left < right < 8.15, label
        assert 0.0 < low < high < figure.get_figheight(), label


def test_a_sentence_is_decoded_once():
    model, english, vietnamese = small_translator()
    asked, greedy = [], model.greedy
    model.greedy = lambda source, most: asked.append(torch.get_num_threads()) or greedy(source, most)
    shown = step_through_translation(model, english, vietnamese)
    for name in ("step", "head"):
        for value in values_of(shown.controls[name]):
            shown.controls[name].value = value
    assert asked == [1]
    shown.controls["text"].value = "we read"
    shown.controls["text"].value = "I bought two beautiful red flowers"
    assert asked == [1, 1]


def test_words_are_cut_to_the_width_they_have():
    assert fitted("flowers", 8.5, 0.6) == "flowers"
    assert fitted("m" * 40, 8.5, 0.6).endswith(CUT)
    assert fitted("m" * 40, 8.5, 0.01) == CUT
    assert fitted("猫", 8.5, 0.6) == "\N{WHITE SQUARE}"


def test_typed_words_are_those_of_the_vocabulary():
    vocabulary = Vocabulary(["I", "see", unicodedata.normalize("NFD", "café"), "don't"])
    words = typed_words("i SEE, don't <see> CAFÉ x-y 2", vocabulary)
    assert words == ["I", "see", "don't", "see", unicodedata.normalize("NFD", "café"), "x-y", "2"]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"model": None}, TypeError, r"model is a NoneType; expected a utils\.transformer\.Translator"),
        ({"model": untrained(None)}, TypeError, "model is a Seq2Seq; expected"),
        ({"source_vocabulary": ["a"]}, TypeError, r"source_vocabulary is a list; expected a utils\.tasks\.Vocabulary"),
        ({"target_vocabulary": {}}, TypeError, "target_vocabulary is a dict"),
        (
            {"source_vocabulary": vocabularies()[1]},
            ValueError,
            "source_vocabulary has 155 tokens but the model's source",
        ),
        (
            {"target_vocabulary": vocabularies()[0]},
            ValueError,
            "target_vocabulary has 206 tokens but the model's target",
        ),
    ],
)
def test_only_a_translator_with_its_vocabularies(change, error, message):
    right = dict(zip(("model", "source_vocabulary", "target_vocabulary"), small_translator(), strict=True))
    with pytest.raises(error, match=message):
        step_through_translation(**{**right, **change})


def test_a_model_that_gives_no_numbers_is_refused():
    model, *both = small_translator()
    with torch.no_grad():
        model.output.bias[5] = float("nan")
    with pytest.raises(ValueError, match="logits hold NaN or infinity"):
        step_through_translation(model, *both)


def failing_explorer():
    figure = Figure(figsize=(5, 3))
    explorer.FigureCanvasAgg(figure)

    def draw(n):
        if n == 2:
            raise ValueError("no <picture> of 2")
        return figure, f"n is {n}."

    return Explorer("Test", "Which n?", draw, n=widgets.IntSlider(value=1, min=0, max=3))


def test_what_cannot_be_drawn_is_said_and_the_picture_stays():
    shown = failing_explorer()
    before = shown.png
    shown.controls["n"].value = 2
    assert isinstance(shown.error, ValueError)
    assert shown.png == before
    assert "no &lt;picture&gt; of 2" in shown._picture.value
    shown.controls["n"].value = 3
    assert shown.error is None
    assert "n is 3." in shown._picture.value


def published(monkeypatch, shown):
    said = []
    monkeypatch.setattr(page, "display", lambda *args, **kwargs: said.append((args, kwargs)))
    shown.show()
    ((args, kwargs),) = said
    return args[0], kwargs


def test_it_is_published_as_widget_picture_and_sentence(monkeypatch):
    monkeypatch.delenv("COLAB_RELEASE_TAG", raising=False)
    shown = steps()
    bundle, options = published(monkeypatch, shown)
    assert set(bundle) == {"application/vnd.jupyter.widget-view+json", "image/png", "text/plain"}
    assert bundle["text/plain"] == f"One query, step by step: {shown.sentence}"
    assert options["raw"] is True


def test_in_colab_the_widget_comes_alone(monkeypatch):
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release-colab_20260801")
    shown = steps()
    assert published(monkeypatch, shown) == (shown.box, {})


def test_the_picture_on_the_page_has_a_size_and_a_text():
    value = laboratory()._picture.value
    assert 'alt="Mask laboratory"' in value
    width = int(value.split('width="')[1].split('"')[0])
    picture = Image.open(io.BytesIO(laboratory().png))
    assert picture.width / width == pytest.approx(explorer.PICTURE_DPI / explorer.PAGE_DPI, rel=0.01)
    assert width <= 820  # a page of JupyterLab at 900 pixels


def test_only_widgets_that_colab_has():
    """What ipywidgets 7.7.1, as in Colab, does not have stays out."""
    allowed = {"ToggleButtons", "SelectionSlider", "IntSlider", "Dropdown", "ToggleButton", "Text"}
    allowed |= {"HTML", "HBox", "VBox", "MaskGrid", "WeightSliders", "HeadButtons"}

    def walk(widget):
        yield type(widget).__name__
        for child in getattr(widget, "children", ()):
            yield from walk(child)

    for make in MAKERS:
        assert set(walk(make().box)) <= allowed


def test_every_way_and_precision_has_a_picture_of_its_own():
    shown = laboratory()
    pictures = set()
    for way, dtype in itertools.product(*(values_of(shown.controls[name]) for name in ("way", "dtype"))):
        shown.controls["way"].value, shown.controls["dtype"].value = way, dtype
        pictures.add(shown.png)
    assert len(pictures) == len(values_of(shown.controls["way"])) * len(values_of(shown.controls["dtype"]))


def test_a_pressed_button_shows_even_where_all_weights_are_nan():
    shown = laboratory()
    shown.controls["way"].value, shown.controls["dtype"].value = "-1e9", "float16"
    before = shown.png
    shown.controls["mask"].buttons[3][4].value = not shown.controls["mask"].buttons[3][4].value
    assert shown.png != before


def test_an_explorer_that_is_gone_leaves_no_figure_behind():
    shown = steps()
    figure, _ = shown._draw(**shown.values)
    gone = weakref.ref(figure)
    shown.box.close_all()
    del shown, figure
    gc.collect()
    assert gone() is None
