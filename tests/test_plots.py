"""Static figures, tested by their data: arrays, ticks, labels, colour limits; by pixels where that is the point."""

import math
import subprocess
import sys
import unicodedata
from itertools import pairwise
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from IPython.display import Markdown

from utils import caption
from utils.labels import Labels, Numbers, drawable, label_width
from utils.plots import draw_weights, plot_attention, plot_heads, plot_lines, plot_panels, set_style, update_weights

matplotlib.use("Agg")
pytestmark = pytest.mark.filterwarnings("error")

ROOT = Path(__file__).resolve().parent.parent
VIETNAMESE = ["Tôi", "đã", "học", "được", "nhiều", "điều", "về", "tiếng", "Việt", "ở", "trường"]
BOX = "\N{WHITE SQUARE}"


@pytest.fixture(autouse=True)
def no_open_figures():
    plt.close("all")
    yield
    plt.close("all")


def random_weights(*shape):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(shape, generator=generator).softmax(dim=-1)


def plotted(*args, **kwargs):
    """The axes that `plot_attention` leaves, and their image."""
    plot_attention(*args, **kwargs)
    axes = plt.gcf().axes[0]
    (image,) = axes.images
    return axes, image


def laid_out(*args, **kwargs):
    """The axes that `plot_attention` leaves, once every text has been measured and has its place."""
    axes, _ = plotted(*args, **kwargs)
    axes.figure.draw_without_rendering()
    return axes


def pixels(figure):
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba()).copy()


def names(tick_labels):
    return [label.get_text() for label in tick_labels]


def numbers_on(axes):
    """The labels of the `Numbers` on these axes by (row, column); None where there are no numbers."""
    found = [artist for artist in axes.collections if isinstance(artist, Numbers)]
    if not found:
        return None
    (numbers,) = found
    places = [(int(row), int(column)) for column, row in numbers.get_offsets().tolist()]
    return dict(zip(places, numbers.labels, strict=True))


# plot_attention


def test_three_tokens():
    """Case 25: three ticks at the centres of the cells and three labels on each axis, without a warning."""
    axes = laid_out(random_weights(3, 3), ["a", "b", "c"])
    for ticks, labels in ((axes.get_xticks(), axes.get_xticklabels()), (axes.get_yticks(), axes.get_yticklabels())):
        assert list(ticks) == [0, 1, 2]
        assert names(labels) == ["a", "b", "c"]
    assert axes.images[0].get_extent() == [-0.5, 2.5, 2.5, -0.5]  # so a cell's centre is at its whole number


def test_a_repeated_token_keeps_its_own_row_and_column():
    """Case 25: tokens `the, cat, the` are three rows and three columns."""
    weights = random_weights(3, 3)
    axes, image = plotted(weights, ["the", "cat", "the"])
    assert image.get_array().shape == (3, 3)
    np.testing.assert_array_equal(image.get_array(), weights)
    assert names(axes.get_xticklabels()) == names(axes.get_yticklabels()) == ["the", "cat", "the"]


def test_cross_attention_has_queries_on_y_and_keys_on_x():
    """Case 26: 2 x 4 with different tokens on the two sides; both axes are named."""
    weights = random_weights(2, 4)
    axes, image = plotted(weights, ["con", "mèo"], key_tokens=["the", "cat", "sat", "down"])
    np.testing.assert_array_equal(image.get_array(), weights)
    assert names(axes.get_yticklabels()) == ["con", "mèo"]
    assert names(axes.get_xticklabels()) == ["the", "cat", "sat", "down"]
    assert axes.get_ylabel() == "query (each row sums to 1)"
    assert axes.get_xlabel() == "key"


@pytest.mark.parametrize("reader_style", [{}, "dark_background", "ggplot", {"image.origin": "lower"}], ids=str)
def test_the_first_query_is_at_the_top_left_in_the_colours_of_the_course(reader_style):
    """Case 26: seen on the pixels, whatever style the reader has set for figures of their own."""
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    with plt.style.context(reader_style):
        axes = laid_out(weights, ["a", "b"], key_tokens=["x", "y", "z"])
        picture = pixels(axes.figure)
    frame = axes.get_window_extent()
    left, top, side = frame.x0, len(picture) - frame.y1, frame.width / 3
    for (row, column), weight in np.ndenumerate(weights.numpy()):
        corner = picture[int(top + (row + 0.1) * side), int(left + (column + 0.1) * side), :3]
        np.testing.assert_allclose(corner / 255, plt.get_cmap("viridis")(weight)[:3], atol=0.01)


def test_the_look_is_not_the_readers():
    """A figure drawn in a reader's dark style is, pixel for pixel, the figure drawn in none."""
    usual = pixels(plotted(random_weights(2, 2), ["a", "b"])[0].figure)
    with plt.style.context("dark_background"):
        np.testing.assert_array_equal(pixels(plotted(random_weights(2, 2), ["a", "b"])[0].figure), usual)


