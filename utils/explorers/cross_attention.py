"""The interactive figures of lesson 06."""

import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.collections import PolyCollection

from utils.explorers.explorer import LABEL, Explorer, new_figure
from utils.explorers.words import fitted, listed, notice, quoted, shortened, told_unknown, typed_words, why_not_read
from utils.labels import Labels
from utils.plots import WEIGHT_COLOURS, colours, styled
from utils.tasks import BOS, EOS, Vocabulary
from utils.training import one_thread
from utils.transformer import Translator

DEFAULT, START = "I bought two beautiful red flowers", 3  # the sentence, and its step, that are shown first
MOST_READ = 15  # words of the reader's sentence
MOST_STEPS = 31  # of the decoder, EOS included
ROWS = 16  # that stand below each other; what is written goes on in a second column
LIKELY = 3  # tokens whose probability is shown
SENTENCES_KEPT = 8  # decoded ones, so that a move of the other controls computes nothing anew

# Places on the figure, in inches from its lower left corner.
WIDTH, HEIGHT = 8.2, 4.5
FIRST_ROW, LAST_ROW = 3.38, 0.36  # heights of the middles of the first and of the last of ROWS rows
MOST_APART = 0.27  # two rows, in a short sentence
WRITTEN, SOURCE, NEXT = 0.15, 3.3, 6.35  # left edges of the three parts
PART = 3.0  # the width of the first
NEXT_APART = 0.25  # the rows of the likely tokens
LEFT, RIGHT, BOTTOM, TOP = 6.65, 7.8, 0.26, 2.1  # of the map of the steps so far
SIZE, SMALL = 8.5, 7  # of letters, in points


@dataclass(frozen=True)
class _Decoding:
    """A sentence, decoded greedily: what the decoder was given and wrote at each of its T steps, and where it looked.

    Attributes:
        inputs, written: T tokens each; an input is what the step before wrote.
        likely: of each step, the LIKELY tokens with their probabilities, the one that is written first.
        rows: for each layer, the weights of both attentions, (H, T, T) and (H, T, S).
        ended: whether EOS was written.
    """

    inputs: list
    written: list
    likely: list
    rows: list
    ended: bool


@styled
def step_through_translation(model, source_vocabulary, target_vocabulary):
    """Type a sentence and step through its decoding: where the newest token looks, and what is written for it.

    Args:
        model: a trained `utils.transformer.Translator`, trained no further: what it wrote is kept.
        source_vocabulary, target_vocabulary: its Vocabularies.

    Returns:
        The Explorer. Its `head` is (layer, head), both counted from 0, with None for the average of the heads; layers
        are named from 1 on, as in the lessons.

    Raises:
        TypeError: `model` is no Translator, or a vocabulary no Vocabulary.
        ValueError: a vocabulary of another size than the model's.
    """
    _check_translator(model, source_vocabulary, target_vocabulary)
    most_read = min(MOST_READ, model.source_embedding.max_len)
    most_steps = min(MOST_STEPS, model.target_embedding.max_len)
    heads = {
        (layer, head): f"layer {layer + 1}, {'average of its heads' if head is None else f'head {head}'}"
        for layer, block in enumerate(model.decoder)
        for head in (None, *range(block.cross_attention.num_heads))
    }

    @lru_cache(SENTENCES_KEPT)
    def decoded(words):
        return _decode(model, source_vocabulary.encode(words), target_vocabulary, most_steps)

    refusals = {said: notice(*new_figure(WIDTH, HEIGHT), said) for said in ("no sentence", "too long")}
    picture = _Picture()

    def draw(text, step, head):
        words = typed_words(text, source_vocabulary)
        if refused := why_not_read(words, most_read):
            return refusals[refused[0]], refused[1]
        made, read = decoded(tuple(words)), [shortened(word) for word in words]
        T, at = len(made.written), min(step, len(made.written)) - 1
        layer, of_layer = head
        causal, cross = (
            weights.mean(axis=0) if of_layer is None else weights[of_layer] for weights in made.rows[layer]
        )  # (T, T) and (T, S)
        known = [word in source_vocabulary.ids for word in words]
        picture.show(made, at, causal, cross, read, known, heads[head])
        told = [f"Step {step} is beyond the end, so this is the last."] if step > T else []
        told.append(_told(made, at, causal, cross, read, heads[head].replace("average of", "averaged over")))
        if not made.ended:
            told.append(f"The model writes no <eos> in {T} steps, and the picture has room for no more.")
        return picture.figure, " ".join([*told, *told_unknown(words, source_vocabulary)])

    text = widgets.Text(
        value=DEFAULT, description="sentence", continuous_update=False, style=LABEL, layout={"width": "560px"}
    )
    step = widgets.IntSlider(value=START, min=1, max=most_steps, description="step", style=LABEL)

    def follow(change=None):
        """A sentence has steps of its own; the slider stays where it is, or goes to the last of them."""
        words = typed_words(text.value, source_vocabulary)
        if not why_not_read(words, most_read):
            steps = len(decoded(tuple(words)).written)
            with step.hold_trait_notifications():  # so that the page is told of both at once
                step.max, step.value = steps, min(step.value, steps)

    follow()
    text.observe(follow, names="value")  # registered before the explorer's own, so its last picture is of the new steps
    return Explorer(
        "Step through a translation",
        "In each step, which token asks, and which is written for it? Find a step in which the source word that is "
        "looked at stands further left than in the step before. Do all heads look there?",
        draw,
        text=text,
        step=step,
        head=widgets.Dropdown(
            options=[(name, head) for head, name in heads.items()], value=(len(model.decoder) - 1, None),
            description="weights of", style=LABEL, layout={"width": "330px"},
        ),
    )  # fmt: skip


