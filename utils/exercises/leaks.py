"""Exercises of lesson 05: the perturbation test, and a leak to find with it."""

import torch

from utils.exercises.exercise import Exercise, Mistake, Probe
from utils.exercises.self_attention import fixed_attention, ones, random_tensor
from utils.exercises.steps import keep
from utils.masks import create_causal_mask
from utils.self_attention import causal_block, outputs_that_move

SEED = 770_000  # no seed that a reader sets: `torch.randn` must not give the very tokens of a probe


def moves_by_steps(changes, model, x):
    """`outputs_that_move`, one step a name, with some of its steps changed."""
    step = {
        "where": lambda i: (slice(None), i),
        "by": lambda x: random_tensor(SEED, *x.shape),
        "change": lambda x, i, where, by: _with_added(x, where, by),
        "against": lambda before, x: before,
        "differ": lambda after, before: after != before,  # (1, T, d)
        "over": lambda differ: differ[0].any(dim=-1),  # (T,)
        "test": lambda perturb, model, x: perturb(),
        "answer": keep,
        **changes,
    }
    before = model(x)

    def perturb():
        after = [model(step["change"](x, i, step["where"](i), step["by"](x))) for i in range(x.size(1))]
        return torch.stack([step["over"](step["differ"](one, step["against"](before, x))) for one in after], dim=1)

    return step["answer"](step["test"](perturb, model, x))


def block_by_steps(changes, x, attend):
    """`causal_block`, one step a name, with some of its steps changed."""
    step = {
        "mean": _mean(-1),
        "std": _std(-1),
        "divided": lambda x, mean, std: (x - mean) / (std + 1e-5),
        "mask": create_causal_mask,
        "found": lambda x, norm, attend, mask: attend(norm(x), mask),
        "added": lambda x, normed, found: x + found,
        "answer": lambda norm, y: y,
        **changes,
    }

    def norm(y):
        return step["divided"](y, step["mean"](y), step["std"](y))

    found = step["found"](x, norm, attend, step["mask"](x.size(1)))
    return step["answer"](norm, step["added"](x, norm(x), found))


def _with_added(x, where, by):
    changed = x.clone()
    changed[where] += by[where]
    return changed


def _set(value):
    """A change of token i to what `value(x, i)` gives."""

    def change(x, i, where, by):
        changed = x.clone()
        changed[:, i] = value(x, i)
        return changed

    return {"change": change}


def _sum(values):
    return values.sum(dim=-1, keepdim=True)


def _jacobian(perturb, model, x):
    slopes = torch.autograd.functional.jacobian(lambda x: model(x)[0], x)  # (T, d, 1, T, d)
    return (slopes != 0).any(dim=4).any(dim=2).any(dim=1)


def _slopes_of_sums(perturb, model, x):
    slopes = torch.autograd.functional.jacobian(lambda x: model(x)[0].sum(dim=-1), x)  # (T, 1, T, d)
    return (slopes != 0).any(dim=3).any(dim=1)


