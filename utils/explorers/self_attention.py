"""The interactive figures of lesson 05."""

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.patches import Patch

from utils import pronouns
from utils.explorers.explorer import LABEL, Explorer, buttons_style, new_figure
from utils.explorers.words import listed, quoted
from utils.labels import Labels, drawable, label_width
from utils.plots import colours, pale, styled
from utils.pronouns import ADJECTIVE, FIRST, IT, SECOND, VERB, pronoun_sentence, pronoun_vocabulary, referent

WORDS = len(pronouns.TEMPLATE)
START = {"first": "animal", "verb": "cross", "second": "street", "adjective": "tired"}
BELOW, LOWEST = -0.13, -0.32  # the heights of the words and of the other adjective, under bars from 0 to 1
MOST_TOKENS = 12  # that stand side by side and can be read
INPUT, OUTPUT, HIGHEST = 2.75, 1.45, 0.85  # heights of the two rows of tokens and of the highest bar, in inches
CHANGE = 1.0  # what is added to every feature of the changed token


@styled
def change_the_adjective(model, head=None):
    """Where *it* looks in a sentence of `utils.pronouns`, and where with an adjective that tells of the other noun.

    Args:
        model: function of token ids (B, 11) that returns the logits (B, vocabulary) of the noun that *it* is, and a
            list of the weights (B, H, 11, 11) of each layer.
        head: (layer, head), both counted from 0, the one that is shown first; head 0 of the last layer when left out.
            Layers are named from 1 on, as in the lesson.

    Returns:
        The Explorer.

    Raises:
        TypeError: `model` cannot be called, or returns something else.
        ValueError: results of another shape, or a head that is not there.
    """
    if not callable(model):
        raise TypeError(f"model is a {type(model).__name__}; expected a function of token ids")
    _, weights = _answers(model, [pronoun_sentence(**START)])
    heads = [(layer, at) for layer, of_layer in enumerate(weights) for at in range(of_layer.size(1))]
    head = (len(weights) - 1, 0) if head is None else head
    if head not in heads:
        raise ValueError(f"head={head!r} is not there; expected (layer, head), one of {listed(map(str, heads))}")
    places = np.arange(WORDS)
    looks = ({"fc": colours()[0], "ec": "none"}, {"fc": "white", "ec": "black", "hatch": "////", "lw": 0.8})

    figure, axes = new_figure(8.2, 3.6)
    axes.set(xlim=(-0.5, WORDS - 0.5), ylim=(LOWEST - 0.1, 1.1), xticks=[], yticks=(0, 0.5, 1))
    axes.set(xlabel="key: the words of the sentence; the one in a thick frame is the query")
    axes.set_ylabel("weight (each kind sums to 1)", y=0.6)
    axes.spines["left"].set_bounds(0, 1)
    axes.spines["bottom"].set_visible(False)
    axes.axhline(0, color="black", lw=0.8)
    frames = [(places, BELOW, {"ec": "0.75"}), ([ADJECTIVE], LOWEST, {"ec": "0.5", "ls": ":"})]
    for columns, height, look in (*frames, ([IT], BELOW, {"ec": "black", "lw": 2.2})):
        axes.add_collection(PolyCollection(_boxes(columns, height, 0.94, 0.15), fc="none", **look), autolim=False)
    axes.text(ADJECTIVE - 0.6, LOWEST, "or, instead", fontsize=9, color="0.35", ha="right", va="center")
    axes.legend(
        [Patch(**look) for look in looks], ["this sentence", "with the other adjective (hatched)"],
        loc="lower left", ncols=2, borderaxespad=0, bbox_to_anchor=(0, 0.01),
    )  # fmt: skip
    groups = [PolyCollection([], **look) for look in looks]
    words, numbers = Labels(axes, size=8.5), Labels(axes, size=7.5)
    heading = axes.set_title("")
    for part in (*groups, words, numbers):
        axes.add_collection(part, autolim=False)
    for moving in (*groups, words, numbers, heading):
        moving.set_animated(True)

    def draw(first, verb, second, adjective, head):
        instead = _other_adjective(second, adjective)
        sentences = [pronoun_sentence(first, verb, second, either) for either in (adjective, instead)]
        said, weights = _answers(model, sentences)
        layer, at = head
        rows = weights[layer][:, at, IT].tolist()  # two of WORDS weights
        bars = [list(zip(places + off, row, strict=True)) for off, row in zip((-0.2, 0.2), rows, strict=True)]
        for group, of_group in zip(groups, bars, strict=True):
            group.set_verts([_box(column, weight / 2, 0.38, weight) for column, weight in of_group])
        written = [(column, weight) for column, weight in bars[0] + bars[1] if weight >= 0.005]  # those not 0.00
        numbers.show([f"{weight:.2f}" for _, weight in written], [(column, top + 0.04) for column, top in written])
        words.show([*sentences[0], instead], [*((place, BELOW) for place in places), (ADJECTIVE, LOWEST)])
        most = [int(np.argmax(row)) for row in rows]
        seen, then = (quoted(sentence, place) for sentence, place in zip(sentences, most, strict=True))
        turn = f'{seen}, with "{instead}" too' if most[0] == most[1] else f'{seen}, with "{instead}" at {then}'
        heading.set_text(f'Layer {layer + 1}, head {at}: "it" looks most at {turn}')
        nouns = [quoted(sentences[0], place) for place in (FIRST, SECOND)]
        (first_one, second_one), other = ([f"{row[place]:.2f}" for place in (FIRST, SECOND)] for row in rows)
        return figure, (
            f'"{verb}", "{adjective}": in layer {layer + 1}, head {at}, "it" puts '
            f"{first_one} on {nouns[0]} and {second_one} on {nouns[1]}; "
            f'with "{instead}" instead {" and ".join(other)}. {_verdict(said, sentences)}'
        )

    words_on_offer = {
        "first": {"": pronouns.ANIMALS},
        "verb": {" (a place)": pronouns.TO_PLACES, " (an animal)": pronouns.TO_ANIMALS},
        "second": {"": (*pronouns.PLACES, *pronouns.ANIMALS)},
        "adjective": {
            " (the first)": pronouns.OF_THE_FIRST,
            " (a place)": pronouns.OF_PLACES,
            " (an animal)": pronouns.OF_ANIMALS,
        },
    }
    menus = {
        name: widgets.Dropdown(
            options=[(f"{word}{kind}", word) for kind, group in groups.items() for word in group],
            value=START[name], description=name, style=LABEL, layout={"width": "250px"},
        )
        for name, groups in words_on_offer.items()
    }  # fmt: skip
    return Explorer(
        "Change the adjective",
        'Choose other adjectives, then the other heads. In which heads does "it" turn from one noun to the other when '
        "nothing but the adjective changes?",
        draw,
        **menus,
        head=widgets.Dropdown(
            options=[(f"layer {layer + 1}, head {at}", (layer, at)) for layer, at in heads],
            value=head, description="head", style=LABEL, layout={"width": "250px"},
        ),
    )  # fmt: skip