@pytest.mark.parametrize("shape", [(1, 2), (2, 4), (3, 3), (8, 8), (2, 60), (60, 2)], ids=str)
def test_axis_names_and_labels_lie_inside_the_figure(shape):
    """Case 26: small, wide and tall maps have room for the names of their axes."""
    axes = laid_out(random_weights(*shape), ["query"] * shape[0], key_tokens=["token"] * shape[1])
    whole = axes.figure.bbox.padded(1.0)
    for text in (axes.xaxis.label, axes.yaxis.label, *axes.get_xticklabels(), *axes.get_yticklabels()):
        extent = text.get_window_extent()
        assert whole.contains(extent.x0, extent.y0), text
        assert whole.contains(extent.x1, extent.y1), text


def test_a_tensor_that_requires_gradients():
    """Case 27: plotted as it is; it keeps its gradient and its values."""
    scores = torch.zeros(2, 2, requires_grad=True)
    weights = scores.softmax(dim=-1)
    _, image = plotted(weights, ["a", "b"])
    np.testing.assert_array_equal(image.get_array(), np.full((2, 2), 0.5))
    assert weights.requires_grad
    assert torch.equal(weights, torch.full((2, 2), 0.5))


@pytest.mark.parametrize("shape", [(40, 40), (25, 3), (2, 61)], ids=str)
def test_thinned_labels_stand_at_their_own_positions(shape):
    """Case 28: each label is that of the token where it stands; they are evenly spaced from the first on."""
    tokens = [[f"{side}{i}" for i in range(length)] for side, length in zip("qk", shape, strict=True)]
    axes, _ = plotted(random_weights(*shape), tokens[0], key_tokens=tokens[1])
    for wanted, labels, along in ((tokens[0], axes.get_yticklabels(), 1), (tokens[1], axes.get_xticklabels(), 0)):
        places = [label.get_position()[along] for label in labels]
        assert names(labels) == [wanted[int(place)] for place in places]
        assert places[0] == 0
        assert len(set(np.diff(places))) <= 1
        assert len(wanted) - places[-1] <= places[1] - places[0]  # up to the end


def test_few_labels_are_all_shown():
    """Case 28: nothing is thinned where there is room."""
    tokens = [f"t{i}" for i in range(12)]
    axes, _ = plotted(random_weights(12, 12), tokens)
    assert names(axes.get_xticklabels()) == names(axes.get_yticklabels()) == tokens


@pytest.mark.parametrize(
    ("tokens", "n"),
    [
        (["token", "word"], 40),
        (["extraordinarily", "long"], 24),
        (["window", "moment", "memory", "summer"], 8),
        (["cat", "sat"], 12),
        (["who", "how", "may", "now"], 24),
        (["in", "on"], 24),
        (["a"], 60),
    ],
    ids=lambda value: value if isinstance(value, int) else " ".join(value),
)
def test_neighbouring_labels_do_not_touch(tokens, n):
    """Case 28: labels are readable on both axes, measured on the drawn figure."""
    axes = laid_out(random_weights(n, n), (tokens * n)[:n])
    for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
        assert len(labels) > 1
        boxes = [label.get_window_extent() for label in labels]
        for label, first, second in zip(labels, boxes, boxes[1:], strict=False):
            if label.get_rotation():  # slanting lines of text, whose distance is less than that of their ticks
                distance = abs(second.x1 - first.x1) * math.sin(math.radians(label.get_rotation()))
                assert distance > label.get_fontsize() * axes.figure.dpi / 72
            else:
                assert not first.overlaps(second), (label.get_text(), first, second)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_vietnamese_in_either_form(form, capsys):
    """Case 29: composed or decomposed, the labels are the composed words; no note and no warning."""
    tokens = [unicodedata.normalize(form, token) for token in VIETNAMESE]
    n = len(tokens)
    axes = laid_out(random_weights(n, n), tokens)
    assert names(axes.get_xticklabels()) == names(axes.get_yticklabels()) == VIETNAMESE
    assert capsys.readouterr().out == ""


def test_both_forms_of_vietnamese_are_the_same_picture():
    """Case 29: pixel for pixel."""
    pictures = []
    for form in ("NFC", "NFD"):
        axes, _ = plotted(random_weights(2, 2), [unicodedata.normalize(form, token) for token in ("tiếng", "Việt")])
        pictures.append(pixels(axes.figure))
    np.testing.assert_array_equal(*pictures)


def test_every_vietnamese_letter_is_drawable():
    """Case 29: twelve vowels in six tones, and đ, in both cases and both forms, are letters of the font."""
    tones = ["", "\u0300", "\u0309", "\u0303", "\u0301", "\u0323"]
    letters = [unicodedata.normalize("NFC", vowel + tone) for vowel in "aăâeêioôơuưy" for tone in tones] + ["đ"]
    for letter in "".join(letters) + "".join(letters).upper():
        assert drawable(letter) == letter
        assert drawable(unicodedata.normalize("NFD", letter)) == letter