MOVES_MISTAKES = (
    Mistake(
        "transposed",
        "Entry [t, i] is about output t and token i. You change one token at a time: is what you learn of it a row or "
        "a column?",
        ({"answer": lambda moved: moved.T},),
    ),
    Mistake(
        "inverted",
        "Your True marks the outputs that stay as they were. Which of `==` and `!=` did you mean?",
        ({"answer": lambda moved: ~moved},),
    ),
    Mistake(
        "changes add up",
        "When token i is changed, the tokens before it still hold their changes. What must the sequence be again "
        "before the next token is changed?",
        ({"where": lambda i: (slice(None), slice(0, i + 1))},),
    ),
    Mistake(
        "nothing is changed",
        "Every entry is False, with every model: as if the model ran on `x` itself each time, or what it gave was "
        "never kept. Which tensor do you hand it, and does your change stand in that one?",
        ({"change": lambda x, i, where, by: x},),
    ),
    Mistake(
        "the same number added to every feature",
        "A layer norm subtracts from each token the mean of its features. What is left of your change after that, and "
        "which change of a token would go through?",
        ({"by": torch.ones_like}, {"by": lambda x: torch.full_like(x, 0.1)}),
    ),
    Mistake(
        "not all features of the token changed",
        "You change a part of token i, and a model may read the rest alone. How many of its features have to be "
        "others, if an output can depend on any of them?",
        ({"where": lambda i: (slice(None), i, 0)}, {"where": lambda i: (slice(None), i, -1)}),
    ),
    Mistake(
        "several tokens changed at once",
        "You change other tokens along with token i, so you cannot tell whose change an output shows. What does "
        "`x[:, i]` select that `x[:, i:]` does not?",
        ({"where": lambda i: (slice(None), slice(i, None))}, {"where": lambda i: ...}),
    ),
    Mistake(
        "a feature or a sample changed, not a token",
        "x is (1, T, d). On which axis do the tokens stand, and on which did you put i?",
        ({"where": lambda i: (..., i)}, {"where": lambda i: i}),
    ),
    Mistake(
        "a change that may be none",
        "Your new value can be the one that was there (0 doubled, a token set to 0 that was 0, a neighbour that is "
        "equal). Which change makes the token another one, whatever it was?",
        (
            _set(lambda x, i: 0.0),
            _set(lambda x, i: 1.0),
            _set(lambda x, i: x[:, i - 1]),
            _set(lambda x, i: x[:, (i + 1) % x.size(1)]),
        ),
    ),
    Mistake(
        "NaN or infinity for a change",
        "0 times NaN is NaN, and so is 0 times infinity, so a token with weight 0 seems to be seen. What could you add "
        "that 0 still turns into 0?",
        (_set(lambda x, i: float("nan")),),
    ),
    Mistake(
        "compared with a tolerance",
        "A small leak is a leak, and a model can learn to use it. Which comparison asks whether every bit is the same?",
        ({"differ": lambda after, before: (after - before).abs() > 1e-6},),
    ),
    Mistake(
        "changes that cancel in a sum",
        "You add up the features before you compare, so +1 in one and -1 in another are no change. What must be "
        "compared first, and which of `sum`, `any` and `all` comes after?",
        (
            {"differ": lambda after, before: _sum(after) != _sum(before)},
            {"differ": lambda after, before: _sum(after - before) != 0},
        ),
    ),
    Mistake(
        "every feature must change",
        "You call an output moved when all its features change. How many have to, for output t to know of token i?",
        ({"over": lambda differ: differ[0].all(dim=-1)},),
    ),
    Mistake(
        "one feature looked at",
        "You compare a single feature of each output. Can what a token tells not stand in another one?",
        ({"over": lambda differ: differ[0, :, 0]}, {"over": lambda differ: differ[0, :, -1]}),
    ),
    Mistake(
        "one answer for all outputs",
        "You ask whether anything changes, and write the answer to every output. Over which axis does the comparison "
        "have to be summed up, and which one stays?",
        (
            {"over": lambda differ: differ.any().expand(differ.size(1))},
            {"over": lambda differ: differ.any().expand(differ.size(1)), "answer": lambda moved: moved.T},
        ),
    ),
    Mistake(
        "compared with x",
        "You compare what the model gives with x, which it was given. What did the model give before the change?",
        ({"against": lambda before, x: x},),
    ),
    Mistake(
        "some outputs or tokens left out",
        "Not every pair is tested: some entries are False whatever the model does. Do you keep what each round of your "
        "loop found, for output t before, at and after token i?",
        (
            {"answer": lambda moved: moved & torch.eye(len(moved), dtype=torch.bool)},
            {"answer": lambda moved: moved & ~torch.eye(len(moved), dtype=torch.bool)},
            {"answer": lambda moved: moved.tril()},
            {"answer": lambda moved: moved.triu()},
            {"answer": lambda moved: moved & (torch.arange(len(moved)) == len(moved) - 1)},
            {"answer": lambda moved: moved & (torch.arange(len(moved)) == len(moved) - 1).unsqueeze(1)},
        ),
    ),
    Mistake(
        "gradients asked instead",
        "A gradient of 0 leaves it open: `detach`, `round` or `argmax` have none and still tell what a token is, and "
        "the gradients of two features can cancel. What happens to output t when token i really is another one?",
        ({"test": _jacobian}, {"test": _slopes_of_sums}),
    ),
)


def _mean(*dims):
    return lambda x: x.mean(dim=dims, keepdim=True)


