"""Odd answers and odd kernels: no right answer is refused, nothing raises, nothing of the reader's is changed."""

import logging
import math
import warnings

import answers_cross_attention  # noqa: F401  # its answers enter themselves, and so do those of the next three
import answers_multi_head  # noqa: F401
import answers_recurrent  # noqa: F401
import answers_self_attention  # noqa: F401
import matplotlib.pyplot as plt
import pytest
import torch
import torch.nn.functional as F
from answers import ANSWERS
from IPython.display import display
from IPython.utils.capture import capture_output

from utils.attention import align, scaled_dot_product_attention
from utils.exercises import check, checking, diagnosing
from utils.exercises.catalogue import EXERCISES, find
from utils.exercises.checking import examine


def twice(exercise_id, function):
    """The status of a check, made twice: the same word both times."""
    one, other = examine(exercise_id, function), examine(exercise_id, function)
    assert one == other
    return one.status


# Right answers in other styles


class ZerosForNone(torch.autograd.Function):
    """The attention with gradients of its own, zeros where nothing flows back, as compiled functions give them."""

    @staticmethod
    def forward(ctx, Q, K, V):
        ctx.save_for_backward(Q, K, V)
        return scaled_dot_product_attention(Q, K, V)

    @staticmethod
    def backward(ctx, *gradients):
        with torch.enable_grad():
            inputs = [x.detach().requires_grad_() for x in ctx.saved_tensors]
            outputs = scaled_dot_product_attention(*inputs)
            found = torch.autograd.grad(outputs, inputs, gradients, allow_unused=True)
        return tuple(torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True))


def test_gradients_of_zero_are_as_good_as_none():
    assert twice("attention", ZerosForNone.apply) == "correct"


def test_a_softmax_by_logsumexp_is_right_at_scores_that_float32_knows_coarsely():
    def masked_attention(Q, K, V, mask=None):
        scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
        if mask is None:
            weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
            return weights @ V, weights
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = (scores - scores.logsumexp(-1, keepdim=True)).exp().masked_fill(~mask, 0.0)
        return weights @ V, weights

    def stable_align(scores, keys, lengths):
        is_word = torch.arange(scores.size(1)) < lengths.unsqueeze(1)
        scores = scores.masked_fill(~is_word, -math.inf)
        weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
        return torch.einsum("bt,btd->bd", weights, keys), weights

    assert twice("masked_attention", masked_attention) == "correct"
    assert twice("align", stable_align) == "correct"


# Kernels in another state


@pytest.fixture(
    params=["float64 by default", "meta by default", "autocast", "inference mode", "no gradients", "deterministic"]
)
def odd_kernel(request):
    """A kernel whose reader has changed one of torch's defaults."""
    contexts = {
        "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        "inference mode": torch.inference_mode,
        "no gradients": torch.no_grad,
    }
    try:
        if request.param == "float64 by default":
            torch.set_default_dtype(torch.float64)
        elif request.param == "meta by default":
            torch.set_default_device("meta")
        elif request.param == "deterministic":
            torch.use_deterministic_algorithms(True)
        if request.param in contexts:
            with contexts[request.param]():
                yield request.param
        else:
            yield request.param
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
        torch.use_deterministic_algorithms(False)


def kernel_state():
    return torch.get_default_dtype(), torch.get_default_device(), torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("exercise_id", ["attention", "align", "padding_mask", "outputs_that_move"])
def test_a_right_answer_is_right_in_every_kernel_and_leaves_it_as_it_was(odd_kernel, exercise_id):
    before = kernel_state()
    assert twice(exercise_id, find(exercise_id).reference) == "correct"
    assert kernel_state() == before


def test_an_answer_that_changes_defaults_leaves_them_as_they_were():
    def attention(Q, K, V):
        torch.set_default_dtype(torch.float64)
        torch.use_deterministic_algorithms(True)
        return scaled_dot_product_attention(Q, K, V)

    before = kernel_state()
    assert twice("attention", attention) == "correct"
    assert kernel_state() == before


def test_an_answer_right_only_while_torch_is_replaced_does_not_spoil_later_checks(monkeypatch):
    diagnosing._made.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(torch, "softmax", lambda x, dim: x)
        examine("align", align)
    assert twice("align", align) == "correct"


# What an answer shows besides


def test_side_output_appears_once(shell, caplog):
    def attention(Q, K, V):
        print("printed")
        warnings.warn("warned", stacklevel=1)
        logging.getLogger("reader").warning("logged")
        display("displayed")
        plt.figure()
        return scaled_dot_product_attention(Q, K, V)

    plt.close("all")
    with capture_output() as shown, warnings.catch_warnings(record=True) as warned, caplog.at_level("WARNING"):
        warnings.simplefilter("always")
        check("attention", attention)
    assert shown.stdout.count("printed") == 1
    assert [str(one.message) for one in warned].count("warned") == 1
    assert [record.message for record in caplog.records].count("logged") == 1
    assert sum("displayed" in str(output.data) for output in shown.outputs) == 1
    assert len(plt.get_fignums()) == 1
    plt.close("all")


# Wrong answers that were accepted or misnamed


def test_another_precision_is_told_by_its_type():
    report = examine("attention", lambda Q, K, V: tuple(x.double() for x in scaled_dot_product_attention(Q, K, V)))
    assert report.status == "shape"
    assert "output holds torch.float64; expected torch.float32" in report.text