def test_what_the_font_lacks_is_a_box_and_one_note(capsys):
    """Case 29: CJK and a robot are drawn as boxes, and one note, one line long, names them."""
    axes = laid_out(random_weights(3, 3), ["猫", "the", "🤖"])
    assert names(axes.get_xticklabels()) == names(axes.get_yticklabels()) == [BOX, "the", BOX]
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.count("\n") == 1
    assert "猫" in printed.out
    assert "🤖" in printed.out
    assert "the," not in printed.out


@pytest.mark.parametrize(
    "token", ["\t", "\r", "\x1c", "\x85", "\x00", "\u3000", "\u200b", "\u0301", "", "$x$", "_y", "Ġa"], ids=ascii
)
def test_tokens_of_tokenizers_are_drawn_without_a_warning(token):
    """Case 29: control characters, odd spaces, empty tokens and formula signs give no flood of warnings."""
    axes = laid_out(random_weights(2, 2), [token, "b"])
    assert names(axes.get_xticklabels()) == [drawable(token), "b"]


def test_labels_need_not_be_strings():
    """Token ids are labels too."""
    axes, _ = plotted(random_weights(2, 2), [101, 7])
    assert names(axes.get_xticklabels()) == ["101", "7"]


def test_formula_signs_are_shown_as_they_are():
    """A token in dollar signs is no formula: the signs take room beside the letter."""
    axes = laid_out(random_weights(2, 2), ["$a$", "_b"])
    assert names(axes.get_xticklabels()) == ["$a$", "_b"]
    with_signs = axes.get_xticklabels()[0].get_window_extent().width
    axes = laid_out(random_weights(2, 2), ["a", "_b"])
    assert with_signs > 2 * axes.get_xticklabels()[0].get_window_extent().width


@pytest.mark.parametrize(
    "weights",
    [torch.full((4, 4), 0.25), torch.eye(4), torch.full((1, 4), 0.25), torch.zeros(4, 4)],
    ids=["uniform", "sharp", "one row", "all blocked"],
)
def test_the_colour_scale_runs_from_0_to_1_whatever_is_shown(weights):
    """Case 30: the limits do not depend on the weights; one colour bar shows them and is named."""
    axes, image = plotted(weights, "abcd"[: len(weights)], key_tokens="abcd")
    assert image.get_clim() == (0.0, 1.0)
    assert image.cmap.name in ("viridis", "cividis")
    (bar,) = (other for other in axes.figure.axes if other is not axes)
    assert bar.get_ylim() == (0.0, 1.0)
    assert bar.get_ylabel() == "weight"


def test_two_heads_side_by_side_share_one_scale():
    """Case 30: a weight has one colour, in a uniform head and in a sharp one."""
    figure, sides = plt.subplots(1, 2)
    heads = (np.full((4, 4), 0.25), np.eye(4))
    uniform, sharp = (draw_weights(axes, head, "abcd", "abcd")[0] for axes, head in zip(sides, heads, strict=True))
    figure.canvas.draw()
    for weight in (0.0, 0.25, 1.0):
        assert uniform.to_rgba(weight) == sharp.to_rgba(weight)
    assert uniform.to_rgba(0.25) != uniform.to_rgba(1.0)
    assert len(figure.axes) == 2  # no colour bar unless it is asked for


def maps_of(*args, **kwargs):
    """The axes that `plot_heads` leaves, those of the maps and that of the colour bar."""
    plot_heads(*args, **kwargs)
    plt.gcf().draw_without_rendering()
    return [axes for axes in plt.gcf().axes if axes.images], [axes for axes in plt.gcf().axes if not axes.images]


@pytest.mark.parametrize("H", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("samples", [(), (1,)])
def test_heads_have_a_map_each_and_share_one_colour_bar(H, samples):
    weights = random_weights(*samples, H, 2, 3)
    maps, bars = maps_of(weights, ["a", "b"], ["x=1", "y=12", "z=3"])
    assert [axes.get_title(loc="left") for axes in maps] == [f"head {head}" for head in range(H)]
    for axes, head in zip(maps, weights.reshape(H, 2, 3), strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), head)
        assert axes.images[0].get_clim() == (0, 1)
    assert len(bars) == 1
    assert plt.gcf().get_supxlabel() == "key"
    assert plt.gcf().get_supylabel() == "query (each row sums to 1)"


@pytest.mark.parametrize(("H", "columns"), [(8, 4), (5, 4), (3, 2), (1, 4)])
def test_each_row_and_column_of_maps_is_named(H, columns):
    """The first map of a row names the queries, the lowest of a column the keys."""
    maps, _ = maps_of(random_weights(H, 2, 3), "ab", "xyz", columns=columns)
    for at, axes in enumerate(maps):
        shown = axes.yaxis.get_tick_params()["labelleft"], axes.xaxis.get_tick_params()["labelbottom"]
        assert shown == (at % columns == 0, at + columns >= H)