def _answers(model, sentences):
    """The noun that the model says for each sentence, and the weights of each layer, once they are seen to fit."""
    B, vocabulary = len(sentences), pronoun_vocabulary()
    with torch.no_grad():
        returned = model(torch.tensor([vocabulary.encode(tokens) for tokens in sentences]))
    if not isinstance(returned, tuple) or len(returned) != 2 or not isinstance(returned[1], list | tuple):
        raise TypeError(f"model returned a {type(returned).__name__}; expected (logits, list of weights, one a layer)")
    for name, tensor in (("logits", returned[0]), *(("weights", of_layer) for of_layer in returned[1])):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"model returned {name} that are a {type(tensor).__name__}; expected a torch.Tensor")
    logits, weights = returned
    if tuple(logits.shape) != (B, len(vocabulary)):
        raise ValueError(
            f"model returned logits of shape {tuple(logits.shape)} for {B} sentences; expected {(B, len(vocabulary))}, "
            "(B, vocabulary)"
        )
    if not weights:
        raise ValueError("model returned no weights; expected those of one layer or more")
    for layer, of_layer in enumerate(weights):
        if of_layer.dim() != 4 or (of_layer.size(0), *of_layer.shape[2:]) != (B, WORDS, WORDS):
            raise ValueError(
                f"model returned weights of shape {tuple(of_layer.shape)} in layer {layer}; expected "
                f"({B}, H, {WORDS}, {WORDS}), (B, H, T, T)"
            )
        if not ((of_layer >= 0) & (of_layer <= 1.001)).all():
            raise ValueError(
                f"model returned weights from {of_layer.min():.2f} to {of_layer.max():.2f} in layer {layer}; expected "
                "weights from 0 to 1"
            )
    return [vocabulary.tokens[noun] for noun in logits.argmax(dim=-1).tolist()], weights