def _check_translator(model, source_vocabulary, target_vocabulary):
    """A plain error unless `step_through_translation` can show these."""
    if not isinstance(model, Translator):
        raise TypeError(f"model is a {type(model).__name__}; expected a utils.transformer.Translator")
    for side, vocabulary, size in (
        ("source", source_vocabulary, model.source_embedding.token.num_embeddings),
        ("target", target_vocabulary, model.output.out_features),
    ):
        if not isinstance(vocabulary, Vocabulary):
            raise TypeError(f"{side}_vocabulary is a {type(vocabulary).__name__}; expected a utils.tasks.Vocabulary")
        if len(vocabulary) != size:
            raise ValueError(f"{side}_vocabulary has {len(vocabulary)} tokens but the model's {side} has {size}")


def _decode(model, ids, vocabulary, most_steps):
    """The _Decoding of a source."""
    with one_thread(), torch.no_grad():
        source = torch.tensor([ids], device=model.output.weight.device)
        ids_written = model.greedy(source, most_steps)[0]  # (1, T)
        ids_given = torch.cat([torch.full_like(ids_written[:, :1], BOS), ids_written[:, :-1]], dim=1)
        logits, rows = model.decode(ids_given, *model.encode(source))  # all steps at once, as in training
        if not logits.isfinite().all():
            raise ValueError("the model's logits hold NaN or infinity; expected those of a trained model")
        probabilities = logits[0].softmax(dim=-1)  # (T, target_size)
        candidates = probabilities.topk(LIKELY).indices.tolist()
    tokens = [unicodedata.normalize("NFC", token) for token in vocabulary.tokens]
    given, written, probabilities = ids_given[0].tolist(), ids_written[0].tolist(), probabilities.tolist()
    likely = []
    for one, others, row in zip(written, candidates, probabilities, strict=True):
        first = [one, *(other for other in others if other != one)][:LIKELY]
        likely.append([(tokens[other], row[other]) for other in first])
    return _Decoding(
        [tokens[one] for one in given],
        [tokens[one] for one in written],
        likely,
        [tuple(weights[0].cpu().numpy() for weights in of_layer) for of_layer in rows],
        EOS in written,
    )


class _Row(NamedTuple):
    """A word with a bar and its number behind it; places and lengths in inches.

    `left` is the left edge of the word, for which there is `room`, `y` the middle of the line, and `bar` the length
    that stands for 1. `number` stands before the word; without a weight there is nothing behind it.
    """

    left: float
    y: float
    number: str
    word: str
    room: float
    bar: float
    weight: float | None
    colour: tuple


