"""Run a function on a probe and take down everything about the call that can be compared."""

import contextlib
import inspect
import io
import logging
import random
import sys
import traceback
import warnings
from dataclasses import dataclass, field

import numpy as np
import torch
from IPython.core.displaypub import CapturingDisplayPublisher

PLAIN_DTYPES = {
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
}


@dataclass
class Observation:
    """What one call did.

    Attributes:
        results: by name, the tensors that it returned; empty when it did not return them.
        returned: what it returned, as it came.
        gradients: by (number of the result, argument), the gradient, zeros where nothing flowed back; empty when not
            asked for.
        changed: the arguments that are not as they were before the call.
        error: what it raised, or None.
        in_backward: whether it was the computation of gradients that raised.
        tolerance: that of the probe.
    """

    results: dict = field(default_factory=dict)
    returned: object = None
    gradients: dict = field(default_factory=dict)
    changed: list = field(default_factory=list)
    error: Exception | None = None
    in_backward: bool = False
    tolerance: float = 1e-4


def observe(function, probe, names, quiet=False, seed=None):
    """Call a reader's function on fresh copies of the probe's arguments.

    Args:
        function: takes the probe's arguments by position.
        probe: a `Probe`.
        names: the names of the tensors that it should return.
        quiet: keep what it prints, warns of, logs and draws off the page: it shows once and not for every probe.
        seed: of the random numbers that it draws; those of the reader's kernel when left out.

    Returns:
        An Observation. Random numbers drawn by the function do not change the state of the reader's.
    """
    with kernel_kept(), _silence() if quiet else contextlib.nullcontext():
        if seed is not None:
            torch.manual_seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            random.seed(seed)
        return call(function, probe, names)


def call(function, probe, names):
    """As `observe`, for a function of the course's own, which neither prints nor draws random numbers."""
    with torch.inference_mode(False), torch.enable_grad(), torch.autocast("cpu", enabled=False):
        given = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in probe.arguments.items()}
        if probe.gradients:
            for value in given.values():
                if isinstance(value, torch.Tensor) and value.is_floating_point():
                    value.requires_grad_()
        seen = Observation(tolerance=probe.tolerance)
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
def kernel_kept():
    """Run something with torch's defaults as they are in a new kernel, and put back what was there before.

    The random numbers of torch, numpy and Python go on where they stood.
    """
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    dtype, device, strict = torch.get_default_dtype(), torch.get_default_device(), _deterministic()
    try:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_default_device(None if device.type == "cpu" else device)
        torch.use_deterministic_algorithms(strict[0], warn_only=strict[1])
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)


def _deterministic():
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _open_figures():
    pyplot = sys.modules.get("matplotlib.pyplot")
    return set(pyplot.get_fignums()) if pyplot else set()


@contextlib.contextmanager
def _silence():
    """Keep prints, warnings, log entries, what is displayed and figures off the page."""
    figures = _open_figures()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        level = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        stack.callback(logging.disable, level)
        if shell := _shell():
            hook = shell.display_pub
            shell.display_pub = CapturingDisplayPublisher(shell=shell)
            stack.callback(setattr, shell, "display_pub", hook)
        stack.callback(lambda: [sys.modules["matplotlib.pyplot"].close(new) for new in _open_figures() - figures])
        yield


def _shell():
    """The IPython that this runs in, or None."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module else None


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
        type(value) in (torch.Tensor, torch.nn.Parameter)
        and value.dtype in PLAIN_DTYPES
        and value.layout == torch.strided
        and value.device.type == "cpu"
        and not value.is_nested
        and not value.is_quantized
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
        # Where nothing flows back some functions say None and others, such as compiled ones, zeros: the same thing.
        gradients.update(
            {
                (number, name): torch.zeros_like(leaf) if gradient is None else gradient
                for (name, leaf), gradient in zip(leaves.items(), found, strict=True)
            }
        )
    return gradients


def agree(one, other):
    """Whether two calls cannot be told apart: equal values and gradients, or an error in both."""
    if one.error is not None or other.error is not None:
        return (one.error is None) == (other.error is None)
    if not one.results or not other.results:
        return False
    rtol = max(one.tolerance, other.tolerance)
    return _equal(one.results, other.results, rtol) and _equal(one.gradients, other.gradients, rtol)


def same_error(one, other):
    """Whether two calls raised the same error in the same words."""
    return (type(one.error), error_text(one.error)) == (type(other.error), error_text(other.error))


def error_text(error):
    """What an exception says; its type alone where it cannot say it."""
    try:
        return str(error)
    except Exception:  # a `__str__` of the reader's own
        return type(error).__name__


def _equal(some, others, rtol):
    return some.keys() == others.keys() and all(tensors_equal(some[name], others[name], rtol) for name in some)


def tensors_equal(one, other, rtol=1e-4):
    """Equal in shape, in kind of number, and in value up to the rounding of float32; NaN equals NaN."""
    if one.shape != other.shape or not same_kind(one, other):
        return False
    low = torch.float16 in (one.dtype, other.dtype)
    rtol, atol = (2e-2, 2e-2) if low else (rtol, 1e-5)
    return torch.allclose(one.double(), other.double(), rtol=rtol, atol=atol, equal_nan=True)


def same_kind(one, other):
    """Whether two tensors hold the same numbers: floating point of one dtype, whole numbers (as ids are), booleans."""
    if one.is_floating_point() or other.is_floating_point():
        return one.dtype == other.dtype
    return (one.dtype == torch.bool) == (other.dtype == torch.bool)


def readers_line(error, function):
    """The number and text of the last line in the reader's own code that the error passed through.

    Args:
        error: an exception that was raised in `function`.
        function: the reader's function.

    Returns:
        (line number within its cell, source text), or None where the error never reached that code.
    """
    try:
        function = inspect.unwrap(function)
    except ValueError:  # it wraps itself
        return None
    own = getattr(getattr(function, "__code__", None), "co_filename", None)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == own or "ipykernel_" in frame.filename or frame.filename.startswith("<ipython-input")
    ]
    return (frames[-1].lineno, frames[-1].line) if frames else None