@pytest.mark.parametrize("keys", [["A=3", "B=12", "C=7", "D=1", "E=15", "F=0"], ["tomorrow"] * 6])
@pytest.mark.parametrize("H", [2, 8])
def test_key_names_of_neighbouring_maps_do_not_touch(H, keys):
    maps, _ = maps_of(random_weights(H, 4, 6), ["A, B", "C, D", "E, F", "F, A"], keys)
    for axes in maps:
        if not axes.xaxis.get_tick_params()["labelbottom"]:
            continue
        boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
        assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


@pytest.mark.parametrize(("H", "T"), [(8, 12), (2, 24), (8, 40), (5, 61)])
def test_names_of_many_tokens_are_thinned_beside_small_maps(H, T):
    """Case 28, seaborn#1387: on both axes of each map neighbours do not touch, and stand at their own tokens."""
    maps, _ = maps_of(random_weights(H, T, T), [f"q{i}" for i in range(T)], [f"k{i}" for i in range(T)])
    for axes in maps:
        for side, axis, shown, along in (("q", axes.yaxis, "labelleft", 1), ("k", axes.xaxis, "labelbottom", 0)):
            labels = axis.get_ticklabels()
            assert (len(labels) > 3) == axis.get_tick_params()[shown]
            assert names(labels) == [f"{side}{int(label.get_position()[along])}" for label in labels]
            boxes = [label.get_window_extent() for label in labels]
            assert not any(one.overlaps(other) for one, other in pairwise(boxes))


def test_what_the_font_lacks_is_one_note_for_all_heads(capsys):
    """Case 29, matplotlib#14269: eight maps with the same names are one figure, and one line."""
    maps_of(random_weights(8, 3, 3), ["猫", "the", "🤖"])
    assert capsys.readouterr().out == "Drawn with a box for what the font lacks: 猫, 🤖\n"


def test_heads_can_have_titles_of_their_own():
    maps, _ = maps_of(random_weights(2, 2, 2), "ab", titles=["one", "two"])
    assert [axes.get_title(loc="left") for axes in maps] == ["one", "two"]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ((torch.zeros(2, 2, 2), "abc"), ["tokens has 3 labels", "2 queries", "(2, 2)"]),
        ((torch.zeros(2, 2, 3), "ab"), ["key_tokens (left out, so tokens) has 2 labels", "3 keys"]),
        ((torch.zeros(2, 2, 2), "ab", None, ["one"]), ["titles has 1", "2 heads"]),
        ((torch.zeros(2, 3, 2, 2), "ab"), ["attn_weights has shape (2, 3, 2, 2)", "2 samples"]),
        ((torch.full((2, 2, 2), 3.0), "ab"), ["from 3.00 to 3.00", "from 0 to 1"]),
    ],
    ids=lambda value: value[0][:30] if isinstance(value, list) else "",
)
def test_errors_of_heads_name_what_does_not_fit(arguments, parts):
    with pytest.raises(ValueError, match="weights") as raised:
        plot_heads(*arguments)
    assert all(part in str(raised.value) for part in parts), raised.value
    assert plt.get_fignums() == []


@pytest.mark.parametrize(
    ("shape", "head", "at"),
    [
        ((3, 2, 4), 0, (0,)),
        ((3, 2, 4), 2, (2,)),
        ((3, 2, 4), -1, (2,)),
        ((1, 3, 2, 4), 1, (0, 1)),
        ((1, 1, 2, 4), 0, (0, 0)),
        ((2, 4), 0, ()),
    ],
    ids=str,
)
def test_the_head_asked_for_is_shown(shape, head, at):
    """(H, T_q, T_k) and (1, H, T_q, T_k) show the head asked for, (T_q, T_k) the only one there is."""
    weights = random_weights(*shape)
    _, image = plotted(weights, "ab", head=head, key_tokens="wxyz")
    np.testing.assert_array_equal(image.get_array(), weights[at])


def test_head_0_is_shown_unless_another_is_asked_for():
    """`head` may be left out."""
    weights = random_weights(3, 2, 2)
    _, image = plotted(weights, "ab")
    np.testing.assert_array_equal(image.get_array(), weights[0])


