"""Exercises of lesson 02 on one step of the decoder: whether it looks first and then moves on, or the other way."""

import torch

from utils.exercises.exercise import Exercise, Mistake, Probe
from utils.models import bahdanau_step, luong_step


def bahdanau_by_steps(changes, embedded, state, keys, cell, attention):
    """`bahdanau_step`, one step a name, with some of its steps changed."""
    step = {
        "look": lambda embedded, state, keys, cell, attention: attention(state, keys),
        "found": lambda context, weights, keys: (context, weights),
        "inputs": _beside,
        "from": lambda embedded, state, keys, cell: state,
        "again": lambda new, context, weights, keys, attention: (context, weights),
        "answer": lambda old, new, context, weights: (new, context, weights),
        **changes,
    }
    context, weights = step["found"](*step["look"](embedded, state, keys, cell, attention), keys)
    new = cell(step["inputs"](embedded, context), step["from"](embedded, state, keys, cell))
    context, weights = step["again"](new, context, weights, keys, attention)
    return step["answer"](state, new, context, weights)


def luong_by_steps(changes, embedded, state, keys, cell, attention):
    """`luong_step`, one step a name, with some of its steps changed."""
    step = {
        "inputs": lambda embedded, state, keys, attention: embedded,
        "move": lambda cell, inputs, state: cell(inputs, state),
        "query": lambda embedded, old, new: new,
        "found": lambda context, weights, keys: (context, weights),
        "answer": lambda old, new, context, weights: (new, context, weights),
        **changes,
    }
    new = step["move"](cell, step["inputs"](embedded, state, keys, attention), state)
    context, weights = step["found"](*attention(step["query"](embedded, state, new), keys), keys)
    return step["answer"](state, new, context, weights)


def _beside(embedded, context):
    return torch.cat([embedded, context], dim=-1)


def _moved_without_context(embedded, state, keys, cell):
    """The state after a move for which nothing was found yet."""
    return cell(_beside(embedded, torch.zeros_like(keys[:, 0])), state)


def _look_after_moving(embedded, state, keys, cell, attention):
    return attention(_moved_without_context(embedded, state, keys, cell), keys)


def _uniform(context, weights, keys):
    return keys.mean(dim=1), torch.full(keys.shape[:2], 1 / keys.size(1))


def _last(context, weights, keys):
    one = torch.zeros(keys.shape[:2])
    one[:, -1] = 1.0
    return keys[:, -1], one


UNIFORM = Mistake(
    "uniform average",
    "Your context is the mean of the keys, whatever the state: the bottleneck again. Which of the two things that "
    "`attention` returns is the context?",
    ({"found": lambda context, weights, keys: (keys.mean(dim=1), weights)}, {"found": _uniform}),
)
LAST_ONLY = Mistake(
    "last state only",
    "Your context is the encoder's last state, at every step the same: the bottleneck again. Which of the two things "
    "that `attention` returns is the context?",
    ({"found": lambda context, weights, keys: (keys[:, -1], weights)}, {"found": _last}),
)
OLD_STATE = Mistake(
    "the old state is returned",
    "You return the state that you were given, so the decoder stands still. With which state should the next step "
    "begin?",
    ({"answer": lambda old, new, context, weights: (old, context, weights)},),
)

BAHDANAU_MISTAKES = (
    Mistake(
        "the current state asks",
        "The query is a state that this step has made, as in Luong's decoder. Here the context is to go into that "
        "state. What is known at step t before it is made?",
        (
            {"look": _look_after_moving},
            {"look": _look_after_moving, "from": _moved_without_context},
            {
                "look": _look_after_moving,
                "inputs": lambda embedded, context: _beside(embedded, torch.zeros_like(context)),
            },
            {"again": lambda new, context, weights, keys, attention: attention(new, keys)},
        ),
    ),
    Mistake(
        "the token asks",
        "Your query is the embedding of the last token, so the same word always looks at the same place. What knows "
        "how far the sentence has come?",
        ({"look": lambda embedded, state, keys, cell, attention: attention(embedded, keys)},),
    ),
    Mistake(
        "only one of the two goes into the cell",
        "The next state depends on the last token and on what was found in the source. Which of the two does your "
        "`cell` not get?",
        (
            {"inputs": lambda embedded, context: embedded},
            {"inputs": lambda embedded, context: context},
            {"inputs": lambda embedded, context: _beside(embedded, torch.zeros_like(context))},
            {"inputs": lambda embedded, context: _beside(torch.zeros_like(embedded), context)},
        ),
    ),
    Mistake(
        "context before embedding",
        "The sizes fit either way, but the first columns of the cell's matrix are for the embedding. In which order "
        "does the exercise put the two?",
        ({"inputs": lambda embedded, context: _beside(context, embedded)},),
    ),
    OLD_STATE,
    UNIFORM,
    LAST_ONLY,
)

