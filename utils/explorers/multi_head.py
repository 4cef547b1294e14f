"""The interactive figures of lesson 04."""

from functools import cache

import ipywidgets as widgets
import numpy as np
import torch
import traitlets
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.patches import Rectangle

from utils.checks import check_divisible
from utils.explorers.explorer import LABEL, Explorer, buttons_style, new_figure
from utils.explorers.words import listed
from utils.labels import Labels
from utils.plots import colours, draw_heads, draw_weights, pale, styled, update_weights
from utils.tasks import LOOKUP_VALUES

WIDTH = 8.2  # of the figures, in inches
RIGHT, SPLIT, MERGED = "right", "split without transpose", "merged without transpose"
STEPS = {
    RIGHT: ("x: (T, d_model)", "view: (T, H, d_k)", "transpose: (H, T, d_k)", "transpose, reshape: (T, d_model)"),
    SPLIT: ("x: (T, d_model)", "view: (H, T, d_k)", "no transpose: (H, T, d_k)", "transpose, reshape: (T, d_model)"),
    MERGED: ("x: (T, d_model)", "view: (T, H, d_k)", "transpose: (H, T, d_k)", "reshape alone: (T, d_model)"),
}
MOST_FEATURES, MOST_ROWS = 8, 16  # that can be read; the rows are those of all heads
CELL = (0.24, 0.25)  # the widest and the height of a cell, in inches
CORNERS = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])  # of a cell, from its middle
FOLD = np.array([[0.14, -0.5], [0.5, -0.5], [0.5, -0.14]])  # the dark corner of a cell that is out of place
BESIDE, BELOW, APART = 0.4, 1.3, 2.7  # gaps between heads side by side, between heads in a column, between stages
MOST_HEADS, COLUMNS = 8, 4  # how many maps, and how many of them side by side
EACH, AVERAGE = "each head", "average of those on"


