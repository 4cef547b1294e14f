"""The interactive figures of lesson 03. Each takes its numbers and functions from the lesson."""

import html

import ipywidgets as widgets
import matplotlib
import numpy as np
import torch
import traitlets
from matplotlib.collections import PatchCollection
from matplotlib.patches import Rectangle

from utils.explorers.explorer import LABEL, Explorer, new_figure
from utils.labels import Numbers
from utils.plots import MARKERS, WEIGHT_COLOURS, colours, draw_weights, styled, update_weights

EMPTY = (0.95, 0.95, 0.95, 1.0)  # the colour of a cell without a number, or whose number has no colour
BUTTONS = {**LABEL, "button_width": "90px"}
START = "causal, first key is padding"
STEPS = ["query and keys", "scores", "scaled scores", "weights", "weighted sum"]
SCALES = [("no scaling", 0.0), ("1/√d_k", 0.5), ("1/d_k", 1.0)]  # the power of d_k that divides
QUERIES_SHOWN = 12  # of all the queries, how many can be looked at one by one
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class _Cells:
    """A block of numbered cells on axes whose unit is one cell."""

    def __init__(self, axes, left, top, rows, columns):
        places = [(left + column, top + row) for row, column in np.ndindex(rows, columns)]
        frames = [Rectangle((x - 0.47, y - 0.45), 0.94, 0.9) for x, y in places]
        self.frames = axes.add_collection(PatchCollection(frames, lw=0, animated=True))
        self.numbers = axes.add_collection(Numbers(places, axes))
        self.numbers.set_animated(True)
        self.size = len(places)

    def fill(self, values, digits, face=None):
        """Show the numbers of a tensor, `face` giving each cell its colour; empty cells where it is None."""
        values = [None] * self.size if values is None else values.flatten().tolist()
        faces = [EMPTY if value is None or face is None else face(value) for value in values]
        self.frames.set_facecolor(faces)
        self.numbers.set_values(values, digits, on_colours=faces)