def read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "weights",
    [
        torch.tensor([[0.25, 0.75], [1.0, 0.0]], dtype=torch.bfloat16),
        torch.tensor([[0.25, 0.75], [1.0, 0.0]], dtype=torch.float64),
        np.array([[0.25, 0.75], [1.0, 0.0]], dtype=np.float16),
        read_only(np.array([[0.25, 0.75], [1.0, 0.0]])),
        np.array([[1.0, 0.0], [0.25, 0.75]])[::-1],
        [[0.25, 0.75], [1.0, 0.0]],
        torch.tensor([[0.25, 1.0], [0.75, 0.0]]).T,
    ],
    ids=["bfloat16", "float64", "numpy float16", "read-only", "reversed view", "list", "transposed view"],
)
def test_tensors_and_arrays_of_any_kind(weights):
    """What is shown is what the tensor, array or list holds; numpy hands out read-only and reversed views too."""
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # torch gives some warnings once a process; here each counts
    try:
        _, image = plotted(weights, "ab")
    finally:
        torch.set_warn_always(always)
    np.testing.assert_array_equal(image.get_array(), [[0.25, 0.75], [1.0, 0.0]])


def test_the_figure_keeps_the_weights_it_was_drawn_with():
    """A tensor changed later does not change the figure, nor does the figure change the tensor."""
    weights = torch.eye(2)
    _, image = plotted(weights, "ab")
    assert torch.equal(weights, torch.eye(2))
    weights.zero_()
    np.testing.assert_array_equal(image.get_array(), np.eye(2))


@pytest.mark.parametrize(("n", "numbered"), [(2, True), (8, True), (9, False), (40, False)])
def test_small_maps_show_their_numbers(n, numbered):
    """Up to eight tokens a side, each weight stands in its own cell, with two digits."""
    weights = random_weights(2, n)
    axes, _ = plotted(weights, "ab", key_tokens=["k"] * n)
    expected = {(i, j): f"{weights[i, j]:.2f}" for i in range(2) for j in range(n)}
    assert numbers_on(axes) == (expected if numbered else None)


@pytest.mark.parametrize(
    ("arguments", "error", "parts"),
    [
        (("weights", "ab"), TypeError, ["attn_weights is a str", "tensor of weights"]),
        ((None, "ab"), TypeError, ["attn_weights is a NoneType", "tensor of weights"]),
        ((torch.zeros(2, 3, 2, 2), "ab"), ValueError, ["attn_weights", "(2, 3, 2, 2)", "2 samples", "attn_weights[0]"]),
        ((torch.zeros(2), "ab"), ValueError, ["attn_weights has shape (2,)", "(T_q, T_k)", "(1, H, T_q, T_k)"]),
        ((torch.zeros(1, 1, 1, 2, 2), "ab"), ValueError, ["attn_weights has shape (1, 1, 1, 2, 2)", "(H, T_q, T_k)"]),
        ((torch.zeros(2, 0), "ab", 0, ""), ValueError, ["attn_weights has shape (2, 0)"]),
        ((torch.zeros(3, 2, 2), "ab", 3), ValueError, ["head=3", "(3, 2, 2)", "3 heads"]),
        ((torch.zeros(1, 3, 2, 2), "ab", -4), ValueError, ["head=-4", "3 heads"]),
        ((torch.tensor([[-2.0, 3.0]]), "a", 0, "xy"), ValueError, ["from -2.00 to 3.00", "from 0 to 1", "softmax"]),
        ((torch.full((2, 2), math.inf), "ab"), ValueError, ["attn_weights", "from 0 to 1"]),
        ((torch.zeros(2, 2), "abc"), ValueError, ["tokens has 3 labels", "2 queries", "(2, 2)"]),
        ((torch.zeros(2, 3), "ab"), ValueError, ["key_tokens (left out, so tokens) has 2 labels", "3 keys", "(2, 3)"]),
        ((torch.zeros(2, 3), "abc", 0, "xyz"), ValueError, ["tokens has 3 labels", "2 queries", "(2, 3)"]),
        ((torch.zeros(2, 3), "ab", 0, "xy"), ValueError, ["key_tokens has 2 labels", "3 keys", "(2, 3)"]),
    ],
    ids=lambda value: value[0][:30] if isinstance(value, list) else "",
)
def test_errors_name_the_argument_its_shape_and_the_rule(arguments, error, parts):
    """Nothing is drawn, and the message says what to change."""
    with pytest.raises(error) as raised:
        plot_attention(*arguments)
    assert all(part in str(raised.value) for part in parts), raised.value
    assert plt.get_fignums() == []


@pytest.mark.parametrize("tokens", ["ab", "abc"], ids=["drawn", "refused"])
def test_the_readers_settings_are_left_alone(tokens):
    """matplotlib's settings are the same after a figure, and after an error, as before; the reader's own included."""
    with plt.rc_context({"font.size": 31.0, "axes.spines.top": True}):
        before = dict(plt.rcParams)
        try:
            plot_attention(torch.eye(2), tokens)
        except ValueError:
            assert tokens == "abc"
        assert dict(plt.rcParams) == before