def _verdict(said, sentences):
    """Which nouns the model says for a sentence and for it with the other adjective, and whether they are right."""
    instead = sentences[1][ADJECTIVE]
    if wrong := _not_in_the_grammar(sentences[0]):
        return (
            f'The model says: {said[0]}; with "{instead}": {said[1]}. The grammar has no such sentence, so there is no '
            f"right answer: {listed(wrong)}."
        )
    first, other = (
        f"{noun} ({'right' if noun == sentence[referent(sentence)] else 'wrong'})"
        for noun, sentence in zip(said, sentences, strict=True)
    )
    return f'The model says: {first}; with "{instead}": {other}.'


def _other_adjective(second, adjective):
    """An adjective that tells of the other noun, always the same for this kind of noun."""
    if adjective not in pronouns.OF_THE_FIRST:
        return "tired"
    return "wide" if second in pronouns.PLACES else "fast"


def _not_in_the_grammar(tokens):
    """Why the grammar has no such sentence, in a list that is empty where it has."""
    first, verb, second, adjective = (tokens[at] for at in (FIRST, VERB, SECOND, ADJECTIVE))
    place = second in pronouns.PLACES
    wrong = ["the two nouns are the same"] if first == second else []
    if (verb in pronouns.TO_PLACES) != place:
        wrong.append(f'"{verb}" does not go with "{second}"')
    if adjective not in (*pronouns.OF_THE_FIRST, *(pronouns.OF_PLACES if place else pronouns.OF_ANIMALS)):
        wrong.append(f'"{adjective}" tells of {"an animal" if place else "a place"}')
    return wrong


def _boxes(columns, height, width, tall):
    """The corners of boxes of one size with their middles at these columns, for a PolyCollection."""
    return [_box(column, height, width, tall) for column in columns]


def _box(x, y, width, tall):
    return np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]]) * (width, tall) + (x, y)