@pytest.mark.parametrize(
    "noise",
    [
        lambda weights: F.dropout(weights, 0.5),
        lambda weights: weights * torch.rand(()),
        lambda weights: torch.nn.Linear(weights.size(-1), weights.size(-1))(weights),
    ],
)
def test_what_draws_random_numbers_is_called_that(noise):
    def attention(Q, K, V):
        weights = noise(scaled_dot_product_attention(Q, K, V)[1])
        return weights @ V, weights

    assert examine("attention", attention).mistakes == ("another answer each time",)


def test_a_gradient_cut_on_a_later_input_alone_is_named():
    def attention(Q, K, V):
        if Q.dim() != 3:
            Q = Q.detach()
        return scaled_dot_product_attention(Q, K, V)

    gradients = [probe for probe in EXERCISES["attention"].probes if probe.gradients]
    if any(probe.arguments["Q"].dim() != 3 for probe in gradients):
        assert examine("attention", attention).mistakes == ("gradient cut",)


@pytest.mark.parametrize("exercise_id", EXERCISES)
def test_an_error_added_to_a_known_mistake_is_never_another_mistake(exercise_id):
    """Any error is like any other: an answer that raises on one input only is not given a second name for it."""
    exercise = EXERCISES[exercise_id]
    if exercise.run is not None:
        return
    chosen = [a for a in ANSWERS if a.exercise == exercise_id and a.status == "diagnosed" and len(a.mistakes) == 1][:6]
    assert chosen
    for answer in chosen:
        calls = []

        def raising(*arguments, answer=answer, calls=calls):
            calls.append(arguments)
            if len(calls) % len(exercise.probes) == 1:
                raise RuntimeError("an error of another kind")
            return answer.function(*arguments)

        named = set(examine(exercise_id, raising).mistakes)
        assert named <= {*answer.mistakes, "another answer each time"}, (answer.function, named)


# Answers that cannot be compared


class Mute(Exception):
    def __str__(self):
        raise ValueError("no words")


def wraps_itself(Q, K, V):
    raise RuntimeError("lost")


wraps_itself.__wrapped__ = wraps_itself


def raises_mute(Q, K, V):
    raise Mute


def odd(make):
    return lambda Q, K, V: (make(Q), make(V))


@pytest.mark.parametrize(
    "function",
    [
        odd(lambda x: x.to(torch.float8_e4m3fn)),
        odd(lambda x: torch.nested.nested_tensor([x[0], x[1]]) if x.size(0) > 1 and x.dim() > 2 else x),
        odd(lambda x: torch.quantize_per_tensor(x.detach(), 0.1, 0, torch.quint8)),
        odd(lambda x: x.to_sparse()),
        odd(lambda x: x.to(torch.complex64)),
        odd(lambda x: x.to("meta")),
        odd(lambda x: torch.masked.masked_tensor(x.detach(), torch.ones_like(x, dtype=torch.bool))),
        odd(lambda x: x.detach().numpy()),
        raises_mute,
        wraps_itself,
    ],
)
def test_check_raises_nothing_whatever_comes(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = examine("attention", function)
    assert report.status in ("error", "shape", "wrong")
    assert repr(report)


def test_an_answer_that_never_ends_is_stopped(monkeypatch):
    def attention(Q, K, V):
        while True:
            try:
                torch.softmax(Q, dim=-1)
            except Exception:
                continue

    monkeypatch.setattr(checking, "SECONDS", 0.3)
    assert "**Stopped after" in examine("attention", attention).text
    monkeypatch.undo()
    assert examine("attention", scaled_dot_product_attention).status == "correct"


# Messages


def test_a_stub_that_raises_or_returns_nothing_is_not_started(shell):
    for body in ("raise NotImplementedError", "raise NotImplementedError('todo')", "return None", "return"):
        shell.run_cell(f"def stub(Q, K, V):\n    '''Returns output and weights.'''\n    {body}")
        assert examine("attention", shell.user_ns["stub"]).status == "not started"


def test_a_name_that_is_nearly_one_is_answered_with_it():
    with pytest.raises(ValueError, match="did you mean 'masked_attention'"):
        check("mask_attention", lambda: None)


def test_numbers_that_differ_late_are_shown_with_digits_enough():
    def attention(Q, K, V):
        weights = scaled_dot_product_attention(Q, K, V)[1] * (1 + 2e-4)
        return weights @ V, weights

    text = examine("attention", attention).text
    expected, got = text.split("weights\n")[1].split("\n")[1].split("    ")[-2:]
    assert expected.strip() != got.strip()


def test_and_between_tensors_is_told_by_its_sign():
    def masked_attention(Q, K, V, mask=None):
        return scaled_dot_product_attention(Q, K, V, mask and mask)

    assert "it is `&`" in examine("masked_attention", masked_attention).text


def test_large_whole_numbers_are_shown_as_they_are():
    report = examine("shift_target", lambda target: (target[:, :-1] * 1.0e19, target[:, 1:] * 1.0e19))
    assert "-9223372036854775808" not in report.text


def test_one_thing_is_one_thing():
    assert "1 thing:" in examine("attention", lambda Q, K, V: (Q,)).text
