"""Interactive figures, moved through every value as plain Python."""

import gc
import io
import itertools
import weakref

import ipywidgets as widgets
import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image
from shown import (
    MAKERS,
    TEXTS,
    WIDTHS,
    aligned,
    alignment,
    by_length,
    held_out,
    laboratory,
    own_sentence,
    scaling,
    set_value,
    steps,
    translators,
    values_of,
)

from utils import page
from utils.attention import LuongAttention
from utils.explorers import (
    Explorer,
    explorer,
    predict_the_alignment,
    translate_your_own,
    translations_by_length,
)
from utils.explorers.words import CUT, Words
from utils.grammar import Pair
from utils.models import Encoder, Seq2Seq
from utils.tasks import UNKNOWN, vocabularies
from utils.training import Translation, accuracy_by_length


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
    assert grid.ready_made.value is None  # no longer the ready-made mask
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
        ("cat " * 21, "The sentence has 21 words and the map has room for 20"),
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
    allowed |= {"HTML", "HBox", "VBox", "MaskGrid", "WeightSliders"}

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
