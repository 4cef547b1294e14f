"""Static figures, all in one style: heat maps of attention weights, colours and markers for lines."""

from functools import cache, wraps
from numbers import Integral

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.ticker import MaxNLocator

from utils.labels import FONT, Numbers, drawable, loses

WEIGHT_COLOURS = "viridis"  # attention weights, always on a fixed scale from 0 to 1
NOT_A_NUMBER = "0.7"  # a grey that is none of the weights' colours
MARKERS = "osD^vP"  # lines differ by marker as well as by colour
QUERY_AXIS = "query (each row sums to 1)"
KEY_AXIS = "key"
MOST_NUMBERED = 8  # a map with up to this many tokens a side shows its numbers
LABEL_HEIGHT = 0.16  # inches that a label takes from the next one, where labels are lines of text below each other
MOST_LABELS = 24  # with more tokens a side, every second, third ... one is named


@cache
def colours():
    """The colours for lines, bars and dots: seaborn's `colorblind` palette, as a list."""
    import seaborn as sns

    return sns.color_palette("colorblind")


def pale(colour):
    """A light tint of a colour (red, green, blue), on which a text can be read."""
    return [1 - 0.4 * (1 - part) for part in colour]


@cache
def style():
    """The one style of the course's figures, as matplotlib settings."""
    import seaborn as sns

    return {
        **sns.plotting_context("notebook"),
        **sns.axes_style("ticks"),
        "axes.prop_cycle": plt.cycler(color=colours()),
        "font.family": FONT,
        "axes.titlesize": 12,
        "axes.titlelocation": "left",
        "axes.labelsize": 11,
        "xtick.labelsize": 10,
        "ytick.labelsize": 10,
        "legend.fontsize": 10,
        "legend.frameon": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "figure.constrained_layout.use": True,
    }


def set_style():
    """Give every figure drawn from here on the style of the course."""
    plt.rcParams.update(style())


def styled(draw):
    """Decorator: what this function draws has the style of the course, and nothing else does."""

    @wraps(draw)
    def draw_in_style(*args, **kwargs):
        with plt.rc_context(style()):
            return draw(*args, **kwargs)

    return draw_in_style


@styled
def plot_panels(x, panels, x_label, columns=2):
    """Small line charts that share a logarithmic x axis; the figure stays open, as in `plot_attention`.

    Args:
        x: the values along the axis, each about twice the one before.
        panels: for each chart, (title, label of the y axis, {name of a line: its values}).
        x_label: label of the shared axis.
        columns: how many charts stand side by side.

    Raises:
        ValueError: more lines in a chart than there are markers.
    """
    for title, _, lines in panels:
        _check_number_of_lines(f"panel {title!r}", lines)
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4.4 * columns, 2.9 * rows), sharex=True, squeeze=False)
    for unused in axes.flat[len(panels) :]:
        unused.remove()
    for axis, (title, y_label, lines) in zip(axes.flat, panels, strict=False):
        draw_lines(axis, {name: (x, values) for name, values in lines.items()})
        axis.set_xscale("log", base=2)
        axis.set_xticks(x[::2], [str(value) for value in x[::2]])
        axis.set(title=title, ylabel=y_label)
        axis.set_ylim(bottom=0)
    for axis in axes.flat[max(0, len(panels) - columns) : len(panels)]:
        axis.set_xlabel(x_label)
        axis.tick_params(labelbottom=True)
    axes.flat[0].legend()
    figure.align_ylabels()