@styled
def one_query_steps(Q, K, V, query_names, key_names, feature_names, value_names):
    """Walk one query through attention, one step at a time, on numbers that can be read.

    Args:
        Q, K, V: (T_q, d_k), (T_k, d_k), (T_k, d_v), the tensors of the lesson.
        query_names, key_names: a name for each row of Q, and of K and V.
        feature_names, value_names: a name for each column of Q and K, and of V.

    Returns:
        The Explorer.
    """
    (T_k, d_k), d_v = K.shape, V.size(1)
    scores = Q @ K.T  # (T_q, T_k)
    scaled = scores / d_k**0.5
    weights = torch.softmax(scaled, dim=-1)
    output = weights @ V  # (T_q, d_v)

    figure, axes = new_figure(8.2, 3.7)
    lefts = [0, d_k + 0.8, d_k + 2.4, d_k + 4.0, d_k + 5.6]  # of K, scores, scaled scores, weights, V
    axes.set(xlim=(-2.4, lefts[-1] + d_v - 0.4), ylim=(T_k + 1.5, -3.6))
    axes.set_axis_off()
    query_cells = _Cells(axes, 0, -2.0, 1, d_k)
    key_cells = _Cells(axes, 0, 0, T_k, d_k)
    columns = [_Cells(axes, left, 0, T_k, 1) for left in lefts[1:4]]
    value_cells = _Cells(axes, lefts[4], 0, T_k, d_v)
    output_cells = _Cells(axes, lefts[4], T_k + 0.6, 1, d_v)
    for x, name in enumerate(feature_names):
        axes.text(x, -1.0, name, ha="center", va="center", fontsize=9, color="0.35")
    for x, name in enumerate(value_names):
        axes.text(lefts[4] + x, -1.0, name, ha="center", va="center", fontsize=9, color="0.35")
    for y, name in enumerate(key_names):
        axes.text(-0.7, y, name, ha="right", va="center", fontsize=10)
    query_name = axes.text(-0.7, -2.0, "", ha="right", va="center", fontsize=10, fontweight="bold", animated=True)
    axes.text(lefts[4] - 0.7, T_k + 0.6, "output", ha="right", va="center", fontsize=10, fontweight="bold")
    titles = [
        axes.text(left, -3.1, title, va="center", ha=align, fontsize=10, animated=True)
        for left, title, align in zip(
            [-0.5, *lefts[1:4], lefts[4] - 0.5],
            ["q, and below it K", "q·k", f"q·k / √{d_k}", "softmax", "V"],
            ["left", "center", "center", "center", "left"],
            strict=True,
        )
    ]
    weight_colour = matplotlib.colormaps[WEIGHT_COLOURS]
    largest, tint = float(scores.abs().max()), colours()[0]

    def shade(value):
        return (*(1 - 0.6 * abs(value) / largest * (1 - part) for part in tint), 1.0)

    def draw(query, step):
        query_name.set_text(query_names[query])
        query_cells.fill(Q[query], 0)
        key_cells.fill(K, 0)
        for at, (cells, values, digits, face) in enumerate(
            zip(columns, (scores, scaled, weights), (0, 1, 2), (shade, shade, weight_colour), strict=True), start=1
        ):
            cells.fill(values[query] if step >= at else None, digits, face)
        value_cells.fill(V, 0)
        output_cells.fill(output[query] if step >= 4 else None, 2)
        for at, title in enumerate(titles):
            title.set_fontweight("bold" if at == step else "normal")
        name, best = query_names[query], int(scores[query].argmax())
        found = ", ".join(f"{v:.2f} {n}" for v, n in zip(output[query].tolist(), value_names, strict=True))
        sentence = [
            f"The query {name} has the same {d_k} features as each of the {T_k} keys.",
            f"Each score is a dot product with {name}; the largest, {scores[query, best]:.0f}, is {key_names[best]}'s.",
            f"Divided by √{d_k}, the scores run from {scaled[query].min():.1f} to {scaled[query].max():.1f}.",
            f"The weights sum to {weights[query].sum():.2f}; {key_names[best]} gets {weights[query, best]:.2f} of it.",
            f"The output for {name} is the weighted average of the rows of V: {found}.",
        ][step]
        return figure, sentence

    return Explorer(
        "One query, step by step",
        "Move the step back to 1 and forward again, then choose another query. Which query leaves most weight "
        "for keys that fit less well?",
        draw,
        query=widgets.ToggleButtons(
            options=[(name, at) for at, name in enumerate(query_names)], description="query", style=BUTTONS
        ),
        step=widgets.SelectionSlider(
            options=[(f"{at + 1} {name}", at) for at, name in enumerate(STEPS)],
            value=len(STEPS) - 1,
            description="step",
            style=LABEL,
            layout={"width": "420px"},
        ),
    )


