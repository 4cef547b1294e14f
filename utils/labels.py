"""Short texts in figures: what the font can draw, and many texts drawn as one artist."""

import unicodedata
from functools import cache

import numpy as np
from matplotlib.collections import PathCollection
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D, IdentityTransform

FONT = "DejaVu Sans"  # comes with matplotlib, so a figure has the same letters everywhere
BOX = "\N{WHITE SQUARE}"


class Labels(PathCollection):
    """Many short texts on axes, drawn as one artist: far faster than as many texts."""

    def __init__(self, axes, size=10, align=0.5, transform=None):
        """Prepare the artist.

        Args:
            axes: the axes to which it is added afterwards.
            size: of the font, in points.
            align: the part of a text that is left of its place: 0, 0.5 for the middle, or 1.
            transform: of the places; data coordinates when left out.
        """
        transform = axes.transData if transform is None else transform
        super().__init__([], sizes=[1.0], offsets=[], offset_transform=transform, fc="black", lw=0, zorder=3)
        self.set_transform(IdentityTransform())
        self._size, self._align = size, align
        self.labels = []

    def show(self, labels, places=None):
        """Show texts at the (x, y) of their middle line; at the places of the last time when left out."""
        if places is not None:
            self.set_offsets(np.reshape(places, (-1, 2)))
        self.labels = list(labels)
        self.set_paths([_outline(label, self._size, self._align) for label in self.labels])


class Numbers(Labels):
    """Many short numbers on axes, as `Labels`."""

    def __init__(self, centres, axes, size=10):
        """`centres`: the (x, y) of each number in data coordinates; `size`: of the font, in points."""
        super().__init__(axes, size)
        self.set_offsets(centres)

    def set_values(self, values, digits=2, on_colours=None):
        """Show `values` in order (None as nothing), black or white by the colours (RGBA) behind them."""
        # Rounded first, and 0 added, so that a small negative number is not shown as -0.00.
        self.show("" if value is None else f"{round(value, digits) + 0.0:.{digits}f}" for value in values)
        if on_colours is not None:
            # Relative luminance; at 0.18 black and white have the same contrast with it.
            luminance = np.asarray(on_colours).reshape(-1, 4)[:, :3] ** 2.2 @ (0.2126, 0.7152, 0.0722)
            self.set_facecolor(["white" if dark else "black" for dark in luminance < 0.18])


@cache
def label_width(label, size):
    """The width of a short text as `Labels` draws it, in points."""
    return _outline(label, size, 0).get_extents().width


@cache
def _outline(label, size, align):
    """The outline of a short text in points, its place at the origin; y runs upwards on the page."""
    if not label:
        return Path([(0.0, 0.0)])
    outline = TextPath((0, 0), label, size=size, prop=FontProperties(family=FONT))
    extents = outline.get_extents()
    left = extents.x0 + align * (extents.x1 - extents.x0)
    return outline.transformed(Affine2D().translate(-left, -0.36 * size))


def drawable(label):
    """`label` in composed form, with a box for each character that the font of the figures lacks."""
    known = _font_characters()
    return "".join(c if ord(c) in known and c.isprintable() else BOX for c in _composed(label))


def _composed(label):
    return unicodedata.normalize("NFC", str(label))


def loses(label):
    """Whether a box stands for something in the drawn label."""
    return drawable(label) != _composed(label)


@cache
def _font_characters():
    return frozenset(get_font(findfont(FontProperties(family=FONT))).get_charmap())
