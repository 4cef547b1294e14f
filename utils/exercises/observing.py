"""Run a function on a probe and take down everything about the call that can be compared."""

import contextlib
import inspect
import io
import random
import traceback
from dataclasses import dataclass, field

import numpy as np
import torch


@dataclass
class Observation:
    """What one call did.

    Attributes:
        results: by name, the tensors that it returned; empty when it did not return them.
        returned: what it returned, as it came.
        gradients: by (number of the result, argument), the gradient, or None where nothing flowed back; empty when
            not asked for.
        changed: the arguments that are not as they were before the call.
        error: what it raised, or None.
        in_backward: whether it was the computation of gradients that raised.
    """

    results: dict = field(default_factory=dict)
    returned: object = None
    gradients: dict = field(default_factory=dict)
    changed: list = field(default_factory=list)
    error: Exception | None = None
    in_backward: bool = False


def observe(function, probe, names, quiet=False):
    """Call a reader's function on fresh copies of the probe's arguments.

    Args:
        function: takes the probe's arguments by position.
        probe: a `Probe`.
        names: the names of the tensors that it should return.
        quiet: keep what it prints off the page, so that a `print` inside it shows once and not for every probe.

    Returns:
        An Observation. Random numbers drawn by the function do not change the state of the reader's.
    """
    with _random_state_kept(), contextlib.redirect_stdout(io.StringIO()) if quiet else contextlib.nullcontext():
        return call(function, probe, names)


def call(function, probe, names):
    """As `observe`, for a function of the course's own, which neither prints nor draws random numbers."""
    given = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in probe.arguments.items()}
    if probe.gradients:
        for value in given.values():
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                value.requires_grad_()
    seen = Observation()
    with torch.enable_grad():
        try:
            seen.returned = function(*given.values())
            results = _named_tensors(seen.returned, names)
            seen.in_backward = True
            if probe.gradients and results:
                seen.gradients = _gradients(results.values(), given)
            seen.in_backward = False
            seen.results = {name: tensor.detach() for name, tensor in results.items()}
        except (Exception, SystemExit) as error:  # whatever the reader's code does
            seen.error = error
    seen.changed = [
        name
        for name, value in given.items()
        if isinstance(value, torch.Tensor) and not torch.equal(value, probe.arguments[name])
    ]
    return seen


@contextlib.contextmanager
def _random_state_kept():
    """Put the random numbers of torch, numpy and Python back to where they stood."""
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)


def _named_tensors(returned, names):
    """The returned tensors by name, or nothing where they are not as many tensors as there are names."""
    values = (returned,) if len(names) == 1 else returned
    if not isinstance(values, (tuple, list)) or len(values) != len(names):
        return {}
    if not all(_plain(value) for value in values):
        return {}
    return dict(zip(names, values, strict=True))


def _plain(value):
    """Whether this is a tensor of real numbers that can be looked at: not sparse, not complex, not on `meta`."""
    return (
        isinstance(value, torch.Tensor)
        and value.layout == torch.strided
        and value.device.type == "cpu"
        and not value.is_complex()
    )


def _gradients(results, given):
    """Gradients of a fixed mixture of each of the results, by (result number, argument)."""
    leaves = {k: v for k, v in given.items() if isinstance(v, torch.Tensor) and v.requires_grad}
    gradients = {}
    for number, result in enumerate(results):
        found = [None] * len(leaves)
        if result.requires_grad:
            mixture = torch.cos(torch.arange(result.numel(), dtype=result.dtype)).view(result.shape)
            found = torch.autograd.grad(
                (result * mixture).sum(), list(leaves.values()), allow_unused=True, retain_graph=True
            )
        gradients.update({(number, name): gradient for name, gradient in zip(leaves, found, strict=True)})
    return gradients


def agree(one, other):
    """Whether two calls cannot be told apart: equal values and gradients, or an error in both."""
    if one.error is not None or other.error is not None:
        return (one.error is None) == (other.error is None)
    if not one.results or not other.results:
        return False
    return _equal(one.results, other.results) and _equal(one.gradients, other.gradients)


def same_error(one, other):
    """Whether two calls raised the same error in the same words."""
    return (type(one.error), str(one.error)) == (type(other.error), str(other.error))


def _equal(some, others):
    return some.keys() == others.keys() and all(tensors_equal(some[name], others[name]) for name in some)


def tensors_equal(one, other):
    """Equal in shape, in kind of number, and in value up to the rounding of float32; NaN equals NaN."""
    if one is None or other is None:
        return one is other
    if one.shape != other.shape or not same_kind(one, other):
        return False
    low = torch.float16 in (one.dtype, other.dtype)
    rtol, atol = (2e-2, 2e-2) if low else (1e-4, 1e-5)
    return torch.allclose(one.double(), other.double(), rtol=rtol, atol=atol, equal_nan=True)


def same_kind(one, other):
    """Whether two tensors hold the same kind of numbers: booleans, whole numbers (as ids are), or others."""
    kinds = [(t.dtype == torch.bool, t.is_floating_point()) for t in (one, other)]
    return kinds[0] == kinds[1]


def readers_line(error, function):
    """The number and text of the last line in the reader's own code that the error passed through.

    Args:
        error: an exception that was raised in `function`.
        function: the reader's function.

    Returns:
        (line number within its cell, source text), or None where the error never reached that code.
    """
    own = getattr(getattr(inspect.unwrap(function), "__code__", None), "co_filename", None)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == own or "ipykernel_" in frame.filename or frame.filename.startswith("<ipython-input")
    ]
    return (frames[-1].lineno, frames[-1].line) if frames else None
