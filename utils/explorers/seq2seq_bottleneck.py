"""The interactive figure of lesson 01."""

from collections import defaultdict
from itertools import zip_longest

import ipywidgets as widgets

from utils.explorers.explorer import LABEL, Explorer, buttons_style, new_figure
from utils.explorers.words import LINE, Words, lines_needed
from utils.plots import MARKERS, colours, draw_lines, leave_room, name_integers, styled
from utils.training import accuracy_by_length

SENTENCES = 5  # of each length, how many can be looked at one by one
LEFT, WIDTH, MOST_LINES = 0.15, 4.1, 4  # of the paragraphs, in inches and lines


@styled
def translations_by_length(models, pairs):
    """Sentences of each length, what each model makes of them, and how many of that length it gets right.

    Args:
        models: by name, a list of `utils.training.Translation`, one for each of the pairs.
        pairs: the Pairs that were translated, none of them seen in training. A length is on offer where there are
            SENTENCES different sentences of it.

    Returns:
        The Explorer.

    Raises:
        ValueError: more models than there are markers, not as many translations as pairs, or no length on offer.
    """
    if not 1 <= len(models) <= len(MARKERS):
        raise ValueError(f"models has {len(models)} models; expected 1 to {len(MARKERS)}, to tell apart")
    for name, made in models.items():
        if len(made) != len(pairs):
            raise ValueError(f"models[{name!r}] has {len(made)} translations but pairs has {len(pairs)}")
    different = defaultdict(dict)  # for each length, by its source, the place of a sentence among the pairs
    for at, pair in enumerate(pairs):
        different[len(pair.source)].setdefault(pair.source, at)
    places = {length: list(found.values()) for length, found in sorted(different.items()) if len(found) >= SENTENCES}
    if not places:
        raise ValueError(f"pairs has no length with {SENTENCES} different sentences")
    measured = {name: accuracy_by_length(made, pairs) for name, made in models.items()}
    shown = [at for found in places.values() for at in found[:SENTENCES]]

    # Each paragraph has as many lines as its longest text needs, so that nothing moves from one sentence to the next.
    texts = [
        [pairs[at].source for at in shown],
        [pairs[at].target for at in shown],
        [_with_gaps(made[at].tokens, pairs[at].target) for made in models.values() for at in shown],
    ]
    lines = [min(MOST_LINES, max(lines_needed(words, WIDTH) for words in group)) for group in texts]

    figure, (text_axes, line_axes) = new_figure(
        8.4, max(3.7, LINE * sum(lines) + 0.45 * len(lines) + 0.1), columns=2, width_ratios=(1.35, 1)
    )
    text_axes.set_axis_off()
    top, blocks = figure.get_figheight() - 0.25, []
    for heading, most in zip(("source", "right translation", ""), lines, strict=True):
        title = text_axes.text(LEFT, top, heading, fontsize=9, color="0.35", transform=figure.dpi_scale_trans)
        title.set_in_layout(False)
        blocks.append((title, Words(text_axes, LEFT, top - 0.2, WIDTH, most, colours()[3])))
        top -= LINE * most + 0.45
    (_, source_words), (_, target_words), (writer, written_words) = blocks
    writer.set_animated(True)
    draw_lines(
        line_axes,
        {name: (list(places), [right[n].sentences for n in places]) for name, right in measured.items()},
    )
    (ring,) = line_axes.plot([], [], "o", ms=14, mfc="none", mec="black", mew=1.5, animated=True, label="chosen length")
    ring.set_clip_on(False)
    line_axes.set(xlabel="source tokens", ylabel="share of sentences right", title="Every token right, by length")
    leave_room(line_axes, 0, 1)
    name_integers(line_axes)
    line_axes.legend(loc="upper left", bbox_to_anchor=(-0.1, -0.2), ncols=2)

    def draw(model, length, sentence):
        at = places[length][sentence]
        pair, written = pairs[at], models[model][at].tokens
        wrong = [place for place, (one, other) in enumerate(zip_longest(written, pair.target)) if one != other]
        source_words.show(pair.source)
        target_words.show(pair.target)
        writer.set_text(f"{model} writes (framed: wrong; an empty frame: missing)")
        written_words.show(_with_gaps(written, pair.target), wrong, silent=range(len(written), len(pair.target)))
        right = measured[model][length]
        ring.set_data([length], [right.sentences])
        return figure, (
            f'Sentence {sentence + 1}, "{" ".join(pair.source)}", has {length} tokens; {model} writes '
            f"{_verdict(written, pair.target, wrong)}. Of {right.count} sentences of this length it gets "
            f"{right.sentences:.2f} right."
        )

    lengths = list(places)
    return Explorer(
        "Translations by length",
        "Raise the length with each of the models, and look at several sentences. Where in a sentence do the "
        "mistakes begin, and at which length does each model begin to make them?",
        draw,
        model=widgets.ToggleButtons(
            options=[(name, name) for name in models], description="model", style=buttons_style(models)
        ),
        length=widgets.SelectionSlider(
            options=[(str(length), length) for length in lengths],
            value=lengths[len(lengths) // 2],
            description="length",
            style=LABEL,
        ),
        sentence=widgets.SelectionSlider(
            options=[(str(at + 1), at) for at in range(SENTENCES)], value=0, description="sentence", style=LABEL
        ),
    )


def _with_gaps(written, target):
    """What was written, and after it the tokens of the target that are missing at the end."""
    return [*written, *target[len(written) :]]


def _verdict(written, target, wrong):
    """How much of a translation is right and where it goes wrong, in words."""
    if not wrong:
        return f"all {len(target)} target tokens right"
    right = sum(one == other for one, other in zip(written, target, strict=False))
    first = wrong[0]
    if first == len(written):
        end = f"ends after token {first}" if first else "nothing else"
    elif first == len(target):
        end = "does not end there"
    else:
        end = f"is first wrong at token {first + 1}"
    return f"{right} of {len(target)} target tokens right and {end}"