LUONG_MISTAKES = (
    Mistake(
        "the previous state asks",
        "The query is the state as it was before this token, as in Bahdanau's decoder. Luong's moves on first. Which "
        "state has read the last token?",
        ({"query": lambda embedded, old, new: old},),
    ),
    Mistake(
        "the token asks",
        "Your query is the embedding of the last token, so the same word always looks at the same place. What knows "
        "how far the sentence has come?",
        ({"query": lambda embedded, old, new: embedded},),
    ),
    Mistake(
        "the context goes into the cell",
        "You put the context beside the embedding, as in Bahdanau's decoder, and the cell has no room for it. In "
        "Luong's, what was found goes to the output alone. What does `cell` take here?",
        ({"inputs": lambda embedded, state, keys, attention: _beside(embedded, attention(state, keys)[0])},),
    ),
    Mistake(
        "moved twice",
        "The cell runs twice for one token. How many tokens has the decoder read in one step?",
        ({"move": lambda cell, inputs, state: cell(inputs, cell(inputs, state))},),
    ),
    OLD_STATE,
    UNIFORM,
    LAST_ONLY,
)


def _cell(generator, input_dim, decoder_dim):
    """A recurrent cell with fixed matrices that says which sizes it takes."""
    W = torch.randn(decoder_dim, input_dim, generator=generator) / input_dim**0.5
    U = torch.randn(decoder_dim, decoder_dim, generator=generator) / decoder_dim**0.5

    def cell(inputs, state):
        """tanh(W inputs + U state), with fixed W and U"""
        _must_fit("cell", "inputs", inputs, ("B", input_dim))
        _must_fit("cell", "state", state, ("B", decoder_dim))
        return torch.tanh(inputs @ W.T + state @ U.T)

    return cell


def _attention(generator, decoder_dim, state_dim):
    """Attention with a fixed matrix that says which sizes it takes."""
    W = torch.randn(state_dim, decoder_dim, generator=generator)

    def attention(query, keys):
        """softmax of (W query) . key, with a fixed W"""
        _must_fit("attention", "query", query, ("B", decoder_dim))
        _must_fit("attention", "keys", keys, ("B", "S", state_dim))
        weights = torch.einsum("bk,bsk->bs", query @ W.T, keys).softmax(dim=-1)
        return torch.einsum("bs,bsk->bk", weights, keys), weights

    return attention


def _must_fit(function, name, value, shape):
    if value.dim() != len(shape) or value.size(-1) != shape[-1]:
        wanted = ", ".join(map(str, shape))
        raise ValueError(f"{function} was called with {name} of shape {tuple(value.shape)}; expected ({wanted})")


def _probe(name, seed, numbers, context_in, gradients=False):
    """One step with these sizes; `context_in` says whether the cell has room for the context."""
    sizes = dict(zip(("B", "S", "embed_dim", "decoder_dim", "state_dim"), numbers, strict=True))
    B, S, embed_dim, decoder_dim, state_dim = numbers
    generator = torch.Generator().manual_seed(seed)
    arguments = {
        "embedded": torch.randn(B, embed_dim, generator=generator),
        "state": torch.randn(B, decoder_dim, generator=generator),
        "keys": torch.randn(B, S, state_dim, generator=generator),
        "cell": _cell(generator, embed_dim + (state_dim if context_in else 0), decoder_dim),
        "attention": _attention(generator, decoder_dim, state_dim),
    }
    return Probe(name, arguments, sizes, gradients)