@styled
def follow_one_number(x, num_heads):
    """Follow one number from its token into a head and back, with every step or with one left out.

    Args:
        x: (T, d_model), whole numbers from 0 to 99, all different; one sample, so there is no axis B.
        num_heads: H, a divisor of d_model.

    Returns:
        The Explorer.

    Raises:
        TypeError: `x` is no tensor, or `num_heads` no integer.
        ValueError: other numbers, more of them than can be read, or sizes that do not fit.
    """
    _check_numbers(x, num_heads)
    x, H, (T, d_model) = x.long().contiguous(), num_heads, x.shape
    d_k = d_model // H
    right = _stages(x, H, RIGHT)
    token_of = torch.arange(T).unsqueeze(1).repeat(1, d_model)  # (T, d_model)
    widths = [d_model, d_model + BESIDE * (H - 1), max(2, d_k), d_model]  # of the stages, in cells
    lefts = [sum(widths[:at]) + APART * at for at in range(4)]
    beside = [
        _tokens(T, d_model, lefts[0]),
        _heads_beside(T, H, d_k, lefts[1]),
        _heads_below(H, T, d_k, lefts[2]),
        _tokens(T, d_model, lefts[3]),
    ]
    below = [beside[0], _heads_below(H, T, d_k, lefts[1] + (widths[1] - d_k) / 2), *beside[2:]]
    left, right_end, bottom = -2.4, lefts[-1] + d_model - 0.35, T + (H - 1) * (T + BELOW)
    figure, axes = new_figure(WIDTH, 0.1 + CELL[1] * (bottom + 4.3))
    spare = max(0.0, (WIDTH - 0.1) / CELL[0] - (right_end - left)) / 2
    axes.set(xlim=(left - spare, right_end + spare), ylim=(bottom + 0.8, -3.5))
    axes.set_axis_off()
    for line, text in enumerate(("tint: the token it comes from", "dark corner: not where it belongs")):
        axes.text(left - spare + 0.1, bottom - 0.8 + line, text, fontsize=8.5, color="0.35", va="center")

    cells = PolyCollection([], ec="white", lw=0.8)
    link = LineCollection([], color="0.35", lw=1.2)
    folds = PolyCollection([], fc="0.1", lw=0)
    frames = PolyCollection([], fc="none", ec="black", lw=2.2)
    numbers, names = Labels(axes, size=8.5), Labels(axes, size=8)
    steps, indices = Labels(axes, size=9.5, align=0), Labels(axes, size=9.5)
    for zorder, part in enumerate((cells, link, folds, numbers, frames, names, steps, indices), start=1):
        axes.add_collection(part, autolim=False)
        part.set(animated=True, zorder=zorder)
    names.set_facecolor("0.35")
    tints = np.array([pale(colours()[token]) for token in range(T)])

    def draw(token, feature, way):
        number, layouts = int(x[token, feature]), below if way == SPLIT else beside
        stages, tokens = _stages(x, H, way), _stages(token_of, H, way)
        due = [right[0], right[2] if way == SPLIT else right[1], *right[2:]]
        places = np.concatenate([centres for centres, _ in layouts])  # one a cell, stage by stage
        values, owners, wanted = (torch.cat([stage.flatten() for stage in group]) for group in (stages, tokens, due))
        chosen = places[(values == number).numpy()]  # one a stage
        cells.set(verts=places[:, None] + CORNERS, facecolor=tints[owners.numpy()])
        folds.set_verts(places[(values != wanted).numpy()][:, None] + FOLD)
        numbers.show(map(str, values.tolist()), places)
        frames.set_verts(chosen[:, None] + CORNERS)
        # Between the stages only, so that it crosses no number.
        ends = [(centres[0][0] - 1.6, centres[-1][0] + 0.7) for centres, _ in layouts]
        link.set_segments([[(ends[at][1], chosen[at][1]), (ends[at + 1][0], chosen[at + 1][1])] for at in range(3)])
        written = [name for _, group in layouts for name in group]
        names.show([text for text, *_ in written], [place for _, *place in written])
        code, shapes = zip(*(title.split(": ") for title in STEPS[way]), strict=True)
        steps.show([*code, *shapes], [(centres[0][0] - 0.5, y) for y in (-2.9, -2.0) for centres, _ in layouts])
        found = [_index(stage, number) for stage in stages]
        indices.show(map(str, found), [((c[0][0] + c[-1][0]) / 2, c[-1][1] + 1.1) for c, _ in layouts])
        return figure, _route(x, number, stages, found, way)

    return Explorer(
        "Follow one number",
        "Leave the transpose out of the split. Which numbers does head 0 then get for its token 1, and whose are they? "
        "And what is wrong when it is only left out of the merge?",
        draw,
        token=widgets.IntSlider(value=T // 2, min=0, max=T - 1, description="token", style=LABEL),
        feature=widgets.IntSlider(value=(d_model - 1) // 2, min=0, max=d_model - 1, description="feature", style=LABEL),
        way=widgets.ToggleButtons(options=[(way, way) for way in STEPS], description="way", style=buttons_style(STEPS)),
    )


def _check_numbers(x, num_heads):
    """A plain error unless `follow_one_number` can show this."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"x is a {type(x).__name__}; expected a torch.Tensor")
    if x.dim() != 2:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected (T, d_model), one sample without its axis B")
    check_divisible(x.size(1), num_heads)
    T, d_model = x.shape
    if T < 2 or num_heads < 2:
        raise ValueError(
            f"x has T={T} and num_heads={num_heads}; expected at least 2 of each, or all ways are the same"
        )
    if d_model > MOST_FEATURES or T * num_heads > MOST_ROWS:
        raise ValueError(
            f"x has shape {tuple(x.shape)} and num_heads={num_heads}; expected d_model up to {MOST_FEATURES} and "
            f"T * num_heads up to {MOST_ROWS}, to be readable"
        )
    if ((x != x.long()) | (x < 0) | (x > 99)).any() or len(x.unique()) < x.numel():
        raise ValueError("x holds other numbers; expected whole ones from 0 to 99, all different, to tell apart")


def _stages(x, H, way):
    """x (T, d_model) and what becomes of it in this way: after `view`, as heads (H, T, d_k), and merged."""
    T, d_model = x.shape
    d_k = d_model // H
    if way == SPLIT:
        heads = cut = x.view(H, T, d_k)
    else:
        cut = x.view(T, H, d_k)
        heads = cut.transpose(0, 1)
    before = heads if way == MERGED else heads.transpose(0, 1)
    return x, cut, heads, before.reshape(T, d_model)


def _tokens(T, d_model, left):
    """The middles of cells (T, d_model), in order, and what is written beside them as (text, x, y)."""
    centres = [(left + column, row) for row, column in np.ndindex(T, d_model)]
    return centres, [*_row_names(T, left, [0]), *((str(column), left + column, -1) for column in range(d_model))]


def _heads_beside(T, H, d_k, left):
    """As `_tokens`, for cells (T, H, d_k), the heads side by side."""
    lefts = [left + head * (d_k + BESIDE) for head in range(H)]
    centres = [(lefts[head] + column, row) for row, head, column in np.ndindex(T, H, d_k)]
    return centres, [*_row_names(T, left, [0]), *_head_names(d_k, [(at, 0) for at in lefts])]


def _heads_below(H, T, d_k, left):
    """As `_tokens`, for cells (H, T, d_k), the heads one below the other."""
    tops = [head * (T + BELOW) for head in range(H)]
    centres = [(left + column, tops[head] + row) for head, row, column in np.ndindex(H, T, d_k)]
    return centres, [*_row_names(T, left, tops), *_head_names(d_k, [(left, top) for top in tops])]


def _row_names(T, left, tops):
    """The numbers of the rows of blocks that begin at `tops`, under one heading."""
    return [("token", left - 1.5, -1), *((str(row), left - 1.2, top + row) for top in tops for row in range(T))]


def _head_names(d_k, corners):
    """A heading for each head, whose first cell is at its corner."""
    heading = "head {}" if d_k > 1 else "{}"
    return [(heading.format(head), x + (d_k - 1) / 2, y - 1) for head, (x, y) in enumerate(corners)]


def _route(x, number, stages, found, way):
    """Where a number goes and what is wrong with it, in words."""
    (token, feature), _, (head, row, _), end = found
    _, _, heads, merged = stages
    spans = listed([_span(numbers) for numbers in heads[head].tolist()])
    if way == RIGHT:
        return (
            f"{number} is feature {feature} of token {token}. The view moves nothing, the transpose makes it part of "
            f"head {head}'s row {row}: head {head} gets {spans}, a row a token. Merged, "
            f"{int((merged == x).sum())} of {x.numel()} numbers are where they were, {number} at {end}."
        )
    where = f"{number} is at {end}" + (f", not at {found[0]}" if end != found[0] else " again")
    where += f", and {int((merged != x).sum())} of {x.numel()} numbers are out of place"
    if way == SPLIT:
        due = _stages(x, len(heads), RIGHT)[2]
        wrong = next(at for at in range(len(x)) if not heads[head, at].equal(due[head, at]))
        (whose, first), (_, last) = (_index(x, heads[head, wrong, at]) for at in (0, -1))
        features = f"feature {first}" if first == last else f"features {first} to {last}"
        return (
            f"{number} of token {token} becomes part of head {head}'s row {row}, the model's token {row}. Head {head} "
            f"gets {spans} for its {len(x)} tokens: its row {wrong} holds token {whose}'s {features}. Merged, {where}."
        )
    pieces = merged[end[0]].view(len(heads), -1).tolist()
    owners = dict.fromkeys(str(_index(x, piece[0])[0]) for piece in pieces)
    return (
        f"The heads are right, the merge is not: it reads head 0 to its end before head 1. Row {end[0]} of the result "
        f"holds {listed([_span(piece) for piece in pieces])}, of token{'s' * (len(owners) > 1)} {listed(owners)}; "
        f"{where}."
    )


def _index(tensor, number):
    """The index at which a number stands."""
    return (tensor == number).nonzero()[0].tolist()


def _span(numbers):
    """Numbers of a row as a sentence tells them: "10 to 13", or one by one where they do not follow each other."""
    if len(numbers) > 1 and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        return f"{numbers[0]} to {numbers[-1]}"
    return " ".join(map(str, numbers))


class HeadButtons(widgets.VBox):
    """A button for each head, with ready-made choices above them.

    `value` is a tuple of booleans, True for a head that is on.
    """

    value = traitlets.Tuple()

    def __init__(self, num_heads):
        heads = range(num_heads)
        choices = [
            ("all heads", (True,) * num_heads),
            ("no head", (False,) * num_heads),
            *((f"only head {head}", tuple(head == other for other in heads)) for head in heads),
        ]
        layout = {"width": "92px", "margin": "1px", "padding": "0"}
        self.toggles = [widgets.ToggleButton(value=True, layout=layout) for _ in heads]
        self.ready_made = widgets.Dropdown(
            options=[*choices, ("as pressed", ())], value=choices[0][1], description="heads on", style=LABEL
        )
        self._setting = False
        super().__init__([self.ready_made, widgets.HBox(self.toggles, layout={"flex_flow": "row wrap"})])
        for toggle in self.toggles:
            toggle.observe(self._read_toggles, names="value")
        self.ready_made.observe(lambda change: self._set_toggles(change["new"]), names="value")
        self._read_toggles()

    def _set_toggles(self, choice):
        """Put every button where `choice` says; `value` changes once."""
        if not choice:  # the one that says "as pressed"; None would leave the menu blank
            return
        self._setting = True
        for toggle, on in zip(self.toggles, choice, strict=True):
            toggle.value = on
        self._setting = False
        self._read_toggles()

    def _read_toggles(self, change=None):
        if self._setting:
            return
        for head, toggle in enumerate(self.toggles):
            toggle.description = f"head {head} {'on' if toggle.value else 'off'}"
        self.value = tuple(toggle.value for toggle in self.toggles)
        offered = [choice for _, choice in self.ready_made.options]
        self.ready_made.value = self.value if self.value in offered else ()


@styled
def pick_heads(weights, question_names, item_names, accuracy):
    """Switch heads of a trained model on and off: their maps, or the average of those on, and the answers.

    Args:
        weights: (H, T_q, T_k), the weights of all heads for one set of `utils.tasks.lookups`.
        question_names, item_names: T_q and T_k names, such as "C, F" and "C=7".
        accuracy: function of a tuple of H booleans, True for a head that is on, that returns the shares of first
            answers right, of second answers right, and of both; called once for each tuple.

    Returns:
        The Explorer.

    Raises:
        TypeError: `weights` is no tensor.
        ValueError: weights of another shape, or names that do not match it in number.
    """
    _check_maps(weights, question_names, item_names)
    maps = weights.detach().float().numpy()
    H, T_q, T_k = maps.shape
    rows, columns = -(-H // COLUMNS), min(H, COLUMNS)

    @cache
    def shares_right(heads):
        shares = tuple(map(float, accuracy(heads)))
        if len(shares) != 3:
            raise ValueError(
                f"accuracy returned {len(shares)} numbers; expected 3, the shares of first, second and both"
            )
        return shares

    def halves(height):
        figure, axes = new_figure(WIDTH, height)
        axes.remove()
        left, right = figure.subfigures(1, 2, width_ratios=(2.5, 1))
        return figure, left, _Answers(right.subplots())

    height = min(4.0, max(2.8, 1.15 + rows * (0.3 + 4.2 / columns * T_q / T_k)))
    each_figure, left, each_answers = halves(height)
    covers, titles = [], []
    for axes in draw_heads(left, maps, question_names, item_names, columns):
        axes.tick_params(labelsize=8.5)
        covers.append(axes.add_patch(Rectangle((-0.5, -0.5), T_k, T_q, fc=(1, 1, 1, 0.8), ec="0.4", hatch="///", lw=0)))
        titles.append(axes.set_title("", fontsize=10))

    average_figure, left, average_answers = halves(height)
    axes = left.subplots()
    image, numbers = draw_weights(axes, np.zeros((T_q, T_k)), question_names, item_names, colour_bar=True)
    heading = axes.set_title("")
    for moving in (*covers, *titles, image, numbers, heading):
        if moving is not None:  # no numbers in a map with many cells
            moving.set_animated(True)

    def draw(heads, show):
        on = [head for head in range(H) if heads[head]]
        shares = shares_right(heads)
        some, are = ("s", "are") if len(on) > 1 else ("", "is")
        who = f"All {H} heads" if len(on) == H > 1 else f"Head{some} {listed(map(str, on))}" if on else "No head"
        first, second, both = (f"{share:.2f}" for share in shares)
        sentence = f"{who} {are} on: first answer right {first}, second {second}, both {both}."
        if show == EACH:
            for head, (cover, title) in enumerate(zip(covers, titles, strict=True)):
                cover.set_visible(head not in on)
                title.set_text(f"head {head}" if head in on else f"head {head}, off")
            each_answers.show(shares)
            return each_figure, sentence
        average = maps[on].mean(axis=0) if on else np.full((T_q, T_k), np.nan)
        update_weights(image, numbers, average)
        heading.set_text(f"average of {len(on)} of {H} heads" if on else "no head is on: nothing to average")
        average_answers.show(shares)
        if not on:
            return average_figure, f"{sentence} There is nothing to average."
        row, column = np.unravel_index(average.argmax(), average.shape)
        return average_figure, (
            f"{sentence} Averaged over those on, the largest weight is {average[row, column]:.2f}, from "
            f'"{question_names[row]}" to {item_names[column]}.'
        )

    return Explorer(
        "Pick heads",
        "Switch heads off, one after the other. Which is the smallest set of heads with which both answers stay right, "
        "and does the average of their maps show which head finds which answer?",
        draw,
        heads=HeadButtons(H),
        show=widgets.ToggleButtons(
            options=[(name, name) for name in (EACH, AVERAGE)], description="show", style=buttons_style([AVERAGE])
        ),
    )


def _check_maps(weights, question_names, item_names):
    """A plain error unless `pick_heads` can show these."""
    if not isinstance(weights, torch.Tensor):
        raise TypeError(f"weights is a {type(weights).__name__}; expected a torch.Tensor")
    shape = tuple(weights.shape)
    if len(shape) != 3 or 0 in shape:
        raise ValueError(f"weights has shape {shape}; expected (H, T_q, T_k), the heads of one sample")
    if shape[0] > MOST_HEADS:
        raise ValueError(f"weights has shape {shape}, so {shape[0]} heads; expected {MOST_HEADS} or fewer")
    if not ((weights >= 0) & (weights <= 1.001)).all():
        raise ValueError(f"weights runs from {weights.min():.2f} to {weights.max():.2f}; expected weights from 0 to 1")
    for name, names, length in (("question_names", question_names, shape[1]), ("item_names", item_names, shape[2])):
        if len(names) != length:
            raise ValueError(f"{name} has {len(names)} names but weights has shape {shape}; expected {length}")


class _Answers:
    """Three bars: how often the first answer is right, the second, and both."""

    def __init__(self, axes):
        self.bars = axes.barh(range(3), [0.0] * 3, 0.6, color=colours()[0], ec="none")
        self.numbers = axes.add_collection(Labels(axes, align=0), autolim=False)
        (guess,) = axes.plot([1 / LOOKUP_VALUES] * 2, [-0.45, 1.45], color="black", lw=1.5, ls=":", zorder=2.5)
        axes.set(xlim=(0, 1.3), ylim=(2.5, -0.5), yticks=range(3), yticklabels=["first", "second", "both"])
        axes.set(xticks=(0, 0.5, 1), title="Answers right")
        axes.set_xlabel(f"share right\n(dotted: a guess, 1/{LOOKUP_VALUES})", fontsize=10)
        for moving in (*self.bars, guess, self.numbers):
            moving.set_animated(True)

    def show(self, shares):
        """Show the three shares as bars with their numbers."""
        for bar, share in zip(self.bars, shares, strict=True):
            bar.set_width(share)
        beside = [max(share, 1 / LOOKUP_VALUES) + 0.04 for share in shares]  # where no line crosses a number
        self.numbers.show([f"{share:.2f}" for share in shares], list(zip(beside, range(3), strict=True)))
