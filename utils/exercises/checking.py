"""`check`, `hint`, `solution`, `use`: what a reader calls on an exercise."""

import ast
import contextlib
import inspect
import re
import signal
import textwrap
import threading
from collections import Counter

from IPython.display import Markdown, display

from utils.exercises.catalogue import find
from utils.exercises.diagnosing import Report, diagnose
from utils.exercises.modules import refuse
from utils.exercises.observing import error_text, kernel_kept
from utils.exercises.wording import with_article
from utils.training import one_thread

SECONDS = 60.0  # that a check may take; the slowest right answer takes a few
_hints_given = Counter()


class ExerciseError(AssertionError):
    """An exercise is not solved; raised by `check(..., strict=True)` only."""


def check(exercise_id, function, strict=False):
    """Say how far a function solves an exercise, and if it does not, which mistake it makes.

    Args:
        exercise_id: the exercise, as its text names it.
        function: the reader's function, or the class where a class is asked for.
        strict: raise instead of only telling, as tests want it.

    Raises:
        ExerciseError: with `strict`, when the answer is not correct.
    """
    report = examine(exercise_id, function)
    if strict and report.status != "correct":
        raise ExerciseError(f"{exercise_id}: {report!r}")
    display(report)


def hint(exercise_id):
    """Show the next hint: a question first, then where to look, then nearly the code."""
    hints = find(exercise_id).hints
    level = min(_hints_given[exercise_id], len(hints) - 1)
    _hints_given[exercise_id] += 1
    more = "Run it again for the next one." if level < len(hints) - 1 else "That was the last one."
    display(Markdown(f"**Hint {level + 1} of {len(hints)}.** {hints[level]} {more}"))


def solution(exercise_id):
    """Show the source of the function or class in `utils` that solves the exercise."""
    reference = find(exercise_id).reference
    place = f"{reference.__module__.replace('.', '/')}.py"
    display(Markdown(f"`{reference.__name__}` in `{place}`:\n```python\n{inspect.getsource(reference)}```"))


def use(exercise_id, function):
    """The reader's function (or class) where it is correct, otherwise the course's, with a notice.

    Returns:
        A function, or a class where one is asked for, that solves the exercise, so that the cells below can be run in
        any case.
    """
    reference = find(exercise_id).reference
    if function is not reference and examine(exercise_id, function).status == "correct":
        name = getattr(function, "__name__", type(function).__name__)
        display(Markdown(f"The cells below run on your own `{name}`."))
        return function
    display(
        Markdown(
            f"The exercise `{exercise_id}` is not solved yet, so the cells below run on the course's own "
            f"`{reference.__name__}`. Solve it, run this cell again, and they run on yours."
        )
    )
    return reference


def examine(exercise_id, function):
    """Find out how far a function solves an exercise.

    Returns:
        A Report. It raises nothing that the function raises.
    """
    exercise = find(exercise_id)
    if exercise.run is not None and (refusal := refuse(exercise_id, function)):
        return Report("error", refusal)
    if not callable(function):
        return Report(
            "error",
            f"**Not a function.** `check` was given {with_article(type(function))}. Give it the function itself, "
            f"without calling it: `check({exercise_id!r}, your_function)`.",
        )
    methods = {} if exercise.run is None else vars(function)
    empty = [f"`{name}`" for name in ("__init__", "forward") if name in methods and _is_empty(methods[name])]
    if empty or _is_empty(function):
        where = f" in {' and in '.join(empty)}" if empty else ""
        return Report(
            "not started", f"**Not started.** Replace the `...`{where} with your code and run the cell again."
        )
    try:
        with (
            _no_longer_than(SECONDS),
            kernel_kept(),
            one_thread(),
        ):  # tensors of a hundred numbers are many times slower on two threads
            return diagnose(exercise, function if exercise.run is None else exercise.run(function))
    except TooLong:
        return Report(
            "error",
            f"**Stopped after {SECONDS:.0f} seconds.** The inputs of a check are tiny, so your function should answer "
            "in milliseconds. Is there a loop in it that never ends?",
        )
    except Exception as error:  # what came is so strange that it cannot even be compared
        return Report(
            "error",
            f"**It cannot be checked.** What it returns cannot be compared with numbers: {type(error).__name__}: "
            f"{error_text(error)}. Does it return plain tensors?",
        )


class TooLong(BaseException):
    """Raised in an answer that does not end; no `except Exception` of the reader's keeps it."""


@contextlib.contextmanager
def _no_longer_than(seconds):
    """Stop what runs inside after so many seconds, where that can be done: on the main thread, and not on Windows."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number, frame):
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _is_empty(function):
    """Whether it holds nothing yet: a docstring, `...`, `pass`, `return`, NotImplementedError, `super().__init__`."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):  # a function without source, or one that wraps itself
        return False
    if not isinstance(tree.body[0], ast.FunctionDef):
        return False
    return all(
        isinstance(line, ast.Pass)
        or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
        or re.fullmatch(
            r"super\(.*\)\.__init__\(\)|return( None)?|raise NotImplementedError(\(.*\))?", ast.unparse(line)
        )
        for line in tree.body[0].body
    )
