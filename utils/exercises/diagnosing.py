"""What is said of an answer: a list of looks at it, of which the first that has something to say is the report."""

import re
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import torch

from utils.exercises.catalogue import find
from utils.exercises.exercise import Probe, Unfit
from utils.exercises.observing import (
    agree,
    call,
    error_text,
    observe,
    readers_line,
    same_error,
    same_kind,
    tensors_equal,
)
from utils.exercises.wording import (
    capitalised,
    counted,
    describe,
    dimensions,
    kind_of,
    named_sizes,
    numbers,
    side_by_side,
)


@dataclass(frozen=True)
class Report:
    """What a check has to say.

    Attributes:
        status: "not started", "error", "shape", "diagnosed", "wrong" or "correct".
        text: what the reader is told, in Markdown.
        mistakes: the names of the mistakes that were recognised.
    """

    status: str
    text: str
    mistakes: tuple[str, ...] = ()

    def __repr__(self):
        text = self.text.replace("```text\n", "").replace("```", "")
        # Bold marks go; a ** in the reader's own line, which stands in backquotes, stays.
        return re.sub(r"`[^`\n]*`|\*\*(.+?)\*\*", lambda found: found[1] or found[0], text)

    def _repr_markdown_(self):
        return self.text


def diagnose(exercise, function):
    """Run a function on every probe of an exercise and say what there is to say of it.

    Args:
        exercise: an Exercise.
        function: takes the probe's arguments; for a class, what `exercise.run` makes of it.

    Returns:
        A Report.
    """
    seen = [observe(function, probe, exercise.returns, quiet=at > 0) for at, probe in enumerate(exercise.probes)]
    # Never kept from an earlier check: what the kernel was like then must not decide what is right now.
    wanted = [_observe_steps(exercise, {}, probe) for probe in exercise.probes]
    failing = [at for at in range(len(seen)) if not agree(seen[at], wanted[at])]
    for look in LOOKS:
        report = look(exercise, function, seen, wanted, failing)
        if report is not None:
            return report


@cache
def _changes(exercise_id):
    """Every way to go wrong: (mistakes, changed steps, ways that are a half of it), single mistakes first, then two."""
    singles = [(m, changes) for m in find(exercise_id).mistakes for changes in m.variants]
    pairs = [
        ((singles[one][0], singles[other][0]), {**singles[one][1], **singles[other][1]}, (one, other))
        for one, other in combinations(range(len(singles)), 2)
        if singles[one][0] is not singles[other][0] and not singles[one][1].keys() & singles[other][1].keys()
    ]
    return [((mistake,), changes, ()) for mistake, changes in singles] + pairs


@cache
def _made(exercise_id, way, at):
    """What a way to go wrong, by its number, gives on probe `at`."""
    exercise = find(exercise_id)
    made = _observe_steps(exercise, _changes(exercise_id)[way][1], exercise.probes[at])
    made.returned = None  # what is kept need not hold a graph or the frames of a traceback
    if made.error is not None:
        made.error = made.error.with_traceback(None)
    return made


def _observe_steps(exercise, changes, probe):
    """What the reference with some of its steps changed gives on a probe."""
    return call(lambda *arguments: exercise.by_steps(changes, *arguments), probe, exercise.returns)


def _diagnosed(mistakes, text):
    return Report("diagnosed", text, tuple(mistakes))


def _unfit(exercise, function, seen, wanted, failing):
    """The answer cannot even be run: a class that is not built as the exercise asks."""
    error = next((one.error for one in seen if isinstance(one.error, Unfit)), None)
    if error is None:
        return None
    return _diagnosed([error.mistake], str(error)) if error.mistake else Report("error", str(error))


def _changed_in_place(exercise, function, seen, wanted, failing):
    names = sorted({name for one in seen for name in one.changed})
    if not names:
        return None
    return _diagnosed(
        ["an input changed in place"],
        f"**An input changed in place.** After the call, {' and '.join(f'`{n}`' for n in names)} is not what it was, "
        "so a second call would give another answer. Which of your lines writes into it (`+=`, `/=`, a method that "
        "ends in `_`)?",
    )


def _correct(exercise, function, seen, wanted, failing):
    if failing:
        return None
    text = f"**Correct.** {exercise.why}\n\n*To go further:* {exercise.stretch}"
    if exercise.half is None:
        return Report("correct", text)
    half = observe(function, exercise.half, exercise.returns, quiet=True)
    if agree(half, _observe_steps(exercise, {}, exercise.half)):
        return Report("correct", text)
    known = any(
        agree(half, made) and (half.error is None or same_error(half, made))
        for made in (_observe_steps(exercise, v, exercise.half) for v in exercise.half_mistake.variants)
    )
    what = f"it raises: {error_text(half.error)}" if half.error else "the result is wrong"
    name, lead = (exercise.half_mistake.name, exercise.half_mistake.lead) if known else ("half precision", "")
    return Report(
        "correct", f"{text}\n\n**One thing is left: {name}.** In float16 {what}. {lead}", (name,) if known else ()
    )