def test_set_style_is_for_the_figures_that_follow():
    """`set_style` changes the settings, and a figure made afterwards has the style of the course."""
    with plt.rc_context():
        plt.rcdefaults()
        assert plt.figure().add_subplot().spines["top"].get_visible()
        set_style()
        axes = plt.figure().add_subplot()
        assert not axes.spines["top"].get_visible()
        assert not axes.spines["right"].get_visible()
        assert axes.title.get_fontfamily() == ["DejaVu Sans"]


def test_panels_show_each_line_with_a_marker_of_its_own():
    """`plot_panels`: titles, axis names, the data and names of the lines; the figure stays open."""
    x = [1, 2, 4, 8]
    first, second = {"rnn": [1, 2, 4, 8], "attention": [1, 4, 16, 64]}, {"rnn": [3, 3, 3, 3]}
    plot_panels(x, [("Time grows", "seconds", first), ("Memory does not", "bytes", second)], "length")
    figure = plt.gcf()
    figure.draw_without_rendering()
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Time grows", "Memory does not"]
    assert [axes.get_ylabel() for axes in figure.axes] == ["seconds", "bytes"]
    for axes, lines in zip(figure.axes, (first, second), strict=True):
        assert axes.get_xlabel() == "length"
        assert axes.get_xscale() == "log"
        assert axes.get_ylim()[0] == 0
        assert any(label.get_visible() for label in axes.get_yticklabels())  # each chart has a scale of its own
        assert {line.get_label(): line.get_ydata().tolist() for line in axes.lines} == lines
        assert all(line.get_xdata().tolist() == x for line in axes.lines)
    rnn, attention = figure.axes[0].lines
    assert rnn.get_marker() != attention.get_marker()
    assert rnn.get_color() != attention.get_color()
    assert names(figure.axes[0].get_legend().get_texts()) == ["rnn", "attention"]


def test_panels_refuse_more_lines_than_markers():
    with pytest.raises(ValueError, match="panel 'P' has 7 lines; expected 6 or fewer"):
        plot_panels([1, 2], [("P", "y", {str(n): [1, 2] for n in range(7)})], "x")


LINES = {"state of 64": {5: 0.9, 8: 0.5, 12: 0.0}, "attention": {5: 1.0, 8: 1.0, 20: 0.75}}


def test_lines_have_markers_of_their_own_and_a_linear_axis_of_whole_numbers():
    plot_lines(LINES, "source tokens", "share right", "One vector loses", ylim=(0, 1))
    (axes,) = plt.gcf().axes
    axes.figure.draw_without_rendering()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("source tokens", "share right")
    assert axes.get_title(loc="left") == "One vector loses"
    assert axes.get_xscale() == "linear"
    assert {line.get_label(): dict(zip(*line.get_data(), strict=True)) for line in axes.lines} == LINES
    assert len({line.get_marker() for line in axes.lines}) == len({line.get_color() for line in axes.lines}) == 2
    assert all(float(tick).is_integer() for tick in axes.get_xticks())
    low, high = axes.get_ylim()
    assert -0.1 < low < 0
    assert 1 < high < 1.1


def test_the_legend_of_lines_stands_beside_them_inside_the_figure():
    plot_lines({"a name that is rather long": {1: 1}, "b": {2: 5}}, "x", "y", "title")
    figure = plt.gcf()
    figure.draw_without_rendering()
    (axes,) = figure.axes
    legend = axes.get_legend()
    assert names(legend.get_texts()) == ["a name that is rather long", "b"]
    assert legend.get_window_extent().x0 >= axes.get_window_extent().x1
    assert legend.get_window_extent().x1 <= figure.bbox.x1


def test_a_band_lies_about_its_line_in_its_colour():
    plot_lines(LINES, "x", "y", "title", bands={"attention": ([0.9, 0.8, 0.5], [1.0, 1.0, 0.9])})
    (axes,) = plt.gcf().axes
    (band,) = axes.collections
    assert matplotlib.colors.same_color(band.get_facecolor()[0, :3], axes.lines[1].get_color())
    corners = {tuple(corner) for corner in band.get_paths()[0].vertices.round(6).tolist()}
    assert {(5, 0.9), (8, 0.8), (20, 0.5), (5, 1.0), (8, 1.0), (20, 0.9)} <= corners


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lines": {str(n): {1: 1} for n in range(7)}}, "chart 'T' has 7 lines; expected 6 or fewer"),
        ({"lines": {"a": {}}}, "line 'a' of chart 'T' has no point"),
        ({"lines": LINES, "bands": {"b": ([1], [1])}}, "bands has 'b', which is no line; the lines are 'state of 64'"),
        ({"lines": LINES, "bands": {"attention": ([1] * 3, [1] * 2)}}, "the band of 'attention' has 3 and 2 values"),
    ],
)
def test_lines_that_cannot_be_told_apart_or_do_not_fit(arguments, message):
    with pytest.raises(ValueError, match=message):
        plot_lines(x_label="x", y_label="y", title="T", **arguments)
    assert plt.get_fignums() == []


