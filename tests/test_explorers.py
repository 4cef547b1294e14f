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
from shown import MAKERS, WIDTHS, laboratory, scaling, set_value, steps, values_of

from utils import page
from utils.explorers import Explorer, explorer


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
    allowed = {"ToggleButtons", "SelectionSlider", "Dropdown", "ToggleButton", "HTML", "HBox", "VBox", "MaskGrid"}

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