def _known_mistakes(exercise, function, seen, wanted, failing):
    """The first known mistake, or two at once, that gives the same on every probe."""
    # Probes without gradients first, as they take a fraction of the time; of these, those that fail.
    order = sorted(range(len(seen)), key=lambda at: (exercise.probes[at].gradients, at not in failing))
    for way, (mistakes, _, halves) in enumerate(_changes(exercise.id)):
        convinced = False
        for at in order:
            made = _made(exercise.id, way, at)
            if not agree(seen[at], made):
                break
            # Two errors look alike, so it takes a wrong value in common, or the same words, to convince.
            if not agree(made, wanted[at]):
                convinced |= made.error is None or same_error(seen[at], made)
        else:
            if convinced and all(_shows(exercise.id, seen, way, half) for half in halves):
                return _name(exercise, function, seen, wanted, failing, mistakes)
    return None


def _shows(exercise_id, seen, way, half):
    """Whether two mistakes at once are told from one of them alone: by a result, or by errors in the same words.

    Any error is like any other error, so a half that only raises would be named with whatever else is wrong.
    """
    same_words = []
    for at, one in enumerate(seen):
        both, alone = _made(exercise_id, way, at), _made(exercise_id, half, at)
        if not agree(both, alone):
            if both.error is None:
                return True
            same_words.append(same_error(one, both))
    return len(same_words) > 1 and all(same_words)


def _name(exercise, function, seen, wanted, failing, mistakes):
    names = [mistake.name for mistake in mistakes]
    if names == [exercise.given]:  # the bug that the reader is here to find: show what it does, no more
        return _wrong(exercise, function, seen, wanted, failing)
    if len(mistakes) == 1:
        return _diagnosed(names, f"**{capitalised(names[0])}.** {mistakes[0].lead}")
    told = "\n".join(f"- **{mistake.name}**: {mistake.lead}" for mistake in mistakes)
    return _diagnosed(names, f"**Two mistakes at once.**\n{told}")


def _gradient_cut(exercise, function, seen, wanted, failing):
    """Right values, but nothing flows back to an argument."""
    for at in range(len(seen)):
        if seen[at].error or not seen[at].results:
            return None
        if not all(tensors_equal(seen[at].results[name], wanted[at].results[name]) for name in exercise.returns):
            return None
    cut = {
        place
        for one, right in zip(seen, wanted, strict=True)
        for place, gradient in one.gradients.items()
        if not gradient.any() and right.gradients[place].any()
    }
    if not cut:
        return None
    returned = list(exercise.returns)
    paths = [f"from `{returned[number]}` to `{name}`" for number, name in sorted(cut)]
    return _diagnosed(
        ["gradient cut"],
        f"**Gradient cut.** The values are right, but no gradient flows back {', '.join(paths)}, so nothing could be "
        "learned that way. Which of your lines leaves torch's graph (`detach`, `.data`, numpy, `torch.tensor(...)`, "
        "`no_grad`)?",
    )


def _sizes_hard_coded(exercise, function, seen, wanted, failing):
    """Right on the sizes of the exercise, not on others."""
    resized = next(at for at, probe in enumerate(exercise.probes) if probe.name == exercise.resized)
    if 0 in failing or resized not in failing:
        return None
    first, second = (named_sizes(exercise.probes[at].sizes) for at in (0, resized))
    what = f"raises {type(seen[resized].error).__name__}" if seen[resized].error else "is wrong"
    return _diagnosed(
        ["right for these sizes only"],
        f"**Right for these sizes only.** It is right for {first} and {what} for {second}. Which number or step "
        "in your code fits the first case alone, and what could you read off a tensor instead?",
    )


def _error(exercise, function, seen, wanted, failing):
    at = next((at for at in failing if seen[at].error is not None), None)
    if at is None:
        return None
    error, probe = seen[at].error, exercise.probes[at]
    inputs = ", ".join(
        f"{name}: {probe.told[name]}" if name in probe.told else describe(name, value, probe.sizes)
        for name, value in probe.arguments.items()
    )
    line, where = readers_line(error, function), ""
    if line and not seen[at].in_backward:
        where = f" in line {line[0]} of your cell" + (f", `{line[1]}`" if line[1] else "")
    if seen[at].in_backward:
        where = " when its gradients are computed"
        meaning = "Which line writes into a tensor that the gradient still needs (a method that ends in `_`, `+=`)?"
    elif isinstance(error, TypeError) and line is None:
        meaning = f"It was called with {counted(len(probe.arguments), 'argument')}, {', '.join(probe.arguments)}."
    elif isinstance(error, AttributeError) and "Module.__init__() call" in str(error):
        meaning = "Does your `__init__` begin with `super().__init__()`?"
    elif "Boolean value of Tensor" in error_text(error):
        meaning = "`and`, `or`, `not`, `if` ask a whole tensor for one yes or no. Elementwise it is `&`, `|`, `~`."
    elif isinstance(error, NameError):
        meaning = "Is that name defined inside your function, or imported?"
    elif isinstance(error, (RuntimeError, ValueError)) and any(word in error_text(error) for word in ("size", "shape")):
        meaning = "Two axes meet there whose lengths do not fit. Write the shape of each tensor beside its line."
    else:
        meaning = "Print the shapes above that line to see what goes into it."
    return Report(
        "error",
        f"**It raises an error**{where}:\n```text\n{type(error).__name__}: {error_text(error)}\n```\n"
        f"The input was {probe.name}: {inputs}. {meaning}",
    )