@pytest.mark.parametrize("align", [0, 0.5, 1])
def test_labels_stand_at_their_places(align):
    figure, axes = plt.subplots(figsize=(4, 2))
    axes.set(xlim=(0, 1), ylim=(0, 1))
    labels = axes.add_collection(Labels(axes, size=12, align=align))
    labels.show(["xxxx"], [(0.5, 0.5)])
    axes.set_axis_off()
    black = np.argwhere(pixels(figure)[..., :3].max(-1) < 100)
    width = label_width("xxxx", 12) * figure.dpi / 72
    x, _ = axes.transData.transform((0.5, 0.5))
    assert black[:, 1].min() == pytest.approx(x - align * width, abs=1.5)
    assert black[:, 1].max() == pytest.approx(x + (1 - align) * width, abs=1.5)
    labels.show(["", "y"])
    assert labels.labels == ["", "y"]
    assert len(labels.get_offsets()) == 1  # the places of before


# caption


@pytest.fixture
def page(monkeypatch):
    """What `caption` displays, in order; a figure is noted with whether it was still open then."""
    shown = []

    def display(what):
        shown.append(what.data if isinstance(what, Markdown) else (what, what.number in plt.get_fignums()))

    monkeypatch.setattr(sys.modules[caption.__module__], "display", display)
    return shown


def test_the_figure_is_open_until_its_caption(page):
    """`plot_attention` shows nothing itself; `caption` shows the figure, closes it, then writes the text."""
    assert plot_attention(torch.eye(2), "ab") is None
    figure = plt.gcf()
    assert plt.get_fignums() == [figure.number]
    assert page == []
    caption("row a puts 1.00 on a.")
    assert page == [(figure, True), "*Figure: row a puts 1.00 on a.*"]
    assert plt.get_fignums() == []


def test_a_caption_stands_below_all_open_figures(page):
    """Several figures are shown in the order they were made, and not again by the next caption."""
    figures = [plt.figure() for _ in range(3)]
    plt.figure(figures[0].number)  # to go back to one does not change the order
    caption("three.")
    caption("none.")
    assert page == [*((figure, True) for figure in figures), "*Figure: three.*", "*Figure: none.*"]
    assert plt.get_fignums() == []


# draw_weights, update_weights, Numbers


def test_draw_weights_on_axes_of_your_own():
    """The map is on the axes given: data, labels, axis names, and a colour bar when asked for."""
    figure, (left, right) = plt.subplots(1, 2)
    weights = random_weights(2, 3).numpy()
    image, numbers = draw_weights(right, weights, ["q0", "q1"], ["k0", "k1", "k2"], colour_bar=True)
    figure.canvas.draw()
    assert [*left.images, *left.collections] == []
    assert image.axes is numbers.axes is right
    np.testing.assert_array_equal(image.get_array(), weights)
    assert names(right.get_yticklabels()) == ["q0", "q1"]
    assert names(right.get_xticklabels()) == ["k0", "k1", "k2"]
    assert (right.get_xlabel(), right.get_ylabel()) == ("key", "query (each row sums to 1)")
    assert [axes.get_ylabel() for axes in figure.axes] == ["", "query (each row sums to 1)", "weight"]


@pytest.mark.parametrize(
    ("n", "asked", "numbered"), [(3, None, True), (3, False, False), (9, None, False), (9, True, True)]
)
def test_numbers_can_be_asked_for_and_refused(n, asked, numbered):
    """By default only small maps have numbers."""
    _, axes = plt.subplots()
    weights = random_weights(n, n).numpy()
    _, numbers = draw_weights(axes, weights, range(n), range(n), numbers=asked)
    assert (numbers is not None) == numbered
    expected = {place: f"{weight:.2f}" for place, weight in np.ndenumerate(weights)}
    assert numbers_on(axes) == (expected if numbered else None)


def test_nan_stays_blank():
    """A weight that is NaN has neither a colour nor a number; the others have both."""
    figure, axes = plt.subplots()
    image, _ = draw_weights(axes, np.array([[0.0, np.nan], [1.0, 0.0]]), "ab", "ab")
    figure.canvas.draw()
    assert np.ma.getmaskarray(image.get_array()).tolist() == [[False, True], [False, False]]
    assert numbers_on(axes) == {(0, 0): "0.00", (0, 1): "", (1, 0): "1.00", (1, 1): "0.00"}