@styled
def score_scaling(queries, keys, widths):
    """What the width d_k and the scale do to the weights that one query gives.

    Args:
        queries: (samples, d), the components of random queries; a width d_k takes the first d_k of them.
        keys: (samples, T_k, d), likewise for the keys that each query is compared with.
        widths: the values of d_k on offer, none above d.

    Returns:
        The Explorer.
    """

    def weights_at(d_k, power):  # (samples, T_k)
        scores = torch.einsum("sd,skd->sk", queries[:, :d_k], keys[..., :d_k])
        return torch.softmax(scores / d_k**power, dim=-1)

    weights = {(d_k, power): weights_at(d_k, power) for d_k in widths for _, power in SCALES}
    T_k = keys.size(1)
    figure, (bar_axes, line_axes) = new_figure(8.2, 3.3, columns=2)
    bars = bar_axes.bar(range(1, T_k + 1), [0.0] * T_k, color="0.45", ec="none", animated=True)
    bar_axes.set(ylim=(0, 1), xlabel="key", ylabel="weight", title="Weights of one query", xticks=range(1, T_k + 1))
    bar_axes.axhline(1 / T_k, color="0.3", lw=1, ls=":")
    bar_axes.text(T_k + 0.5, 1 / T_k, f"1/{T_k}, all equal", ha="right", va="bottom", fontsize=9)
    for (name, power), colour, marker in zip(SCALES, colours(), MARKERS, strict=False):
        largest = [float(weights[d_k, power].amax(-1).mean()) for d_k in widths]
        line_axes.plot(widths, largest, color=colour, marker=marker, ms=5, label=name)
    (here,) = line_axes.plot([widths[0]], [0.0], "o", ms=14, mfc="none", mec="black", mew=1.5, animated=True)
    line_axes.set_xscale("log", base=2)
    line_axes.set(ylim=(0, 1.04), xlabel="d_k", ylabel="largest weight", title=f"Average of {len(queries)} queries")
    line_axes.set_xticks(widths[::2], [str(d_k) for d_k in widths[::2]])
    line_axes.legend(loc="center right", bbox_to_anchor=(1.0, 0.58))

    def draw(d_k, power, query):
        chosen = weights[d_k, power]
        for bar, height in zip(bars, chosen[query].tolist(), strict=True):
            bar.set_height(height)
        average = float(chosen.amax(-1).mean())
        here.set_data([d_k], [average])
        scale = {power: name for name, power in SCALES}[power]
        return figure, (
            f"With d_k = {d_k} and {scale}, the largest of {T_k} weights is {chosen[query].max():.2f} for query "
            f"{query + 1} and {average:.2f} on average; equal weights would be 1/{T_k}."
        )

    return Explorer(
        "Width and scale",
        "Raise d_k with each of the scales. Along which of the curves does the average stay level, and where do the "
        "other two go?",
        draw,
        d_k=widgets.SelectionSlider(
            options=[(str(d_k), d_k) for d_k in widths],
            value=widths[len(widths) // 2],
            description="d_k",
            style=LABEL,
        ),
        power=widgets.ToggleButtons(options=SCALES, value=0.0, description="scale", style=BUTTONS),
        query=widgets.SelectionSlider(
            options=[(str(at + 1), at) for at in range(min(QUERIES_SHOWN, len(queries)))],
            value=0,
            description="query",
            style=LABEL,
        ),
    )


class MaskGrid(widgets.VBox):
    """A square of buttons, one a (query, key) pair, with ready-made masks above it.

    `value` is the mask as a tuple of rows of booleans, True where the query may attend to the key.
    """

    value = traitlets.Tuple()

    def __init__(self, masks, start, tokens):
        """`masks`: the ready-made ones by name, as values; `start`: the name of the first; `tokens`: row names."""
        size = len(tokens)
        cell = {"width": "36px", "height": "28px", "margin": "1px", "padding": "0"}
        self.buttons = [[widgets.ToggleButton(layout=cell) for _ in range(size)] for _ in range(size)]
        self.ready_made = widgets.Dropdown(
            options=[*((name, mask) for name, mask in masks.items()), ("as pressed", ())],
            value=masks[start], description="mask", style=LABEL,
        )  # fmt: skip
        self._setting = False
        names = "".join(f'<div style="height: 30px; line-height: 30px">{html.escape(token)}</div>' for token in tokens)
        row_names = widgets.HTML(f'<div style="text-align: right; width: 90px">{names}</div>')
        rows = widgets.VBox([widgets.HBox(row) for row in self.buttons])
        super().__init__([self.ready_made, widgets.HBox([row_names, rows])])
        for row in self.buttons:
            for button in row:
                button.observe(self._read_buttons, names="value")
        self.ready_made.observe(lambda change: self._set_buttons(change["new"]), names="value")
        self._set_buttons(masks[start])

    def _set_buttons(self, mask):
        """Put every button where `mask` says; `value` changes once."""
        if not mask:  # the one that says "as pressed"; None would leave the menu blank
            return
        self._setting = True
        for buttons, row in zip(self.buttons, mask, strict=True):
            for button, allowed in zip(buttons, row, strict=True):
                button.value = allowed
        self._setting = False
        self._read_buttons()

    def _read_buttons(self, change=None):
        if self._setting:
            return
        for row in self.buttons:
            for button in row:
                button.description = "1" if button.value else "0"
        self.value = tuple(tuple(button.value for button in row) for row in self.buttons)
        offered = [mask for _, mask in self.ready_made.options]
        self.ready_made.value = self.value if self.value in offered else ()


@styled
def mask_laboratory(Q, K, tokens, ways):
    """Block any (query, key) pair in any of several ways and precisions, with alarms for what goes wrong.

    Args:
        Q, K: (n, d_k), the queries and keys of the lesson, in float32.
        tokens: n names.
        ways: by name, a function (Q, K, mask) -> weights (n, n).

    Returns:
        The Explorer.
    """
    n = len(tokens)
    everything = torch.ones(n, n, dtype=torch.bool)
    masks = {
        "all allowed": everything,
        "causal": everything.tril(),
        "padding: last two keys": everything & (torch.arange(n) < n - 2),
        START: everything.tril() & (torch.arange(n) > 0),
    }
    figure, (map_axes, sum_axes) = new_figure(8.2, 3.9, columns=2, width_ratios=(1.5, 1))
    image, numbers = draw_weights(map_axes, np.zeros((n, n)), tokens, tokens, colour_bar=True)
    blocks = map_axes.add_collection(PatchCollection([], fc="none", ec=(1, 1, 1, 0.3), hatch="//", lw=0, zorder=2))
    bars = sum_axes.barh(range(n), [0.0] * n, color=colours()[0], ec="none")
    sum_axes.set(ylim=(n - 0.5, -0.5), xlim=(0, 1.3), xlabel="sum of the row", yticks=range(n), yticklabels=tokens)
    sum_axes.axvline(1.0, color="0.4", lw=1, ls=":")
    map_axes.set_ylabel("query")  # whether its rows sum to 1 is the question here
    lost = [sum_axes.text(0.03, row, "NaN", va="center", fontweight="bold", color=colours()[3]) for row in range(n)]
    heading, verdict = map_axes.set_title(""), sum_axes.set_title("")
    for moving in (image, numbers, blocks, *bars, *lost, heading, verdict):
        moving.set_animated(True)

    def draw(mask, way, dtype):
        allowed = torch.tensor(mask)
        try:
            weights = ways[way](Q.to(DTYPES[dtype]), K.to(DTYPES[dtype]), allowed).float()
            alarms = _mask_alarms(weights, allowed, tokens)
        except RuntimeError as error:
            weights = torch.full((n, n), float("nan"))
            alarms = [f"{'overflow' if 'overflow' in str(error) else 'error'}: {error}"]
        update_weights(image, numbers, weights.numpy(), silent=(~allowed & (weights == 0)).numpy())
        blocks.set_paths([Rectangle((column - 0.5, row - 0.5), 1, 1) for row, column in (~allowed).nonzero().tolist()])
        sums = weights.sum(dim=-1)
        for bar, note, total in zip(bars, lost, sums.tolist(), strict=True):
            bar.set_width(0.0 if total != total else min(total, 1.3))
            note.set_visible(total != total)
        heading.set_text(f"{way}, {dtype}")
        verdict.set_text("no alarm" if not alarms else "ALARM: " + ", ".join(a.split(":")[0] for a in alarms))
        verdict.set(color=colours()[3] if alarms else "black", fontweight="bold" if alarms else "normal")
        where = f"{way[0].upper()}{way[1:]}, {dtype}, {int((~allowed).sum())} pairs blocked (hatched)."
        return figure, f"{where} {'; '.join(alarms) or 'No alarm'}."

    return Explorer(
        "Mask laboratory",
        "1 means that the row's query may attend to the column's key. Which way of blocking is the only one "
        "that never raises an alarm, whatever the mask and the precision?",
        draw,
        mask=MaskGrid({name: tuple(map(tuple, mask.tolist())) for name, mask in masks.items()}, START, tokens),
        way=widgets.Dropdown(options=[(way, way) for way in ways], description="blocked by", style=LABEL),
        dtype=widgets.ToggleButtons(options=[(name, name) for name in DTYPES], description="precision", style=BUTTONS),
    )


def _mask_alarms(weights, allowed, tokens):
    """What is wrong with these weights under this mask, each alarm as 'kind: where'."""
    alarms = []
    lost = weights.isnan().any(-1)
    if lost.any():
        alarms.append("NaN: in the row of " + ", ".join(f"'{t}'" for t, bad in zip(tokens, lost, strict=True) if bad))
    leak = weights.nan_to_num(0.0).masked_fill(allowed, 0.0)
    if leak.max() > 0:
        row, column = divmod(int(leak.argmax()), len(tokens))
        alarms.append(f"leak: '{tokens[row]}' gives {leak.max():.2g} to '{tokens[column]}', which is blocked")
    sums = weights.sum(-1)
    short = allowed.any(-1) & ~lost & ((sums - 1).abs() > 0.02)
    if short.any():
        row = int(torch.where(short, (sums - 1).abs(), 0).argmax())
        alarms.append(f"lost mass: the row of '{tokens[row]}' sums to {sums[row]:.2f}")
    return alarms