def _shape(exercise, function, seen, wanted, failing):
    """The results are not the right number of tensors, or not of the right shape."""
    names = ", ".join(exercise.returns)
    for at in failing:
        probe = exercise.probes[at]
        if seen[at].error is None and not seen[at].results:
            returned = seen[at].returned
            came = "None: is there a `return`?" if returned is None else f"{kind_of(returned)}."
            asked = f"{names} as a tensor" if len(exercise.returns) == 1 else f"({names}) as tensors"
            return Report("shape", f"**Not what was asked for.** With {probe.name}, expected {asked}, got {came}")
        for name, tensor in seen[at].results.items():
            expected = wanted[at].results[name]
            if tensor.shape != expected.shape:
                return Report(
                    "shape",
                    f"**Shape.** With {probe.name}, {name} is {dimensions(tensor.shape, probe.sizes)}; expected "
                    f"{dimensions(expected.shape, probe.sizes, exercise.returns[name])}.",
                )
            if not same_kind(tensor, expected):
                return Report("shape", f"**Type.** {name} holds {tensor.dtype}; expected {expected.dtype}.")
    return None


def _random(exercise, function, seen, wanted, failing):
    """Whether a second call with the same input gives something else."""
    calls = [observe(function, exercise.probes[0], exercise.returns, quiet=True, seed=seed) for seed in (1, 2)]
    if not all(one.results for one in calls) or all(agree(one, seen[0]) for one in calls):
        return None
    return _diagnosed(
        ["another answer each time"],
        "**Another answer each time.** Two calls with the same input give different results. Which of your lines draws "
        "random numbers or keeps something from the last call?",
    )


def _batch_mixed(exercise, function, seen, wanted, failing):
    """Whether one sample's result depends on the other sample."""
    probe = exercise.probes[0]
    if probe.sizes.get("B", 1) < 2 or not seen[0].results:
        return None
    for changed, kept in ((1, 0), (0, 1)):
        others = {
            name: value if name in exercise.shared else _with_other_sample(value, changed)
            for name, value in probe.arguments.items()
        }
        after = observe(function, Probe(probe.name, others, probe.sizes), exercise.returns, quiet=True)
        if after.results and not all(
            tensors_equal(seen[0].results[name][kept], after.results[name][kept])
            for name in exercise.returns
            if seen[0].results[name].shape[:1] == after.results[name].shape[:1] == (probe.sizes["B"],)
        ):
            return _diagnosed(
                ["batch mixed"],
                f"**Batch mixed.** When sample {changed} is changed, the result for sample {kept} changes too. "
                "Which of your lines works along the batch axis?",
            )
    return None


def _with_other_sample(value, sample):
    """A copy of a tensor (B, ...) with other numbers in one sample; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    other = value.clone()
    if value.is_floating_point():
        other[sample] = torch.sin(3.0 * value[sample] + 1.0)
    elif value.dim() > 1:
        other[sample] = value[sample].flip(-1)
    else:  # one whole number a sample, such as a length: another one between the smallest and the largest
        other[sample] = value.min() + value.max() - value[sample]
    return other


def _wrong(exercise, function, seen, wanted, failing):
    """The smallest failing input, with what was expected and what came beside each other."""
    cases = [(probe, observe(function, probe, exercise.returns, quiet=True)) for probe in exercise.small]
    cases += [(exercise.probes[at], seen[at]) for at in failing]
    for probe, got in cases:
        expected = _observe_steps(exercise, {}, probe)
        if not agree(got, expected) and got.results:
            break
    else:
        return Report("wrong", "**Not right yet.**")
    inputs = "\n".join(
        f"{name}: {probe.told[name]}" if name in probe.told else f"{name} = {numbers(value)}"
        for name, value in probe.arguments.items()
    )
    tables = [
        side_by_side(name, expected.results[name], got.results[name])
        for name in exercise.returns
        if not tensors_equal(expected.results[name], got.results[name])
    ]
    if not tables:  # only the gradients differ
        tables = [
            side_by_side(
                f"gradient of {place[1]} through {list(exercise.returns)[place[0]]}",
                expected.gradients[place],
                got.gradients[place],
            )
            for place in expected.gradients
            if not tensors_equal(expected.gradients[place], got.gradients[place])
        ]
    return Report(
        "wrong",
        "**Not right yet.** The smallest input that shows it:\n```text\n"
        + inputs
        + "\n\n"
        + "\n\n".join(tables)
        + "\n```",
    )


LOOKS = (
    _unfit,
    _changed_in_place,
    _correct,
    _known_mistakes,
    _random,
    _gradient_cut,
    _batch_mixed,
    _sizes_hard_coded,
    _error,
    _shape,
    _wrong,
)  # in this order; the first that has something to say is the report