def _probes(context_in):
    return (
        _probe("all sizes different", 1, (3, 5, 2, 4, 6), context_in, gradients=True),
        _probe("other sizes", 2, (2, 4, 3, 5, 7), context_in),
        _probe("a batch of one", 3, (1, 5, 2, 4, 6), context_in),
        _probe("an embedding as long as the state", 4, (3, 5, 4, 4, 6), context_in),
        _probe("a state as long as the keys", 5, (3, 4, 2, 5, 5), context_in),
        _probe("one key", 6, (3, 1, 2, 4, 6), context_in),
    )


def _small(embedded, state, keys, context_in):
    """Inputs that can be followed by hand: a cell that counts, and attention by dot products."""
    embed_dim, state_dim = len(embedded), len(keys[0])
    says = torch.arange(1.0, embed_dim + (state_dim if context_in else 0) + 1)

    def cell(inputs, state):
        _must_fit("cell", "inputs", inputs, ("B", len(says)))
        return state + inputs @ says.unsqueeze(1)

    def attention(query, keys):
        """softmax of query . key"""
        _must_fit("attention", "query", query, ("B", state_dim))
        weights = torch.einsum("bk,bsk->bs", query, keys).softmax(dim=-1)
        return torch.einsum("bs,bsk->bk", weights, keys), weights

    cell.__doc__ = f"(inputs, state) -> state + inputs · {says.long().tolist()}"
    attention.__doc__ = "(query, keys) -> average of the keys by the softmax of query · key"
    arguments = {
        "embedded": torch.tensor([embedded]),
        "state": torch.tensor([state]),
        "keys": torch.tensor([keys]),
        "cell": cell,
        "attention": attention,
    }
    sizes = {"B": 1, "S": len(keys), "embed_dim": embed_dim, "decoder_dim": len(state), "state_dim": state_dim}
    return Probe("", arguments, sizes)


def _small_ones(context_in):
    return (
        _small([1.0], [0.0, 0.0], [[1.0, 0.0]], context_in),
        _small([1.0], [1.0, 0.0], [[1.0, 0.0], [0.0, 2.0]], context_in),
    )


RETURNS = {"state": "B decoder_dim", "context": "B state_dim", "weights": "B S"}

EXERCISES = (
    Exercise(
        id="find_the_bug_in_bahdanau_step",
        reference=bahdanau_step,
        returns=RETURNS,
        by_steps=bahdanau_by_steps,
        probes=_probes(context_in=True),
        resized="other sizes",
        small=_small_ones(context_in=True),
        mistakes=BAHDANAU_MISTAKES,
        hints=(
            "Write down in which order the step makes the context and the new state. Which of the two is needed for "
            "the other?",
            "Attention runs twice. Which of the two contexts goes into the new state, which is returned, and what did "
            "the state that asks know each time?",
            "`attention(state, keys)` comes first, with the state as it was given; then the cell runs on "
            "`torch.cat([embedded, context], dim=-1)`.",
        ),
        why="The context goes into the next state, so it has to be found before, and only the previous state can "
        "ask for it.",
        stretch="For a target that is given, why can the states of all steps not be computed at once here, as they can "
        "in Luong's decoder?",
        given="the current state asks",
    ),
    Exercise(
        id="luong_step",
        reference=luong_step,
        returns=RETURNS,
        by_steps=luong_by_steps,
        probes=_probes(context_in=False),
        resized="other sizes",
        small=_small_ones(context_in=False),
        mistakes=LUONG_MISTAKES,
        hints=(
            "What has the new state read that the old one has not, and which of the two should ask?",
            "The cell takes the embedding alone here. In which order must the cell and the attention run, so that the "
            "new state can ask?",
            "`state = cell(embedded, state)`, then `context, weights = attention(state, keys)`.",
        ),
        why="The state has read the last token when it asks, and it does not wait for what is found.",
        stretch="What was found does not go into the state. How can the next step know where the decoder has looked?",
    ),
)
