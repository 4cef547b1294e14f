"""The interactive figures of lesson 02."""

import ipywidgets as widgets
import numpy as np
import traitlets

from utils.explorers.explorer import LABEL, Explorer, buttons_style, new_figure
from utils.explorers.words import (
    LINE,
    Words,
    lines_needed,
    notice,
    quoted,
    shortened,
    told_unknown,
    typed_words,
    why_not_read,
    word_width,
)
from utils.grammar import Pair
from utils.labels import Labels, drawable
from utils.plots import colours, draw_weights, styled
from utils.training import translate

LEFT, WIDTH = 0.15, 7.9  # of the words above the bars, in inches
MOST_GUESSED = 8  # source tokens for which a guess can be made; each has a slider
STRONGEST = 10  # the highest value of such a slider
MOST_READ = 20  # tokens of a sentence of the reader's own
MOST_WRITTEN = 40  # tokens of its translation that have a row in the map
DEFAULT = "my friend will buy two beautiful red flowers"


class WeightSliders(widgets.HBox):
    """A slider for each word, that says how much weight the word should have.

    `value` is a tuple of MOST_GUESSED whole numbers from 0 to STRONGEST, 0 where there is no word.
    """

    value = traitlets.Tuple()

    def __init__(self, words):
        self.sliders = [
            widgets.IntSlider(min=0, max=STRONGEST, style={"description_width": "110px"}, layout={"width": "310px"})
            for _ in range(MOST_GUESSED)
        ]
        self._setting = False
        super().__init__(self.sliders, layout={"flex_flow": "row wrap", "width": "100%"})
        for slider in self.sliders:
            slider.observe(self._read, names="value")
        self.ask(words)

    def ask(self, words):
        """Name these words, the rest of the sliders hidden, and put all at 1; `value` changes once."""
        self._setting = True
        for at, slider in enumerate(self.sliders):
            slider.description = words[at] if at < len(words) else ""
            slider.layout.display = "flex" if at < len(words) else "none"
            slider.value = int(at < len(words))
        self._setting = False
        self._read()

    def _read(self, change=None):
        if not self._setting:
            self.value = tuple(slider.value for slider in self.sliders)


@styled
def predict_the_alignment(pairs, translations):
    """Guess where a model looks while it writes one token, and then compare.

    Args:
        pairs: Pairs of up to MOST_GUESSED source tokens.
        translations: a `utils.training.Translation` of each, right and with weights, all by one model.

    Returns:
        The Explorer.

    Raises:
        ValueError: no pairs, not as many translations, a source that is too long, or a translation that is not right
            or has no weights.
    """
    if not pairs or len(pairs) != len(translations):
        raise ValueError(f"pairs has {len(pairs)} and translations has {len(translations)}; expected as many, not none")
    for at, (pair, made) in enumerate(zip(pairs, translations, strict=True)):
        if len(pair.source) > MOST_GUESSED:
            raise ValueError(f"pairs[{at}] has {len(pair.source)} source tokens; expected {MOST_GUESSED} or fewer")
        if made.weights is None:
            raise ValueError(f"translations[{at}] has no weights; expected those of a model with attention")
        if tuple(made.tokens) != pair.target:
            raise ValueError(f"translations[{at}] is not the target of pairs[{at}]; expected right translations")
    rows = max(len(pair.source) for pair in pairs)
    lines = max(lines_needed(pair.target, WIDTH) for pair in pairs)
    above, longest = 0.45 + LINE * lines, max(word_width(word) for pair in pairs for word in pair.source)  # inches
    figure, axes = new_figure(8.2, above + 1.1 + 0.32 * rows)
    top = figure.get_figheight()
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - above / top))  # the words stand above the axes
    axes.text(LEFT, top - 0.2, "written so far, and framed the token in question", fontsize=9, color="0.35",
              transform=figure.dpi_scale_trans, in_layout=False)  # fmt: skip
    written = Words(axes, LEFT, top - 0.42, WIDTH, lines)
    guessed = axes.barh(range(rows), [0.0] * rows, -0.4, align="edge", fc=colours()[0], ec="none", label="your guess")
    learned = axes.barh(
        range(rows), [0.0] * rows, 0.4, align="edge", fc="white", ec="black", hatch="////", lw=0.8,
        label="the model (hatched)",
    )  # fmt: skip
    axes.set(xlim=(0, 1.08), ylim=(rows - 0.5, -0.5), xlabel="weight (bars of one kind sum to 1)", yticks=[])
    axes.set_ylabel("key: source token", labelpad=72 * longest + 12)
    figure.legend(loc="upper right", ncols=2, borderaxespad=0.3).set_in_layout(False)
    names = Labels(axes, align=1)
    numbers = Labels(axes, size=8.5, align=0)
    for labels in (names, numbers):
        axes.add_collection(labels, autolim=False)
    for moving in (*guessed, *learned, names, numbers):
        moving.set(animated=True, clip_on=False)

    def draw(sentence, step, guess, reveal):
        source, target = pairs[sentence].source, pairs[sentence].target
        at = min(step, len(target)) - 1
        total = sum(guess[: len(source)])
        mine = [number / total if total else 0.0 for number in guess[: len(source)]]
        model = translations[sentence].weights[at].tolist()
        written.show([*target[: at + 1]], framed=[at])
        names.show([drawable(word) for word in source], [(-0.012, row) for row in range(len(source))])
        texts, places = [], []
        for bars, values, seen, off in ((guessed, mine, total > 0, -0.2), (learned, model, reveal, 0.2)):
            for row, bar in enumerate(bars):
                there = seen and row < len(source)
                bar.set_visible(there)
                if there:
                    bar.set_width(values[row])
                    texts.append(f"{values[row]:.2f}")
                    places.append((values[row] + 0.008, row + off))
        numbers.show(texts, places)
        told = [f'Token {at + 1} of {len(target)} is "{target[at]}".']
        if total:
            given = ", ".join(f"{weight:.2f} {word}" for weight, word in zip(mine, source, strict=True) if weight)
            told.append(f"Your guess is {given}; its largest is {_largest(mine, source)}.")
        else:
            told.append("Your guess is missing: raise the slider of one word or more.")
        if reveal and total:
            shared = sum(map(min, mine, model))
            told.append(
                f"You and the model share {shared:.2f} of the weight; its largest is {_largest(model, source)}."
            )
        elif reveal:
            told.append(f"The model's largest is {_largest(model, source)}.")
        return figure, " ".join(told)

    sentence = widgets.Dropdown(
        options=[(f"{at + 1}. {' '.join(pair.source)}", at) for at, pair in enumerate(pairs)],
        description="sentence", style=LABEL, layout={"width": "480px"},
    )  # fmt: skip
    step = widgets.IntSlider(value=1, min=1, max=len(pairs[0].target), description="token", style=LABEL)
    guess = WeightSliders(pairs[0].source)
    reveal = widgets.ToggleButtons(
        options=[("your guess", False), ("with the model's weights", True)],
        description="show", style=buttons_style(["with the model's weights"]),
    )  # fmt: skip

    def begin_anew(change):
        """Another token is another question: what was revealed is hidden, and the guess is an even one."""
        reveal.value = False
        guess.ask(pairs[sentence.value].source)

    def change_sentence(change):
        begin_anew(change)
        step.max = len(pairs[sentence.value].target)

    # Registered before the explorer's own, so its last picture is of the new question.
    sentence.observe(change_sentence, names="value")
    step.observe(begin_anew, names="value")
    return Explorer(
        "Predict the alignment",
        "The framed token is the next to be written. Which source tokens does the model look at to write it? "
        "Give them weight with the sliders, then show the model's.",
        draw,
        sentence=sentence,
        step=step,
        guess=guess,
        reveal=reveal,
    )


