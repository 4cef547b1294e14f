"""What an exercise is made of: probes to run a function on, mistakes to compare it with, hints."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

COARSE = 1e-2  # the tolerance where scores are near 40 000: float32 knows those to 0.004, and so an exp to 0.4 %


@dataclass(frozen=True)
class Probe:
    """One call of the function under test.

    Attributes:
        name: what is special about this input, as it follows "with" in a sentence.
        arguments: by name; tensors are cloned for each call. A function among them is shown by its docstring.
        sizes: the length of each named dimension, so that a shape can be told in names.
        gradients: whether the gradients with respect to floating-point arguments are compared too.
        told: arguments that are shown in these words instead of by their numbers.
        tolerance: by how much of itself a result may be off; larger where the numbers are so large that float32 itself
            rounds as coarsely.
    """

    name: str
    arguments: dict[str, Any]
    sizes: dict[str, int]
    gradients: bool = False
    told: dict[str, str] = field(default_factory=dict)
    tolerance: float = 1e-4


@dataclass(frozen=True)
class Mistake:
    """A known mistake: the reference with one thing changed.

    Attributes:
        name: what went wrong, in a few words.
        lead: a question that leads out of it.
        variants: the ways in which readers make it; each maps a step of the reference to what is done
            there instead. Two mistakes that change different steps can be made at once.
    """

    name: str
    lead: str
    variants: tuple[dict[str, Callable], ...]


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    Attributes:
        id: the name that `check` takes.
        reference: the function or class of `utils` that solves it.
        returns: by name, the named dimensions of each tensor that it returns; None where they depend on
            the input.
        by_steps: the reference once more, as `by_steps(changes, **arguments)`, with steps to change.
        probes: the first has the sizes that the exercise names.
        resized: the name of the probe that differs from the first in its sizes alone.
        small: inputs from the smallest up, to show a failure on.
        mistakes: the mistake bank.
        hints: a question, where to look, nearly the code.
        why: one line on why the right answer works.
        stretch: one question that goes further.
        half: a probe in float16, where the right answer may still fail and is told so.
        half_mistake: what is told when it fails there in a known way.
        shared: the arguments that belong to all samples alike, such as a matrix of weights: those without a batch axis.
        given: for find-the-bug, the name of the mistake in the code that the reader is given.
        run: where the answer is a class, `run(cls)` is the function of the probe's arguments that stands for it.
    """

    id: str
    reference: Callable
    returns: dict[str, str]
    by_steps: Callable
    probes: tuple[Probe, ...]
    resized: str
    small: tuple[Probe, ...]
    mistakes: tuple[Mistake, ...]
    hints: tuple[str, str, str]
    why: str
    stretch: str
    half: Probe | None = None
    half_mistake: Mistake | None = None
    shared: tuple[str, ...] = ()
    given: str | None = None
    run: Callable | None = None


class Unfit(Exception):
    """Raised by `Exercise.run`: an answer that cannot be run as its exercise asks. Its text is what the reader is told.

    Attributes:
        mistake: the name of the mistake, where it is a known one.
    """

    def __init__(self, text, mistake=None):
        super().__init__(text)
        self.mistake = mistake
