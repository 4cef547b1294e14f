"""Words in a figure, as running text some of which is framed, in the sentence below it, and typed by the reader."""

import re
import unicodedata

from matplotlib.collections import PatchCollection
from matplotlib.patches import Rectangle

from utils.labels import Labels, drawable, label_width

SIZE = 10.5  # of the letters, in points
LINE = 0.245  # from one line to the next, in inches
GAP = 0.11  # between two words, in inches
PAD = 0.035  # between a word and its frame, in inches
CUT = "…"  # stands for the words, or the letters of a word, that have no room
LONGEST_WORD = 14  # characters of a word of the reader's own that are shown


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


def quoted(words, at, kind="word"):
    """A word in quotation marks, with its place where there are two of it."""
    return f'"{words[at]}"' + (f" ({kind} {at + 1})" if words.count(words[at]) > 1 else "")


def shortened(word):
    """A word with the letters that are shown of it."""
    return word if len(word) <= LONGEST_WORD else f"{word[: LONGEST_WORD - 1]}{CUT}"


def fitted(word, size, width):
    """A word as it is drawn in letters of this size, cut where it would be wider than this, in inches."""
    word = drawable(shortened(word))
    # To measure a word takes some milliseconds, and hardly a letter is wider than the size of the letters.
    if len(word) * size <= 72 * width or label_width(word, size) <= 72 * width:
        return word
    while word and label_width(word + CUT, size) > 72 * width:
        word = word[:-1]
    return word + CUT


def typed_words(text, vocabulary):
    """The words of a typed sentence without punctuation, written as the vocabulary has them where it does."""
    known = {unicodedata.normalize("NFC", token): token for token in vocabulary.ids}
    typed = re.findall(r"\w+(?:['’-]\w+)*", unicodedata.normalize("NFC", text))
    return [next((known[form] for form in (word, word.lower(), word.upper()) if form in known), word) for word in typed]


def told_unknown(words, vocabulary):
    """A sentence that names the words that are not in the vocabulary, in a list that is empty where all are."""
    unknown = [shortened(word) for word in dict.fromkeys(words) if word not in vocabulary.ids]
    return [f"Read as <unk>, not in the vocabulary: {', '.join(unknown)}."] if unknown else []


def why_not_read(words, most):
    """Why a typed sentence cannot be shown, as a few words for the figure and a sentence; None where it can."""
    if not words:
        return "no sentence", "There is no word to translate: type a sentence in English."
    if len(words) > most:
        return (
            "too long",
            f"The sentence has {len(words)} words and the picture has room for {most}: type a shorter one.",
        )
    return None


def notice(figure, axes, said):
    """The figure with nothing but a few words in it."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, said, ha="center", va="center", size=14, color="0.35", transform=axes.transAxes)
    return figure