class _Picture:
    """The figure of one step, and the parts of it that move."""

    def __init__(self):
        self.figure, axes = new_figure(WIDTH, HEIGHT)
        self.figure.set_layout_engine("none")  # the axes are the figure, in inches
        axes.set_position([0, 0, 1, 1])
        axes.set_axis_off()
        scale = {"cmap": WEIGHT_COLOURS, "vmin": 0.0, "vmax": 1.0, "aspect": "auto", "interpolation": "nearest"}
        axes.imshow(np.linspace(1, 0, 64)[:, None], extent=(RIGHT + 0.12, RIGHT + 0.22, BOTTOM, TOP), **scale)
        self._map = axes.imshow(np.zeros((1, 1)), **scale)
        axes.set(xlim=(0, WIDTH), ylim=(0, HEIGHT))
        for x, heading in ((WRITTEN, "1  Self-attention, causal"), (SOURCE, "2  Cross-attention"), (NEXT, "3  Writes")):
            axes.text(x, 4.0, heading, fontsize=10.5, weight="bold", va="center")
        for x, y, text in (
            (WRITTEN, 3.63, "keys: what is written (weights sum to 1)"),
            (SOURCE, 3.63, "keys: the source words (weights sum to 1)"),
            (NEXT, 3.63, "likeliest, with probability"),
            (WRITTEN, 0.12, "thick frame: the query, the newest token; dashed: what is written for it, not yet a key"),
            (NEXT, TOP + 0.42, "cross-attention so far"),
            (NEXT, TOP + 0.25, "(step ↓, source word →)"),
            (RIGHT + 0.26, TOP - 0.04, "1"),
            (RIGHT + 0.26, BOTTOM + 0.04, "0"),
        ):
            axes.text(x, y, text, fontsize=SIZE, color="0.35", va="center")
        self._heading = axes.text(WRITTEN, HEIGHT - 0.2, "", va="center", parse_math=False)
        self._tracks = PolyCollection([], fc="0.93", lw=0)
        self._bars = PolyCollection([], lw=0)
        self._queries = PolyCollection([], fc="none", ec="black", lw=2.0)
        self._new = PolyCollection([], fc="none", ec="black", lw=1.2, ls="--")
        self._room = PolyCollection([], fc="none", ec="0.8", lw=0.8)  # of the map
        self._words, self._weights, self._names = (Labels(axes, SIZE, align=0) for _ in range(3))
        self._numbers, self._steps, self._places = (Labels(axes, SMALL, align) for align in (1, 1, 0.5))
        parts = (self._tracks, self._bars, self._room, self._queries, self._new, self._words, self._weights)
        grey = (self._names, self._numbers, self._steps, self._places)
        for part in (*parts, *grey):
            axes.add_collection(part, autolim=False)
        for part in grey:
            part.set_facecolor("0.35")
        for part in (self._words, self._weights, *grey):
            part.set_snap(False)  # or letters of straight lines, an I or a box, lose those that fall between pixels
        for moving in (self._map, *parts, *grey, self._heading):
            moving.set_animated(True)

    def show(self, made, at, causal, cross, read, known, name):
        """Show a step.

        Args:
            made: the _Decoding; `at`: its step, counted from 0.
            causal, cross: the weights of the T queries, (T, T) on what is written and (T, S) on the source words.
            read: the source words, shortened; `known`: whether each is in the vocabulary.
            name: of the layer and head.
        """
        T, S = cross.shape
        # Rows stand the same way in all steps of a sentence, the row of what its last step writes included.
        apart = min(MOST_APART, (FIRST_ROW - LAST_ROW) / (max(min(T + 1, ROWS), S) - 1))
        columns = -(-(T + 1) // ROWS)
        room, bar = (0.84, 1.2) if columns == 1 else (0.54, 0.26)
        written, source, likely = [], [], []
        for row, token in enumerate([*made.inputs[: at + 1], made.written[at]]):
            column, line = divmod(row, ROWS)
            left, y = WRITTEN + 0.25 + column * PART / columns, FIRST_ROW - line * apart
            weight = causal[at, row] if row <= at else None  # the token written now is no key yet
            written.append(_Row(left, y, str(row + 1), fitted(token, SIZE, room), room, bar, weight, colours()[1]))
        for row, (word, there) in enumerate(zip(read, known, strict=True)):
            y, word = FIRST_ROW - row * apart, fitted(word, SIZE, 1.1 if there else 0.6) + " (<unk>)" * (not there)
            source.append(_Row(SOURCE + 0.25, y, str(row + 1), word, 1.1, 0.94, cross[at, row], colours()[0]))
        for row, (token, probability) in enumerate(made.likely[at]):
            y, word = FIRST_ROW - row * NEXT_APART, fitted(token, SIZE, 0.6)
            likely.append(_Row(NEXT, y, "", word, 0.6, 0.6, probability, colours()[2]))
        (query, new), rows = written[-2:], [*written, *source, *likely]

        tall = min(0.2, 0.8 * apart)  # of a bar
        bars = [(row, row.left + row.room + 0.09) for row in rows if row.weight is not None]
        self._tracks.set_verts([_box(left, row.y, row.bar, tall) for row, left in bars])
        self._bars.set_verts([_box(left, row.y, row.bar * row.weight, tall) for row, left in bars])
        self._bars.set_facecolor([row.colour for row, _ in bars])
        self._weights.show([f"{row.weight:.2f}" for row, _ in bars], [(x + row.bar + 0.05, row.y) for row, x in bars])
        for frames, row in ((self._queries, query), (self._new, new)):
            frames.set_verts([_box(row.left - 0.05, row.y, row.room + 0.08, min(0.21, 0.94 * apart))])
        self._words.show([row.word for row in rows], [(row.left, row.y) for row in rows])
        self._numbers.show([row.number for row in rows], [(row.left - 0.09, row.y) for row in rows])
        self._names.show([name, name], [(WRITTEN, 3.8), (SOURCE, 3.8)])
        self._show_map(cross[: at + 1], T)

        most = source[cross[at].argmax()]
        self._heading.set_text(
            f'Step {at + 1} of {T}: "{query.word}" looks most at "{most.word}" and writes "{new.word}"'
        )

    def _show_map(self, so_far, T):
        """Show the rows of the steps so far (steps, S) in a map with room for those of all T steps."""
        steps, S = so_far.shape
        wide, tall = min(0.2, (RIGHT - LEFT) / S), min(0.2, (TOP - BOTTOM) / T)  # of a cell
        self._map.set_data(so_far)
        self._map.set_extent((LEFT, LEFT + S * wide, TOP - steps * tall, TOP))
        self._room.set_verts([_box(LEFT, TOP - T * tall / 2, S * wide, T * tall)])
        numbered = _numbered(T, tall)
        self._steps.show(map(str, numbered), [(LEFT - 0.06, TOP - (step - 0.5) * tall) for step in numbered])
        numbered = _numbered(S, wide)
        self._places.show(map(str, numbered), [(LEFT + (place - 0.5) * wide, TOP + 0.1) for place in numbered])


def _box(left, y, width, height):
    """The corners of a box, the middle of its height at y, for a PolyCollection."""
    low, high, right = y - height / 2, y + height / 2, left + width
    return [(left, low), (right, low), (right, high), (left, high)]


def _numbered(count, cell):
    """Those of the numbers from 1 that are written at cells of this size, in inches."""
    return range(1, count + 1) if cell > 0.13 else [1, *range(5, count + 1, 5)]


def _told(made, at, causal, cross, read, name):
    """What happens in a step, in words."""
    T, inputs, (written, *others) = len(made.written), made.inputs, made.likely[at]
    next_ones = listed([f'"{token}" {probability:.2f}' for token, probability in others])
    ends = ", which ends the sentence" if at == T - 1 and made.ended else ""
    whence = f"which step {at} wrote" if at else "before anything is written"
    sums = [f"{row.sum():.2f}" for row in (causal[at], cross[at])]
    sums = f"both rows sum to {sums[0]}" if sums[0] == sums[1] else f"the rows sum to {listed(sums)}"
    return (
        f'Step {at + 1} of {T} writes "{written[0]}" ({written[1]:.2f}; next likely: {next_ones}){ends}. Its query '
        f'stands at input {at + 1}, "{inputs[at]}", {whence}. In {name}, it puts most, {causal[at].max():.2f}, on '
        f"{quoted(inputs[: at + 1], causal[at].argmax(), 'input')} of what is written, and {cross[at].max():.2f} on "
        f"{quoted(read, cross[at].argmax())} of the source; {sums}."
    )