@styled
def change_one_token(models, x, tokens):
    """Change one token of a sequence, and see which outputs of a model move: the perturbation test.

    Every model runs once on x and once on x with each token changed, when the figure is made.

    Args:
        models: by name, functions (1, T, d) -> (1, T, d).
        x: (1, T, d), the sequence.
        tokens: T names.

    Returns:
        The Explorer.

    Raises:
        TypeError: `x` is not a tensor of floating point, or a model is not a function.
        ValueError: other shapes, more tokens than can be read, or a model whose results cannot be compared.
    """
    _check_sequence(models, x, tokens)
    T, names = len(tokens), [drawable(token) for token in tokens]
    changes = {name: _changes(name, model, x) for name, model in models.items()}
    column = min(7.1 / T, 1.1)  # the width of one, in inches
    left = (8.2 + 0.8 - T * column) / 2
    middles = left + column * (np.arange(T) + 0.5)
    widest = max(1.0, *(label_width(name, 10) for name in names))
    size = min(10.0, 10.0 * 72 * 0.84 * column / widest)
    looks = {
        "stays": {"fc": "white", "ec": "0.6"},
        "moves": {"fc": colours()[0], "ec": "white", "hatch": "///"},
        "leaks": {"fc": colours()[3], "ec": "black", "hatch": "xxx"},
    }
    tints = {"stays": "white"} | {kind: pale(looks[kind]["fc"]) for kind in ("moves", "leaks")}
    meanings = ("= stays, bit for bit", "≠ moves", "≠ moves, though it stands before: a leak")

    figure, axes = new_figure(8.2, 3.7)
    axes.set(xlim=(0, 8.2), ylim=(-0.3, INPUT + 0.5))
    axes.set_axis_off()
    frames = _boxes(middles, INPUT, 0.92 * column, 0.32)
    axes.add_collection(PolyCollection(frames, fc="white", ec="0.6", lw=0.8), autolim=False)
    for height, text in ((INPUT, "input"), (OUTPUT, "output"), (HIGHEST / 2, "size of\nits change")):
        axes.text(left - 0.12, height, text, fontsize=10, ha="right", va="center")
    for at, middle in enumerate(middles):
        axes.text(middle, -0.15, str(at), fontsize=9, color="0.35", ha="center", va="center")
        axes.text(middle, INPUT + 0.3, str(at), fontsize=9, color="0.35", ha="center", va="center")
    axes.plot([middles[0] - column / 2, middles[-1] + column / 2], [0, 0], color="black", lw=0.8)
    patches = [Patch(lw=0.8, **look) for look in looks.values()]
    figure.legend(patches, meanings, loc="outside lower center", ncols=3)
    bars = {kind: PolyCollection([], lw=0.8, **look) for kind, look in looks.items()}
    outputs = PolyCollection(_boxes(middles, OUTPUT, 0.92 * column, 0.32), ec="0.6", lw=0.8)
    marked = PolyCollection([], fc="none", ec="black", lw=2.2)
    lines, border = LineCollection([], lw=1.2), LineCollection([], color="0.35", lw=1.2, ls=":")
    inputs, signs, sizes = Labels(axes, size), Labels(axes, size=12), Labels(axes, size=8)
    heading = axes.set_title("")
    for part in (lines, border, *bars.values(), outputs, marked, inputs, signs, sizes):
        axes.add_collection(part, autolim=False)
    for moving in (lines, border, *bars.values(), outputs, marked, inputs, signs, sizes, heading):
        moving.set_animated(True)
    inputs.show(names, [(middle, INPUT) for middle in middles])

    def draw(model, changed):
        change = changes[model][changed].tolist()  # of each output
        kinds = ["stays" if not by else "moves" if at >= changed else "leaks" for at, by in enumerate(change)]
        tops = [HIGHEST * by / (max(change) or 1.0) for by in change]
        for kind, part in bars.items():
            of_kind = [at for at in range(T) if kinds[at] == kind != "stays"]
            part.set_verts([_box(middles[at], tops[at] / 2, 0.5 * column, tops[at]) for at in of_kind])
        moved = [at for at in range(T) if change[at]]
        start = (middles[changed], INPUT - 0.16)
        lines.set_segments([[start, (middles[at], OUTPUT + 0.16)] for at in moved])
        lines.set(color=[looks[kinds[at]]["fc"] for at in moved], ls=["--" if at < changed else "-" for at in moved])
        edge = middles[changed] - column / 2
        border.set_segments([[(edge, -0.25), (edge, INPUT + 0.4)]] if changed else [])
        marked.set_verts(_boxes([middles[changed]], INPUT, 0.92 * column, 0.32))
        signs.show(["≠" if by else "=" for by in change], [(middle, OUTPUT) for middle in middles])
        outputs.set_facecolor([tints[kind] for kind in kinds])
        sizes.show([f"{by:.2g}" for by in change], [(x, top + 0.12) for x, top in zip(middles, tops, strict=True)])
        leaks = kinds.count("leaks")
        before = f", {leaks} of them before the change" if leaks else ", none before the change" if changed else ""
        heading.set_text(f"{model}: {len(moved)} of {T} outputs move{'s' * (len(moved) == 1)}{before}")
        return figure, _moves(model, changed, tokens, kinds)

    return Explorer(
        "Change one token",
        "Change one token after the other with each of the models. In which of them does an output move that stands "
        "before the change, and which changes cannot show it?",
        draw,
        model=widgets.ToggleButtons(
            options=[(name, name) for name in models], description="model", style=buttons_style(models)
        ),
        changed=widgets.SelectionSlider(
            options=[(f"{at} {token}", at) for at, token in enumerate(tokens)],
            value=T // 2,
            description="changed",
            style=LABEL,
        ),
    )