@styled
def plot_lines(lines, x_label, y_label, title, ylim=None, bands=None, log=False):
    """One chart of several lines on a linear x axis; the figure stays open, as in `plot_attention`.

    Args:
        lines: {name of a line: {x: y}}; each line has its own x values, in order.
        x_label, y_label: labels of the axes.
        title: what the chart shows.
        ylim: the lowest and the highest value that there can be, such as (0, 1); what is drawn decides when left out.
        bands: {name of a line: (low, high)}, the spread about a line, as many values each as the line has.
        log: whether the y axis is logarithmic.

    Raises:
        ValueError: more lines than there are markers, a line without a point, or a band that fits no line.
    """
    bands = {} if bands is None else bands
    _check_number_of_lines(f"chart {title!r}", lines)
    for name, points in lines.items():
        if not points:
            raise ValueError(f"line {name!r} of chart {title!r} has no point; expected one or more")
    for name, band in bands.items():
        if name not in lines:
            raise ValueError(f"bands has {name!r}, which is no line; the lines are {', '.join(map(repr, lines))}")
        if [len(side) for side in band] != [len(lines[name])] * 2:
            raise ValueError(
                f"the band of {name!r} has {' and '.join(str(len(side)) for side in band)} values; expected low and "
                f"high with {len(lines[name])} each, as many as the line"
            )
    _, axes = plt.subplots(figsize=(7.2, 3.4))
    draw_lines(axes, {name: (list(points), list(points.values())) for name, points in lines.items()}, bands)
    axes.set(xlabel=x_label, ylabel=y_label, title=title, yscale="log" if log else "linear")
    name_integers(axes)
    if ylim is not None:
        leave_room(axes, *ylim)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))  # beside the chart, where no line can be


def draw_lines(axes, lines, bands=None):
    """Draw lines on `axes`, each with a colour and a marker of its own, and the band about it where there is one.

    Args:
        axes: matplotlib axes, where they are drawn.
        lines: {name of a line: (x, y)}, no more than there are MARKERS.
        bands: {name of a line: (low, high)}.
    """
    for (name, (x, y)), marker in zip(lines.items(), MARKERS, strict=False):
        (line,) = axes.plot(x, y, marker=marker, ms=5, label=name)
        if bands and name in bands:
            axes.fill_between(x, *bands[name], color=line.get_color(), alpha=0.2, lw=0)


def leave_room(axes, low, high):
    """Show values from `low` to `high`, with room for the whole marker of a point at either end."""
    room = 0.04 * (high - low)
    axes.set_ylim(low - room, high + room)


def name_integers(axes):
    """Ticks at whole numbers only where all x values are whole, such as lengths."""
    if all(float(x).is_integer() for line in axes.lines for x in line.get_xdata()):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _check_number_of_lines(chart, lines):
    if len(lines) > len(MARKERS):
        raise ValueError(f"{chart} has {len(lines)} lines; expected {len(MARKERS)} or fewer, to tell apart")


@styled
def plot_attention(attn_weights, tokens, head=0, key_tokens=None):
    """Heat map of one head's attention weights; rows are queries, columns are keys.

    The figure stays open until its cell ends or `utils.page.caption` is called.

    Args:
        attn_weights: tensor or array (T_q, T_k), (H, T_q, T_k) or (1, H, T_q, T_k), values from 0 to 1.
        tokens: T_q labels for the queries; for the keys too, unless `key_tokens` is given.
        head: which head to show, where there are several.
        key_tokens: T_k labels for the keys.

    Raises:
        TypeError: `attn_weights` is not numbers.
        ValueError: more than one sample, a head that is not there, values that are not weights, or
            labels that do not match the weights in number.
    """
    weights = _one_map(attn_weights, head)
    keys = tokens if key_tokens is None else key_tokens
    _check_labels(weights.shape, tokens, keys, key_tokens is None)
    cell = 0.62 if max(weights.shape) <= MOST_NUMBERED else max(0.14, 0.42 - 0.007 * max(weights.shape))
    width, height = (1.8 + cell * n for n in reversed(weights.shape))
    _, axes = plt.subplots(figsize=(max(4.0, width + 0.8), max(2.2, height)))
    draw_weights(axes, weights, tokens, keys, colour_bar=True)