def _largest(weights, words):
    """The largest of these weights as a sentence tells it, with the words that have it."""
    most = max(weights)
    best = [at for at, weight in enumerate(weights) if weight == most]
    if len(best) == len(words) > 1:
        return f"{most:.2f}, on every word"
    return f"{most:.2f}, on " + " and ".join(quoted(words, at) for at in best)


@styled
def translate_your_own(models, source_vocabulary, target_vocabulary):
    """Type a sentence; see what each model makes of it, and where it looked.

    Args:
        models: by name, a trained `utils.models.Seq2Seq` with attention.
        source_vocabulary, target_vocabulary: the Vocabularies of all of them.

    Returns:
        The Explorer.

    Raises:
        ValueError: a model without attention.
    """
    for name, model in models.items():
        if model.attention is None:
            raise ValueError(f"models[{name!r}] has no attention; expected models that show where they look")

    @styled
    def draw(text, model):
        figure, axes = new_figure(8.2, 5.2)
        figure.set_layout_engine("compressed")  # a map of square cells rarely fills the figure; this centres it
        words = typed_words(text, source_vocabulary)
        if refused := why_not_read(words, MOST_READ):
            return notice(figure, axes, refused[0]), refused[1]
        (made,) = translate(models[model], [Pair(tuple(words), (), ())], source_vocabulary, target_vocabulary)
        read = [shortened(word) for word in words]
        told = [f'With {model}, "{" ".join(read)}" becomes "{" ".join(made.tokens)}".']
        if made.tokens:
            tokens, weights = made.tokens[:MOST_WRITTEN], made.weights[:MOST_WRITTEN].numpy()
            if len(made.tokens) > MOST_WRITTEN:
                told.append(f"The map has its first {MOST_WRITTEN} tokens of {len(made.tokens)}.")
            # A box for what the font lacks here already: `draw_weights` would print a note, and nobody would see it.
            draw_weights(axes, weights, tokens, [drawable(word) for word in read], colour_bar=True)
            axes.set(xlabel="key: word read", ylabel="query: token written (each row sums to 1)")
            axes.set_title(f"{model}: where each token looks")
            row, column = np.unravel_index(weights.argmax(), weights.shape)
            told.append(
                f"The strongest link is {weights[row, column]:.2f}, from {quoted(tokens, row)} to "
                f"{quoted(read, column)}."
            )
        else:
            notice(figure, axes, "nothing written")
        return figure, " ".join([*told, *told_unknown(words, source_vocabulary)])

    return Explorer(
        "A sentence of your own",
        "Type a sentence and press Enter. Where do both scores look at the same words, and what becomes of a word "
        "that is not in the vocabulary?",
        draw,
        text=widgets.Text(
            value=DEFAULT, description="sentence", continuous_update=False, style=LABEL, layout={"width": "560px"}
        ),
        model=widgets.ToggleButtons(
            options=[(name, name) for name in models], description="score", style=buttons_style(models)
        ),
    )
