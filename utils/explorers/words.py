"""Words in a figure, as running text some of which is framed, and in the sentence below it."""

from matplotlib.collections import PatchCollection
from matplotlib.patches import Rectangle

from utils.labels import Labels, drawable, label_width

SIZE = 10.5  # of the letters, in points
LINE = 0.245  # from one line to the next, in inches
GAP = 0.11  # between two words, in inches
PAD = 0.035  # between a word and its frame, in inches
CUT = "…"  # stands for the words that have no room


class Words:
    """A paragraph of words on a figure, drawn as parts that move.

    Places are in inches from the figure's lower left corner, so the layout of the axes does not touch them.

    Args:
        axes: the matplotlib axes that own the parts.
        left, top: where the first line begins; `top` is its middle.
        width: of the lines.
        lines: how many there may be; words beyond them are left out, and CUT says so.
        colour: of a framed word, and of its frame.
    """

    def __init__(self, axes, left, top, width, lines, colour="black"):
        self._left, self._top, self._width, self._lines, self._colour = left, top, width, lines, colour
        inches = axes.figure.dpi_scale_trans
        self.frames = PatchCollection([], fc="none", ec=colour, lw=1.3, transform=inches)
        self.labels = Labels(axes, SIZE, align=0, transform=inches)
        for part in (self.frames, self.labels):
            axes.add_collection(part, autolim=False)
            part.set(animated=True, in_layout=False, clip_on=False)

    def show(self, words, framed=(), silent=()):
        """Show words, those at the positions `framed` in a frame, those at `silent` as their empty place."""
        words = [drawable(word) for word in words]
        kept, places = len(words), _places(words, self._width)
        while kept and places[-1][1] >= self._lines:
            kept -= 1
            words = [*words[:kept], CUT]
            places = _places(words, self._width)
        places = [(self._left + x, self._top - line * LINE) for x, line in places]
        marked = [at for at in framed if at < kept]
        frames = [Rectangle((x - PAD, y - 0.11), word_width(words[at]) + 2 * PAD, 0.22)
                  for at, (x, y) in enumerate(places) if at in marked]  # fmt: skip
        self.frames.set_paths(frames)
        self.labels.show(["" if at in silent and at < kept else word for at, word in enumerate(words)], places)
        self.labels.set_facecolor([self._colour if at in marked else "black" for at in range(len(words))])


def lines_needed(words, width):
    """How many lines of this width the words take."""
    return 1 + _places([drawable(word) for word in words], width)[-1][1] if words else 1


def _places(words, width):
    """Where each word stands in lines of this width: inches from the left, and the number of the line."""
    places, x, line = [], 0.0, 0
    for word in words:
        if x and x + word_width(word) > width:
            x, line = 0.0, line + 1
        places.append((x, line))
        x += word_width(word) + GAP
    return places


def word_width(word):
    """The width of a drawn word, in inches."""
    return label_width(word, SIZE) / 72


def listed(parts):
    """Parts as a sentence lists them: "a, b and c"."""
    *others, last = parts
    return f"{', '.join(others)} and {last}" if others else last


def quoted(words, at):
    """A word in quotation marks, with its place where there are two of it."""
    return f'"{words[at]}"' + (f" (word {at + 1})" if words.count(words[at]) > 1 else "")