def _std(*dims, correction=1):
    """As `x.std(dim=dims, keepdim=True)`, without its warning where there is a single number."""

    def std(x):
        squares = (x - x.mean(dim=dims, keepdim=True)).square()
        total = squares.sum(dim=dims, keepdim=True)
        return (total / (squares.numel() // total.numel() - correction)).sqrt()

    return std


def _norm_over(*dims):
    return {"mean": _mean(*dims), "std": _std(*dims)}


BLOCK_MISTAKES = (
    Mistake(
        "normalised over the tokens too",
        "Mean and deviation run over all tokens, so each of them knows of the later ones before anything is masked. "
        "Over which axis must they run?",
        (_norm_over(1, 2),),
    ),
    Mistake(
        "only one of the two repaired",
        "Of mean and deviation, one runs over the features of a token now and the other still over all tokens. How "
        "much does it take for a leak?",
        ({"mean": _mean(1, 2)}, {"std": _std(1, 2)}),
    ),
    Mistake(
        "normalised over the tokens alone",
        "Mean and deviation run along the tokens, one for each feature, so later tokens are in them still. Which axis "
        "belongs to one token alone?",
        (_norm_over(1),),
    ),
    Mistake(
        "normalised over the batch",
        "Mean and deviation run along the batch, so a sample depends on those that it is trained with. Which axis "
        "belongs to one token alone?",
        (_norm_over(0), _norm_over(0, 1), _norm_over(0, 2), _norm_over(0, 1, 2)),
    ),
    Mistake(
        "no normalisation",
        "Without the leak the norm is gone as well: attention gets x as it is. Can a token not be normalised by its "
        "own features?",
        ({"found": lambda x, norm, attend, mask: attend(x, mask)},),
    ),
    Mistake(
        "normalised after, not before",
        "The norm stands behind the attention, and before it was asked for. What should `attend` be given?",
        (
            {"found": lambda x, norm, attend, mask: attend(x, mask), "answer": lambda norm, y: norm(y)},
            {"found": lambda x, norm, attend, mask: norm(attend(x, mask))},
        ),
    ),
    Mistake(
        "the mean left in",
        "You divide by the deviation and do not subtract the mean first. What is the mean of a normalised token?",
        ({"divided": lambda x, mean, std: x / (std + 1e-5)},),
    ),
    Mistake(
        "not divided by the deviation",
        "You subtract the mean and stop there. What is the deviation of a normalised token?",
        ({"divided": lambda x, mean, std: x - mean},),
    ),
    Mistake(
        "divided by the variance",
        "You divide by the square of the deviation. Twice as large an x then comes out half as large: should it?",
        ({"divided": lambda x, mean, std: (x - mean) / (std.square() + 1e-5)},),
    ),
    Mistake(
        "nothing added to the deviation",
        "When all features of a token are equal, its deviation is 0, and 0 / 0 is NaN. What was the 1e-5 there for?",
        ({"divided": lambda x, mean, std: (x - mean) / std},),
    ),
    Mistake(
        "divided by d_model, not by d_model - 1",
        "There is no leak any more. But your variance is the mean over d_model squares, as `nn.LayerNorm` has it, and "
        "`x.std` divides their sum by d_model - 1: harmless, and a second change beside the bug. Which one change is "
        "enough?",
        ({"std": _std(-1, correction=0)},),
    ),
    Mistake(
        "no residual",
        "You return what was found and leave out x. What does each layer of a block do with its input?",
        ({"added": lambda x, normed, found: found},),
    ),
    Mistake(
        "the residual is of the normed x",
        "You add what was found to the normalised x. To what does a block with its norm before the layer add?",
        ({"added": lambda x, normed, found: normed + found},),
    ),
    Mistake(
        "no causal mask",
        "The mask is gone or blocks nothing, so attention looks at the future openly. Was the mask the leak?",
        ({"mask": lambda T: None},),
    ),
    Mistake(
        "upper triangle for lower",
        "Each token sees itself and the future only. Was anything wrong with the mask that you were given?",
        ({"mask": lambda T: create_causal_mask(T).T},),
    ),
    Mistake(
        "mask inverted",
        "You block the past and allow the future. True means 'may attend': was the mask not right as it was given?",
        ({"mask": lambda T: ~create_causal_mask(T)},),
    ),
    Mistake(
        "diagonal left out",
        "A token does not see itself any more. Was the leak in the mask?",
        ({"mask": lambda T: ones(T).tril(-1)},),
    ),
    Mistake(
        "one too far",
        "Your mask lets token t look at token t+1. Was the leak in the mask?",
        ({"mask": lambda T: ones(T).tril(1)},),
    ),
)


def _mixed(x, A):
    """Each output is the sum of A[t, i] x_i over i, by elementwise products: where no x_i changes, no bit does."""
    return sum(A[:, i] * x[:, i : i + 1] for i in range(len(A)))  # (T, d or 1) * (B, 1, d)


def _model(doc, T, d, formula):
    """A model with that docstring that says which shape it takes."""

    def model(x):
        if x.dim() != 3 or x.shape[1:] != (T, d):
            raise ValueError(f"model was called with x of shape {tuple(x.shape)}; expected (1, {T}, {d})")
        return formula(x)

    model.__doc__ = doc
    return model


def _moves(name, model, x):
    _, T, d = x.shape
    return Probe(name, {"model": model, "x": x}, {"T": T, "d": d})


def _moves_probe(name, seed, T, d, formula, pattern=None, grid=None):
    """A probe whose model is `formula(x, A)`, with random A (T, T, 1) that is 0 where `pattern` is.

    With `grid`, x holds whole multiples of 1 / grid.
    """
    A = 0.5 + torch.rand(T, T, 1, generator=torch.Generator().manual_seed(seed))
    A = A if pattern is None else A * pattern.unsqueeze(-1)
    x = random_tensor(SEED + seed, 1, T, d)
    x = x if grid is None else (x * grid).round() / grid
    return _moves(name, _model(name, T, d, lambda x: formula(x, A)), x)


def _with_a_small_leak(x, A):
    own, leak = _mixed(x, A), _mixed(_sum(x), 1e-12 * A.transpose(0, 1))
    return torch.cat([own[..., :-1], leak], dim=-1)


def _cancelling(x, A):
    sums = _mixed(x[..., :1] + 2.0 * x[..., 1:], A)
    return torch.cat([sums, -sums], dim=-1)


def _in_one_feature(x, A):
    return torch.cat([torch.ones_like(x[..., 1:]), _mixed(x[..., :1] - 3.0 * x[..., 1:2], A)], dim=-1)


def _leaking_without_a_gradient(x, A):
    return _mixed(x, A) + _mixed(x.detach(), A.transpose(0, 1))


def _less_its_mean(x):
    """Each token less the mean of its features, as a layer norm begins, then times 1, 2, 3, ...

    It is rounded, because not every number that is added to all features, and off again with the mean, leaves them as
    they were to the last bit. Where x is on a grid much wider than 2^-14 and d is a power of two, none moves it.
    """
    normed = x - x.mean(dim=-1, keepdim=True)
    return (normed * 2**14).round() / 2**14 * torch.arange(1.0, x.size(-1) + 1)


def _normed_before(x, A):
    return x + _mixed(_less_its_mean(x), A)


def _of_the_first_feature(x, A):
    return _mixed(x[..., :1], A).repeat(1, 1, x.size(-1))


def _of_the_last_feature(x, A):
    return _mixed(x[..., -1:], A).repeat(1, 1, x.size(-1))


CAUSAL, SCATTERED = ones(5).tril(), torch.tensor([[0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1]])
EACH_TOKEN = "(x) -> x"
SUMS = "(x) -> sums of the tokens up to each one"
NORMED = "(x) -> each token, and the sum of the tokens up to it, each less the mean of its features, times 1, 2, ..."


def _sums(x):
    return _mixed(x, ones(x.size(1)).tril().unsqueeze(-1))


def _normed_sums(x):
    return x + _sums(_less_its_mean(x))


MOVES = (
    _moves_probe("a causal model", 1, 5, 3, _mixed, CAUSAL),
    _moves_probe("another size", 2, 3, 4, _mixed, CAUSAL[:3, :3]),
    _moves_probe("a small leak", 3, 4, 3, _with_a_small_leak, CAUSAL[:4, :4]),
    _moves_probe("changes that cancel in a sum", 4, 4, 2, _cancelling, CAUSAL[:4, :4]),
    _moves_probe("outputs that move in one feature only", 5, 4, 3, _in_one_feature, CAUSAL[:4, :4]),
    _moves_probe("a token that nobody looks at, and an output that looks at nothing", 6, 4, 3, _mixed, SCATTERED),
    _moves_probe("a leak that has no gradient", 7, 4, 3, _leaking_without_a_gradient, CAUSAL[:4, :4]),
    _moves_probe("a model that sees everything", 8, 4, 3, _mixed),
    _moves_probe("one token", 9, 1, 3, _mixed),
    _moves("a model that gives x back", _model(EACH_TOKEN, 4, 3, torch.clone), random_tensor(SEED + 10, 1, 4, 3)),
    _moves("tokens that are alike", _model(SUMS, 5, 1, _sums), torch.tensor([[[0.0], [0.0], [1.0], [1.0], [2.0]]])),
    _moves_probe("a model that norms its tokens first", 11, 5, 4, _normed_before, grid=8),
    _moves_probe("a model that reads the first feature alone", 12, 4, 3, _of_the_first_feature, CAUSAL[:4, :4]),
    _moves_probe("a model that reads the last feature alone", 13, 3, 4, _of_the_last_feature, CAUSAL[:3, :3]),
)
SMALL_MOVES = (
    _moves("", _model(SUMS, 1, 1, _sums), torch.tensor([[[2.0]]])),
    _moves("", _model(EACH_TOKEN, 2, 1, torch.clone), torch.tensor([[[2.0], [3.0]]])),
    _moves("", _model(SUMS, 2, 1, _sums), torch.tensor([[[2.0], [3.0]]])),
    _moves("", _model(SUMS, 2, 1, _sums), torch.tensor([[[0.0], [0.0]]])),
    _moves("", _model(SUMS, 3, 1, _sums), torch.tensor([[[2.0], [3.0], [4.0]]])),
    _moves("", _model(NORMED, 2, 2, _normed_sums), torch.tensor([[[1.0, 3.0], [2.0, 0.0]]])),
)


def _block_attention(seed, H, d_model):
    """Self-attention with fixed weights, as a function of the normed tokens and the mask."""
    attention = fixed_attention(seed, H, d_model)

    def attend(normed, mask=None):
        return attention(normed, normed, normed, mask)[0]

    attend.__doc__ = f"self-attention: {attention.__doc__}"
    return attend


def _block_probe(name, seed, B, T, H, d_k, gradients=False, alike=False):
    d_model = H * d_k
    x = 8.0 * random_tensor(seed, B, T, d_model)  # so large that it does not matter where the 1e-5 is added
    if alike:
        x[0, 1] = 2.0
    arguments = {"x": x, "attend": _block_attention(seed, H, d_model)}
    return Probe(name, arguments, {"B": B, "T": T, "d_model": d_model}, gradients)


def _small_block(x):
    x = torch.tensor([x])
    arguments = {"x": x, "attend": _block_attention(None, 1, x.size(2))}
    return Probe("", arguments, {"B": 1, "T": x.size(1), "d_model": x.size(2)})


BLOCK = (
    _block_probe("all sizes different", 1, 2, 5, 2, 3, gradients=True),
    _block_probe("other sizes", 2, 3, 4, 2, 4),
    _block_probe("as many samples as tokens", 3, 3, 3, 2, 3),
    _block_probe("a token whose features are all equal", 4, 2, 4, 2, 3, alike=True),
    _block_probe("a batch of one", 6, 1, 5, 2, 3),
    _block_probe("one token", 7, 2, 1, 2, 3),
)
SMALL_BLOCK = (
    _small_block([[1.0, 3.0]]),
    _small_block([[1.0, 3.0], [0.0, 2.0]]),
    _small_block([[1.0, 3.0], [4.0, 0.0]]),
    _small_block([[1.0, 1.0], [4.0, 0.0]]),
)

EXERCISES = (
    Exercise(
        id="outputs_that_move",
        reference=outputs_that_move,
        returns={"moved": "T T"},
        by_steps=moves_by_steps,
        probes=MOVES,
        resized="another size",
        small=SMALL_MOVES,
        mistakes=MOVES_MISTAKES,
        hints=(
            "How often must the model run, for T tokens, and what are its outputs compared with?",
            "For each i, change a fresh copy (`clone`) in token i alone, each feature by another amount. The "
            "comparison is (1, T, d): what does it take for an output to have moved, and is the answer a row or a "
            "column?",
            "`changed = x.clone()`, `changed[:, i] += torch.randn(x.size(2))`, `moved[:, i] = (model(changed) != "
            "before)[0].any(dim=-1)`.",
        ),
        why="One token differs between the two runs and nothing else, so an output that differs has seen it, whatever "
        "the model is made of: a leak that shows is proved.",
        stretch="A run that shows no leak is evidence, with this x and these changes. Which x, or which change, could "
        "hide one?",
    ),
    Exercise(
        id="find_the_bug_in_causal_block",
        reference=causal_block,
        returns={"output": "B T d_model"},
        by_steps=block_by_steps,
        probes=BLOCK,
        resized="other sizes",
        small=SMALL_BLOCK,
        mistakes=BLOCK_MISTAKES,
        hints=(
            "Run `outputs_that_move` on the block, then look at the mask alone. Is the leak in it?",
            "Which lines, other than attention, turn the numbers of several tokens into one? Write down the shapes of "
            "`mean` and `std`.",
            "A token may be normalised by its own features only: `dim=-1` instead of `dim=(1, 2)`, in both places.",
        ),
        why="Each token is normalised by its own features, so attention is the only place where tokens meet, and its "
        "mask is enough.",
        stretch="`nn.BatchNorm1d` averages over the batch and the positions. What would it do to a causal model in "
        "training?",
        given="normalised over the tokens too",
    ),
)