def _check_sequence(models, x, tokens):
    """A plain error unless `change_one_token` can show these."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"x is a {type(x).__name__}; expected a torch.Tensor")
    if not x.is_floating_point():
        raise TypeError(f"x holds {x.dtype}; expected floating point, vectors and not token ids")
    if x.dim() != 3 or x.size(0) != 1 or not 2 <= x.size(1) <= MOST_TOKENS or x.size(2) < 2:
        raise ValueError(
            f"x has shape {tuple(x.shape)}; expected (1, T, d), one sequence of 2 to {MOST_TOKENS} tokens with 2 "
            "features or more"
        )
    if len(tokens) != x.size(1):
        raise ValueError(f"tokens has {len(tokens)} names but x has shape {tuple(x.shape)}; expected {x.size(1)}")
    if not models:
        raise ValueError("models is empty; expected one or more, by name")
    for name, model in models.items():
        if not callable(model):
            raise TypeError(f"models[{name!r}] is a {type(model).__name__}; expected a function")


def _changes(name, model, x):
    """How far each output moves (columns) when a token is changed (rows): (T, T), the largest over its features."""
    before = _output(name, model, x)
    if not torch.equal(_output(name, model, x), before):
        raise ValueError(
            f"models[{name!r}] gives two outputs for the same x; expected one, without dropout: model.eval()"
        )
    moved = []
    for token in range(x.size(1)):
        changed = x.clone()
        changed[0, token, ::2] += CHANGE  # not every feature: a layer norm would take that away again
        moved.append((_output(name, model, changed) - before)[0].abs().amax(dim=-1))
    return torch.stack(moved)


def _output(name, model, x):
    """What a model makes of x, once it is seen to be something that can be compared."""
    with torch.no_grad():
        output = model(x.clone())
    if not isinstance(output, torch.Tensor):
        raise TypeError(f"models[{name!r}] returned a {type(output).__name__}; expected a tensor (1, T, d)")
    if output.shape != x.shape:
        raise ValueError(f"models[{name!r}] returned shape {tuple(output.shape)}; expected {tuple(x.shape)}, as x has")
    if not output.isfinite().all():
        raise ValueError(f"models[{name!r}] returned NaN or infinity, which cannot be compared")
    return output


def _moves(model, changed, tokens, kinds):
    """Which outputs move and which do not, in words."""
    moved = [str(at) for at, kind in enumerate(kinds) if kind != "stays"]
    stayed = [str(at) for at, kind in enumerate(kinds) if kind == "stays"]
    leaked = [str(at) for at, kind in enumerate(kinds) if kind == "leaks"]
    told = f'With {model}, token {changed}, "{tokens[changed]}", is changed: '
    if not moved:
        return f"{told}no output moves, all {len(kinds)} stay bit for bit."
    if not stayed:
        told += f"all {len(kinds)} outputs move."
    else:
        told += f"outputs {listed(moved)} move" if len(moved) > 1 else f"output {moved[0]} moves"
        told += f", {listed(stayed)} {'stay' if len(stayed) > 1 else 'stays'} bit for bit."
    if len(leaked) == 1:
        return f"{told} Output {leaked[0]} moves though it stands before the change: it has seen the future."
    if leaked:
        return f"{told} Outputs {listed(leaked)} move though they stand before the change: they have seen the future."
    return told if changed else f"{told} Nothing stands before token 0, so changing it cannot show a leak."