@pytest.mark.parametrize("with_numbers", [True, False], ids=["numbers", "no numbers"])
def test_update_weights_is_as_good_as_drawing_anew(with_numbers):
    """Other weights in the same artists give, pixel for pixel, the figure drawn with them from the start."""
    before, after = np.eye(3), np.array([[0.2, 0.3, 0.5], [0.0, 0.0, 1.0], [0.9, 0.1, 0.0]])
    figure, axes = plt.subplots()
    image, numbers = draw_weights(axes, before, "abc", "abc", numbers=with_numbers)
    old = pixels(figure)
    update_weights(image, numbers, after)
    updated = pixels(figure)
    assert list(axes.images) == [image]
    assert list(axes.collections) == ([numbers] if with_numbers else [])
    other_figure, other_axes = plt.subplots()
    draw_weights(other_axes, after, "abc", "abc", numbers=with_numbers)
    assert not np.array_equal(updated, old)
    np.testing.assert_array_equal(updated, pixels(other_figure))


def test_silent_cells_keep_their_colour_and_lose_their_number():
    """`silent` leaves numbers out, and the next update without it brings them back."""
    _, axes = plt.subplots()
    weights = np.array([[0.0, 1.0], [0.5, 0.5]])
    image, numbers = draw_weights(axes, weights, "ab", "ab")
    update_weights(image, numbers, weights, silent=np.array([[True, False], [False, True]]))
    assert numbers_on(axes) == {(0, 0): "", (0, 1): "1.00", (1, 0): "0.50", (1, 1): ""}
    np.testing.assert_array_equal(image.get_array(), weights)
    update_weights(image, numbers, weights)
    assert numbers_on(axes) == {(0, 0): "0.00", (0, 1): "1.00", (1, 0): "0.50", (1, 1): "0.50"}


def luminance(colour):
    """Relative luminance as in the Web Content Accessibility Guidelines 2.2."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_numbers_are_legible_on_every_colour():
    """Black or white, whichever stands out from the cell behind: a contrast of at least 2.5 to 1."""
    _, axes = plt.subplots()
    weights = np.linspace(0, 1, 101).reshape(1, -1)
    image, numbers = draw_weights(axes, weights, "q", range(101), numbers=True)
    for weight, ink in zip(weights[0], numbers.get_facecolor(), strict=True):
        assert tuple(ink) in ((0.0, 0.0, 0.0, 1.0), (1.0, 1.0, 1.0, 1.0))
        dark, light = sorted((luminance(ink), luminance(image.to_rgba(weight))))
        assert (light + 0.05) / (dark + 0.05) > 2.5, weight


def canvas(dpi):
    """A figure 300 points wide and high, and empty axes from -1 to 1 that fill it."""
    figure = plt.figure(figsize=(300 / 72, 300 / 72), dpi=dpi)
    return figure, figure.add_axes((0, 0, 1, 1), frameon=False, xlim=(-1, 1), ylim=(-1, 1), xticks=[], yticks=[])


@pytest.mark.parametrize("dpi", [72, 144])
def test_a_number_is_centred_and_of_the_size_asked_for(dpi):
    """At 20 points: centred to a tenth of that, about 15 points high and 43 wide, at any resolution."""
    figure, axes = canvas(dpi)
    axes.add_collection(Numbers([(0, 0)], axes, size=20)).set_values([0.25])
    inked = pixels(figure)[..., :3].min(axis=-1) < 128
    extents = []
    for along in (1, 0):
        places = np.flatnonzero(inked.any(axis=along)) * 72 / dpi
        assert (places[0] + places[-1]) / 2 == pytest.approx(150, abs=2)
        extents.append(places[-1] - places[0])
    assert extents == [pytest.approx(15, abs=2), pytest.approx(43, abs=4)]


def test_numbers_show_none_as_nothing_and_as_many_digits_as_asked():
    """`set_values` replaces what was shown; None is no ink at all."""
    figure, axes = canvas(dpi=72)
    blank = pixels(figure)
    numbers = axes.add_collection(Numbers([(-0.5, 0), (0.5, 0)], axes))
    numbers.set_values([0.126, 2])
    assert numbers.labels == ["0.13", "2.00"]
    numbers.set_values([None, 3.14159], digits=1)
    assert numbers.labels == ["", "3.1"]
    left, right = np.split(pixels(figure) != blank, 2, axis=1)
    assert not left.any()
    assert right.any()


@pytest.mark.parametrize(
    ("label", "drawn"),
    [
        ("cat", "cat"),
        ("Vie\u0323\u0302t", "Vi\u1ec7t"),
        ("猫 and 犬", f"{BOX} and {BOX}"),
        ("two words", "two words"),
        ("", ""),
        (7, "7"),
        ("\t", BOX),
    ],
    ids=ascii,
)
def test_drawable(label, drawn):
    """Composed form, and a box for each character that the font lacks."""
    assert drawable(label) == drawn


# Imports


def test_importing_stays_cheap():
    """In a fresh interpreter, `utils.attention` loads nothing that draws; `utils.plots` then no seaborn yet."""
    code = "import sys; print(*({'matplotlib', 'seaborn', 'pandas', 'ipywidgets'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"import utils.attention; {code}; import utils.plots; {code}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("\nmatplotlib\n", 0), done.stderr