@styled
def plot_heads(attn_weights, tokens, key_tokens=None, titles=None, columns=4):
    """Heat maps of several heads beside each other, on one colour scale; the figure stays open, as in `plot_attention`.

    Args:
        attn_weights: as in `plot_attention`.
        tokens, key_tokens: as in `plot_attention`.
        titles: H titles; "head 0", "head 1" and so on when left out.
        columns: how many maps stand side by side at most.

    Raises:
        TypeError, ValueError: as in `plot_attention`, and not as many titles as heads.
    """
    maps = _maps(attn_weights)
    H, T_q, T_k = maps.shape
    keys = tokens if key_tokens is None else key_tokens
    titles = [f"head {head}" for head in range(H)] if titles is None else titles
    _check_labels((T_q, T_k), tokens, keys, key_tokens is None)
    if len(titles) != H:
        raise ValueError(f"titles has {len(titles)} entries but attn_weights has {H} heads")
    columns = min(columns, H)
    rows = -(-H // columns)
    cell = min(0.55, (6.4 / columns - 0.3) / T_k)  # inches; a page is about 8 wide
    size = (1.8 + columns * (0.3 + cell * T_k), 0.9 + rows * (0.5 + cell * T_q))
    figure = plt.figure(figsize=(max(4.0, size[0]), max(2.6, size[1])))
    upright = max(map(len, map(str, keys)), default=0) > 12 * cell  # more characters than fit under a cell
    room = tuple(max(1, int(cell * n / LABEL_HEIGHT)) for n in (T_q, T_k))
    grid = draw_heads(figure, maps, tokens, keys, columns, cell > 0.4, upright, room)
    for axes, title in zip(grid, titles, strict=True):
        axes.set_title(title)


def draw_heads(figure, maps, query_labels, key_labels, columns, numbers=False, upright=True, room=(MOST_LABELS,) * 2):
    """Draw the maps of heads (H, T_q, T_k) on a figure, `columns` beside each other, as `draw_weights` does.

    Args:
        figure: a figure or a part of one.
        maps: array (H, T_q, T_k).
        query_labels, key_labels: the names of rows and columns; shown at the edges of the grid only.
        columns: how many maps stand side by side.
        numbers: whether to write each weight into its cell.
        upright: whether the names of the columns are turned.
        room: the most names of rows and of columns for which there is room.

    Returns:
        The axes, one a head.
    """
    H = len(maps)
    grid = figure.subplots(-(-H // columns), columns, squeeze=False)
    for unused in grid.flat[H:]:
        unused.remove()
    for at, (axes, weights) in enumerate(zip(grid.flat, maps, strict=False)):
        image, _ = _draw_map(axes, weights, query_labels, key_labels, numbers, room)
        axes.set(xlabel="", ylabel="")
        axes.tick_params(labelleft=at % columns == 0, labelbottom=at + columns >= H)
        if upright:
            axes.tick_params(axis="x", rotation=90)
    _note_what_is_lost(query_labels, key_labels)
    figure.supxlabel(KEY_AXIS, size=11)
    figure.supylabel(QUERY_AXIS, size=11)
    add_colour_bar(figure, image, grid.flat[:H].tolist())
    return grid.flat[:H].tolist()


def draw_weights(axes, weights, query_labels, key_labels, colour_bar=False, numbers=None):
    """Draw weights (T_q, T_k) as a heat map on `axes`, on the course's one colour scale.

    Args:
        axes: matplotlib axes, where it is drawn.
        weights: array (T_q, T_k), from 0 to 1; NaN is a grey cell without a number.
        query_labels, key_labels: the names of rows and columns.
        colour_bar: whether to add the colour bar.
        numbers: whether to write each weight into its cell; by default where there are few cells.

    Returns:
        The image and its `Numbers` (None without numbers), for `update_weights`.
    """
    numbers = max(weights.shape) <= MOST_NUMBERED if numbers is None else numbers
    image, cell_numbers = _draw_map(axes, weights, query_labels, key_labels, numbers, (MOST_LABELS, MOST_LABELS))
    _note_what_is_lost(query_labels, key_labels)
    if colour_bar:
        add_colour_bar(axes.figure, image, axes)
    return image, cell_numbers


def _draw_map(axes, weights, query_labels, key_labels, numbers, room):
    """What `draw_weights` draws and returns, with names of up to `room` rows and columns, and no note."""
    colour_map = plt.colormaps[WEIGHT_COLOURS].with_extremes(bad=NOT_A_NUMBER)
    image = axes.imshow(weights, cmap=colour_map, vmin=0.0, vmax=1.0, aspect="equal", origin="upper")
    _name_cells(axes.yaxis, query_labels, room[0])
    _name_cells(axes.xaxis, key_labels, room[1])
    axes.set(xlabel=KEY_AXIS, ylabel=QUERY_AXIS)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    if not numbers:
        return image, None
    centres = [(column, row) for row, column in np.ndindex(*weights.shape)]
    cell_numbers = axes.add_collection(Numbers(centres, axes, size=9))
    update_weights(image, cell_numbers, weights)
    return image, cell_numbers


def _note_what_is_lost(query_labels, key_labels):
    """Print one note for a whole figure where its font lacks something."""
    if lost := [label for label in dict.fromkeys([*map(str, query_labels), *map(str, key_labels)]) if loses(label)]:
        print(f"Drawn with a box for what the font lacks: {', '.join(lost)}")


def add_colour_bar(figure, image, axes):
    """The colour bar of the weights in `image`, beside `axes`, which may be several."""
    bar = figure.colorbar(image, ax=axes, shrink=0.85)
    bar.set_label("weight")
    bar.outline.set_visible(False)


def update_weights(image, numbers, weights, silent=None):
    """Put other weights into a map that `draw_weights` made; no number where `silent` is True, or for NaN."""
    weights = np.asarray(weights)
    image.set_data(weights)
    if numbers is not None:
        behind = image.cmap(np.nan_to_num(weights, nan=1.0))
        blank = np.isnan(weights) if silent is None else np.isnan(weights) | silent
        numbers.set_values(np.where(blank, None, weights).ravel().tolist(), on_colours=behind)


def _name_cells(axis, labels, most):
    """Ticks at the centres of the cells, thinned evenly to `most` where there is no room for every label."""
    shown = [drawable(label) for label in labels]
    step = -(-len(shown) // most)
    ticks = range(0, len(shown), step)
    axis.set_ticks(ticks, [shown[i] for i in ticks], parse_math=False)
    room = 6 if len(shown) <= MOST_NUMBERED else 2  # characters that fit under a cell
    if axis.axis_name == "x" and max(map(len, shown), default=0) > room:
        plt.setp(axis.get_ticklabels(), rotation=45, ha="right", rotation_mode="anchor")


def _check_labels(shape, tokens, keys, keys_left_out):
    """A plain error unless there is a label for every query and every key of a map of this shape."""
    for name, labels, length in (("tokens", tokens, shape[0]), ("key_tokens", keys, shape[1])):
        if len(labels) != length:
            wanted = "key_tokens (left out, so tokens)" if name == "key_tokens" and keys_left_out else name
            raise ValueError(
                f"{wanted} has {len(labels)} labels but attn_weights has {length} "
                f"{'queries' if name == 'tokens' else 'keys'} (shape {shape})"
            )


def _one_map(attn_weights, head):
    """The weights of one head as an array (T_q, T_k), once they are seen to be weights."""
    maps = _maps(attn_weights)
    if not isinstance(head, Integral) or isinstance(head, bool):
        raise TypeError(f"head={head!r} is a {type(head).__name__}; expected the number of one head")
    if not -len(maps) <= head < len(maps):
        shape = tuple(np.shape(attn_weights))
        heads = "the map of one head" if len(shape) == 2 else f"so {len(maps)} heads"
        raise ValueError(f"head={head} is not there: attn_weights has shape {shape}, {heads}")
    return maps[head]


def _maps(attn_weights):
    """The weights of all heads as an array (H, T_q, T_k), once they are seen to be weights of one sample."""
    if not isinstance(attn_weights, torch.Tensor):
        numbers = np.array(attn_weights)
        if numbers.dtype.kind not in "fiub":
            raise TypeError(f"attn_weights is a {type(attn_weights).__name__}; expected a tensor of weights")
        attn_weights = torch.from_numpy(numbers)
    if attn_weights.is_complex():
        raise TypeError(f"attn_weights holds {attn_weights.dtype}; expected weights from 0 to 1")
    weights = attn_weights.detach().cpu().float()
    shape = tuple(weights.shape)
    if weights.dim() == 4 and shape[0] != 1:
        raise ValueError(f"attn_weights has shape {shape}, {shape[0]} samples; expected one, as in attn_weights[0]")
    if weights.dim() not in (2, 3, 4) or 0 in shape:
        raise ValueError(f"attn_weights has shape {shape}; expected (T_q, T_k), (H, T_q, T_k) or (1, H, T_q, T_k)")
    known = weights[~weights.isnan()]
    if known.numel() and (known.min() < -1e-3 or known.max() > 1 + 1e-3):
        raise ValueError(
            f"attn_weights runs from {known.min():.2f} to {known.max():.2f}; expected weights from 0 to 1. "
            "Are these the scores, before the softmax?"
        )
    return weights.reshape(-1, *shape[-2:]).numpy()
