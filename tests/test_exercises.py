"""The exercises: what a check says to right answers, to known mistakes, and to everything else."""

import ast
import functools
import importlib
import inspect
import math
import re
import warnings
from dataclasses import replace
from pathlib import Path

import answers_cross_attention  # noqa: F401  # its answers enter themselves, and so do those of the next three
import answers_multi_head
import answers_recurrent
import answers_self_attention  # noqa: F401
import pytest
import torch
import torch.nn.functional as F
from answers import ANSWERS, ROWS, THREE_AT_ONCE, as_in_the_formula, lowest_number_then_zeros
from IPython.display import display
from IPython.utils.capture import capture_output

from utils.exercises import check, hint, predict, solution, use
from utils.exercises.catalogue import EXERCISES
from utils.exercises.checking import ExerciseError, examine
from utils.exercises.diagnosing import diagnose
from utils.exercises.observing import agree, observe, same_error
from utils.exercises.predictions import Prediction

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def settings_of_torch():
    """Put back what an answer may change for the whole process."""
    yield
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)


def examined(exercise_id, function):
    """The report on a function, with its warnings left warnings, as in a notebook."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return examine(exercise_id, function)


def shown(call, *arguments, **options):
    """What a call displays: one dictionary of MIME types each time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with capture_output() as captured:
            call(*arguments, **options)
    return [output.data for output in captured.outputs]


def cell(shell, source):
    """The function that a notebook cell defines last."""
    assert shell.run_cell(source).success
    return shell.user_ns[re.findall(r"^def (\w+)", source, flags=re.MULTILINE)[-1]]


def answers(status):
    return [pytest.param(a, id=f"{a.exercise}-{a.function.__name__}") for a in ANSWERS if a.status == status]


# ---------------------------------------------------------------- answers that readers write


@pytest.mark.parametrize("answer", answers("diagnosed"))
def test_known_mistake_is_named(answer):
    report = examined(answer.exercise, answer.function)
    assert (report.status, set(report.mistakes)) == ("diagnosed", set(answer.mistakes))
    assert len(report.mistakes) == len(answer.mistakes)
    assert report.text.count("?") >= len(answer.mistakes)  # each comes with a question that leads out of it


@pytest.mark.parametrize("answer", answers("correct"))
def test_right_answer_is_correct(answer):
    report = examined(answer.exercise, answer.function)
    assert (report.status, report.mistakes) == ("correct", answer.mistakes)
    exercise = EXERCISES[answer.exercise]
    assert exercise.why in report.text
    assert exercise.stretch in report.text
    for caveat in answer.mistakes:
        assert caveat in report.text


@pytest.mark.parametrize("answer", answers("wrong"))
def test_unlisted_mistake_and_given_bug_are_wrong_and_not_named(answer):
    report = examined(answer.exercise, answer.function)
    assert (report.status, report.mistakes) == ("wrong", ())
    assert "expected" in report.text
    assert "got" in report.text
    for mistake in EXERCISES[answer.exercise].mistakes:
        assert mistake.name not in report.text
        assert mistake.lead not in report.text


@pytest.mark.parametrize("answer", [pytest.param(a, id=a.function.__name__) for a in THREE_AT_ONCE])
def test_three_mistakes_at_once_are_never_misnamed(answer):
    report = examined(answer.exercise, answer.function)
    assert report.status != "correct"
    assert set(report.mistakes) <= set(answer.mistakes)


@pytest.mark.parametrize("row", ROWS)
def test_every_row_of_the_tables_is_made_by_a_wrong_answer(row):
    made = {answer.made for answer in ANSWERS if answer.status != "correct" or answer.mistakes}
    assert set(ROWS[row]) <= made


def test_answers_make_only_mistakes_of_the_tables():
    assert {answer.made for answer in ANSWERS} - {None} <= {mistake for row in ROWS.values() for mistake in row}


# ---------------------------------------------------------------- the mistake bank

VARIANTS = [
    pytest.param(exercise, mistake, changes, id=f"{exercise.id}-{mistake.name}-{at}")
    for exercise in EXERCISES.values()
    for mistake in exercise.mistakes
    for at, changes in enumerate(mistake.variants)
]


@pytest.mark.parametrize(("exercise", "mistake", "changes"), VARIANTS)
def test_every_variant_is_diagnosed_under_its_own_name(exercise, mistake, changes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = diagnose(exercise, functools.partial(exercise.by_steps, changes))
    if mistake.name == exercise.given:
        assert (report.status, report.mistakes) == ("wrong", ())
    else:
        assert (report.status, report.mistakes) == ("diagnosed", (mistake.name,))
        assert mistake.lead in report.text


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_mistakes_and_reference_can_all_be_told_apart(exercise):
    def seen(function):
        return [observe(function, probe, exercise.returns) for probe in exercise.probes]

    def alike(one, other):
        return all(map(agree, one, other))

    def convincing(some, others, wanted):  # errors alone tell two mistakes apart by their words
        failing = [
            (one, other) for one, other, right in zip(some, others, wanted, strict=True) if not agree(one, right)
        ]
        return any(one.error is None or same_error(one, other) for one, other in failing)

    wanted = seen(exercise.reference if exercise.run is None else exercise.run(exercise.reference))
    made = [
        (mistake.name, seen(functools.partial(exercise.by_steps, changes)))
        for mistake in exercise.mistakes
        for changes in mistake.variants
    ]
    assert alike(wanted, seen(functools.partial(exercise.by_steps, {})))
    assert [name for name, results in made if alike(results, wanted)] == []
    confused = [
        (name, other)
        for at, (name, results) in enumerate(made)
        for other, others in made[:at]
        if name != other and alike(results, others) and convincing(results, others, wanted)
    ]
    assert confused == []


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_the_function_in_utils_is_correct_without_a_caveat(exercise):
    report = examine(exercise.id, exercise.reference)
    assert (report.status, report.mistakes) == ("correct", ())
    assert "One thing is left" not in report.text


# ---------------------------------------------------------------- not started

STUBS = (
    "def attention(Q, K, V):\n    ...\n",
    "def attention(Q, K, V):\n    pass\n",
    'def attention(Q, K, V):\n    """Return the output and the weights."""\n',
    'def attention(Q, K, V):\n    """Return both."""\n    # scores, then weights\n    ...  # your code\n',
    "def attention(Q, K, V): ...\n",
    "# my attempt\ndef attention(Q, K, V):\n    # later\n    pass\n",
)


@pytest.mark.parametrize("stub", STUBS)
def test_stub_is_not_started(shell, stub):
    report = examine("attention", cell(shell, stub))
    assert report.status == "not started"


def test_started_below_the_dots_is_started():
    def attention(Q, K, V):
        ...
        weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1)
        return weights @ V, weights

    assert examine("attention", attention).status == "correct"


# ---------------------------------------------------------------- errors


def test_error_points_at_the_readers_own_line_in_its_cell(shell):
    source = "import math\n\ndef attention(Q, K, V):\n    d_k = Q.size(-1)\n    scores = Q @ K / math.sqrt(d_k)\n"
    report = examine("attention", cell(shell, source))
    assert report.status == "error"
    assert "line 5" in report.text
    assert "`scores = Q @ K / math.sqrt(d_k)`" in report.text
    assert "RuntimeError" in report.text
    for shape in ("Q (B=2, T_q=3, d_k=4)", "K (B=2, T_k=5, d_k=4)", "V (B=2, T_k=5, d_v=6)"):
        assert shape in report.text


def test_error_inside_a_helper_of_the_reader_points_into_the_helper(shell):
    source = "def score(Q, K):\n    return Q @ K\n\ndef attention(Q, K, V):\n    return score(Q, K), V\n"
    report = examine("attention", cell(shell, source))
    assert report.status == "error"
    assert "line 2" in report.text
    assert "`return Q @ K`" in report.text


def test_error_inside_torch_points_at_the_readers_line():
    def attention(Q, K, V):
        weights = F.softmax(Q @ K.transpose(-2, -1), dim=7)
        return weights @ V, weights

    report = examine("attention", attention)
    assert report.status == "error"
    assert "`weights = F.softmax(Q @ K.transpose(-2, -1), dim=7)`" in report.text
    assert "IndexError" in report.text


def test_undefined_name_is_an_error_that_asks_about_the_name():
    def attention(Q, K, V):
        return sotfmax(Q @ K.transpose(-2, -1)) @ V  # noqa: F821

    report = examine("attention", attention)
    assert report.status == "error"
    assert "NameError" in report.text
    assert "sotfmax" in report.text
    assert "imported" in report.text


def too_few(Q, K):
    return Q, K


def too_many(Q, K, V, mask):
    return V, mask


@pytest.mark.parametrize("function", [too_few, too_many])
def test_wrong_number_of_parameters_is_an_error_that_names_the_arguments(function):
    report = examine("attention", function)
    assert report.status == "error"
    assert "TypeError" in report.text
    assert "3 arguments, Q, K, V" in report.text


def test_error_on_a_later_input_only_names_that_input():
    def attention(Q, K, V):
        B, T_q, d_k = Q.shape
        weights = torch.zeros(B, T_q, K.size(-2))
        for i in range(T_q):
            scores = (K @ Q[:, i].unsqueeze(-1)).squeeze(-1) / math.sqrt(d_k)
            weights[:, i] = scores.softmax(dim=-1)
        return weights @ V, weights

    report = examine("attention", attention)
    assert report.status == "error"
    assert "`B, T_q, d_k = Q.shape`" in report.text
    assert "H=3" in report.text


def test_wrong_at_first_and_an_error_later_is_not_called_a_missing_return():
    def attention(Q, K, V):
        weights = torch.softmax(torch.einsum("bqd,bkd->bqk", Q, K) / 2.1, dim=-1)
        return torch.einsum("bqk,bkd->bqd", weights, V), weights

    report = examine("attention", attention)
    assert report.status in ("wrong", "error")
    assert "is there a `return`" not in report.text


def test_mask_without_a_default_is_an_error_that_says_so():
    def attention(Q, K, V, mask):
        scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
        weights = torch.softmax(scores.masked_fill(mask == 1, -3.0), dim=-1)
        return weights @ V, weights

    report = examine("masked_attention", attention)
    assert "is there a `return`" not in report.text
    assert report.status in ("wrong", "error")


def test_backward_that_fails_is_reported_and_not_raised():
    def attention(Q, K, V, mask=None):
        scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights.masked_fill_(~mask, 0.0)  # the softmax keeps its result for the backward pass
        return weights @ V, weights

    report = examine("masked_attention", attention)
    assert report.status in ("error", "diagnosed")
    assert "gradient" in report.text


def test_not_a_function_is_said():
    report = examine("attention", as_in_the_formula(torch.ones(1, 2), torch.ones(3, 2), torch.ones(3, 4)))
    assert report.status == "error"
    assert "tuple" in report.text
    assert "without" in report.text


# ---------------------------------------------------------------- shapes


def test_exchanged_axes_are_told_by_name():
    def attention(Q, K, V):
        weights = torch.softmax(K @ Q.transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-2)
        return weights.transpose(-2, -1) @ V, weights

    report = examine("attention", attention)
    assert (report.status, report.mistakes) == ("shape", ())
    assert "weights is (B=2, T_k=5, T_q=3)" in report.text
    assert "expected (B=2, T_q=3, T_k=5)" in report.text


def test_returned_in_the_wrong_order_is_told_by_name():
    def attention(Q, K, V):
        output, weights = as_in_the_formula(Q, K, V)
        return weights, output

    report = examine("attention", attention)
    assert report.status == "shape"
    assert "output is (B=2, T_q=3, T_k=5)" in report.text
    assert "expected (B=2, T_q=3, d_v=6)" in report.text


def test_mask_with_an_axis_too_many_is_told_by_name():
    report = examine("padding_mask", lambda token_ids, pad_id=0: (token_ids != pad_id)[:, None, None, :])
    assert report.status == "shape"
    assert "mask is (B=3, 1, 1, T=5)" in report.text
    assert "expected (B=3, 1, T=5)" in report.text


def test_wrong_numbers_for_a_boolean_mask_are_told_by_type():
    report = examine("causal_mask", lambda query_len, key_len=None: torch.eye(query_len, key_len or query_len))
    assert report.status == "shape"
    assert "torch.float32" in report.text
    assert "torch.bool" in report.text


def nothing_returned(Q, K, V):
    as_in_the_formula(Q, K, V)


def output_only(Q, K, V):
    return as_in_the_formula(Q, K, V)[0]


def three_returned(Q, K, V):
    return (*as_in_the_formula(Q, K, V), Q)


def numpy_returned(Q, K, V):
    return tuple(x.detach().numpy() for x in as_in_the_formula(Q, K, V))


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (nothing_returned, "None: is there a `return`?"),
        (output_only, "one tensor of shape (2, 3, 6)"),
        (three_returned, "3 things"),
        (numpy_returned, "ndarray"),
    ],
)
def test_not_two_tensors_is_told(function, told):
    report = examine("attention", function)
    assert (report.status, report.mistakes) == ("shape", ())
    assert "(output, weights)" in report.text
    assert told in report.text


def test_a_single_number_is_called_that():
    report = examine("find_the_bug_in_translation_loss", lambda logits, labels: logits.sum(dim=-1))
    assert report.status == "shape"
    assert "loss is (B=3, T=5); expected a single number" in report.text


def test_one_number_that_is_no_tensor_is_told():
    report = examine("find_the_bug_in_translation_loss", lambda logits, labels: logits.sum().item())
    assert report.status == "shape"
    assert "expected loss as a tensor, got a float" in report.text


def test_ids_that_are_no_whole_numbers_are_told_by_type():
    report = examine("shift_target", lambda target: (target[:, :-1], target[:, 1:].float()))
    assert report.status == "shape"
    assert "labels holds torch.float32; expected torch.int64" in report.text


def test_nothing_returned_for_one_of_the_scores_says_for_which():
    def luong_score(query, keys, score, W=None, v=None):
        if score == "concat":
            return answers_recurrent.concat_score(query, keys, W, v)
        if score == "dot":
            return (keys @ query.unsqueeze(-1)).squeeze(-1)

    report = examine("luong_score", luong_score)
    assert report.status == "shape"
    assert "With general" in report.text
    assert "is there a `return`" in report.text


# ---------------------------------------------------------------- functions among the inputs


def test_error_names_a_function_among_the_inputs_without_its_address():
    def luong_step(embedded, state, keys, cell, attention):
        return attention(state.unsqueeze(1), keys)

    report = examine("luong_step", luong_step)
    assert report.status == "error"
    assert "attention was called with query of shape (3, 1, 4); expected (B, 4)" in report.text
    assert "cell, a function" in report.text
    assert "0x" not in report.text


def test_wrong_shows_what_a_function_among_the_inputs_does():
    text = examine("find_the_bug_in_bahdanau_step", answers_recurrent.moves_and_then_looks).text
    assert "cell = (inputs, state) -> state + inputs" in text
    assert "attention = (query, keys) -> average of the keys" in text
    assert "0x" not in text


# ---------------------------------------------------------------- wrong: the smallest input, side by side


def test_wrong_shows_the_smallest_failing_input_with_both_results():
    def attention(Q, K, V):
        weights = torch.softmax(Q @ K.transpose(-2, -1) / 2.1, dim=-1)
        return weights @ V, weights

    text = examine("attention", attention).text
    lines = {name: re.search(rf"^{name} = (.*?)\n(?=\w* =|\n)", text, re.DOTALL | re.MULTILINE)[1] for name in "QKV"}
    Q, K, V = (torch.tensor(ast.literal_eval(lines[name]), dtype=torch.float32) for name in "QKV")
    # With one key every weight is 1, so one query and two keys are the smallest input that shows the scale.
    assert (Q.shape, K.shape, V.shape) == ((1, 4), (2, 4), (2, 2))
    first, second = (Q @ K.T)[0].tolist()
    for scale in (2.0, 2.1):
        assert f"{1 / (1 + math.exp((second - first) / scale)):.3f}" in text
    assert text.index("expected") < text.index("got")


def test_wrong_shows_a_gradient_where_only_that_differs():
    def attention(Q, K, V):
        output, weights = as_in_the_formula(Q, K, V)
        return output + (Q - Q.detach()).sum(), weights

    report = examine("attention", attention)
    assert report.status == "wrong"
    assert "gradient of Q" in report.text
    assert "gradient of V" not in report.text


def test_wrong_on_a_query_that_may_attend_to_nothing_shows_such_a_query():
    def attention(Q, K, V, mask=None):
        output, weights = lowest_number_then_zeros(Q, K, V, mask)
        if mask is not None:
            output = torch.where(mask.any(dim=-1, keepdim=True), output, 7.0)
        return output, weights

    report = examined("masked_attention", attention)
    assert (report.status, report.mistakes) == ("wrong", ())
    assert "mask = [[0, 0]]" in report.text
    assert "[[7, 7]]" in report.text


# ---------------------------------------------------------------- in place, hard-coded, cut, mixed: what is told


def test_change_in_place_names_the_argument():
    def attention(Q, K, V):
        K.mul_(Q.size(-1) ** -0.5)
        weights = torch.softmax(Q @ K.transpose(-2, -1), dim=-1)
        return weights @ V, weights

    report = examine("attention", attention)
    assert report.mistakes == ("an input changed in place",)
    assert "`K`" in report.text
    assert "`Q`" not in report.text


def test_hard_coded_sizes_are_told_with_those_that_work_and_those_that_do_not():
    def attention(Q, K, V):
        weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(4), dim=-1)
        return weights @ V, weights

    report = examine("attention", attention)
    assert report.mistakes == ("right for these sizes only",)
    assert "B=2, T_q=3, T_k=5, d_k=4, d_v=6" in report.text
    assert re.search(r"wrong for B=\d, T_q=\d, T_k=\d, d_k=(?!4)\d", report.text)


def test_cut_gradient_names_the_arguments_it_is_cut_from():
    def attention(Q, K, V):
        weights = torch.softmax(Q @ K.detach().transpose(-2, -1) / math.sqrt(Q.size(-1)), dim=-1)
        return weights @ V, weights

    report = examine("attention", attention)
    assert report.mistakes == ("gradient cut",)
    assert "from `output` to `K`, from `weights` to `K`," in report.text


def values_averaged_over_the_batch(Q, K, V):
    output, weights = as_in_the_formula(Q, K, V)
    return (output if V.dim() < 3 else weights @ V.mean(dim=0)), weights


def weights_averaged_over_the_batch(Q, K, V):
    output, weights = as_in_the_formula(Q, K, V)
    if Q.dim() > 2:
        weights = weights.mean(dim=0, keepdim=True).expand_as(weights)
        output = weights @ V
    return output, weights


def keys_of_the_first_sample_for_all(Q, K, V):
    return as_in_the_formula(Q, K[:1].expand_as(K) if K.dim() > 2 else K, V)


def letter_mistaken_in_einsum(Q, K, V):  # c for b: the keys of all samples are summed
    scores = torch.einsum("b...qd,c...kd->b...qk", Q, K) if Q.dim() > 2 else Q @ K.T
    weights = torch.softmax(scores / math.sqrt(Q.size(-1)), dim=-1)
    return weights @ V, weights


def letter_mistaken_in_einsum_for_three_axes(Q, K, V):
    weights = torch.softmax(torch.einsum("bqd,ckd->bqk", Q, K) / math.sqrt(Q.size(-1)), dim=-1)
    return torch.einsum("bqk,bkv->bqv", weights, V), weights


def scores_divided_by_their_deviation(Q, K, V):
    scores = Q @ K.transpose(-2, -1)
    weights = torch.softmax(scores / scores.std(), dim=-1)
    return weights @ V, weights


@pytest.mark.parametrize(
    "function",
    [
        values_averaged_over_the_batch,
        weights_averaged_over_the_batch,
        keys_of_the_first_sample_for_all,
        letter_mistaken_in_einsum,
        letter_mistaken_in_einsum_for_three_axes,
        scores_divided_by_their_deviation,
    ],
)
def test_samples_that_touch_each_other_are_told(function):
    report = examined("attention", function)
    assert (report.status, report.mistakes) == ("diagnosed", ("batch mixed",))


def test_lengths_that_touch_each_other_are_told():
    def align(scores, keys, lengths):
        scores = scores / (1 + lengths.float().mean())
        is_word = torch.arange(scores.size(1)) < lengths.unsqueeze(1)
        weights = torch.softmax(scores.masked_fill(~is_word, float("-inf")), dim=-1)
        return (weights.unsqueeze(1) @ keys).squeeze(1), weights

    assert examine("align", align).mistakes == ("batch mixed",)


def test_a_random_answer_is_called_that_and_not_mixed():
    generator = torch.Generator().manual_seed(0)  # one of its own, so every call draws something else

    def attention(Q, K, V):
        output, weights = as_in_the_formula(Q, K, V)
        return output + torch.randn(output.shape, generator=generator), weights

    report = examine("attention", attention)
    assert (report.status, report.mistakes) == ("diagnosed", ("another answer each time",))


# ---------------------------------------------------------------- classes

STUB = """
class MultiHead(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        {built}

    def forward(self, query, key, value, mask=None):
        \"\"\"Returns output (B, T_q, d_model) and weights (B, H, T_q, T_k).\"\"\"
        {done}
"""
FOUR = "self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))"


def class_of_a_cell(shell, source):
    assert shell.run_cell(f"import torch\nfrom torch import nn\n{source}").success
    return shell.user_ns["MultiHead"]


@pytest.mark.parametrize(
    ("built", "done", "told"),
    [
        ("...", "...", "in `__init__` and in `forward`"),
        ("pass", "...", "in `__init__` and in `forward`"),
        (FOUR, "...", "in `forward` with"),
        ("...", "return query, self.W_q(key)", "in `__init__` with"),
    ],
)
def test_class_with_an_empty_method_is_not_started(shell, built, done, told):
    report = examine("multi_head_attention", class_of_a_cell(shell, STUB.format(built=built, done=done)))
    assert report.status == "not started"
    assert told in report.text


def test_error_in_forward_points_at_the_readers_own_line_in_its_cell(shell):
    source = STUB.format(built=FOUR, done="return self.W_q(query) @ self.W_k(key), mask")
    report = examine("multi_head_attention", class_of_a_cell(shell, source))
    assert report.status == "error"
    assert "in line 11 of your cell, `return self.W_q(query) @ self.W_k(key), mask`" in report.text
    assert "projections: fixed, at random, query (B=2, T_q=6, d_model=12), key (B=2, T_k=5, d_model=12)" in report.text


def test_error_in_init_points_at_the_readers_own_line_in_its_cell(shell):
    source = STUB.format(built="self.W_q = nn.Linear(d_modell, d_model)", done="return query, key")
    report = examine("multi_head_attention", class_of_a_cell(shell, source))
    assert report.status == "error"
    assert "in line 7 of your cell, `self.W_q = nn.Linear(d_modell, d_model)`" in report.text
    assert "NameError" in report.text


def test_layers_before_super_are_told():
    class MultiHead(torch.nn.Module):
        def __init__(self, d_model, num_heads):
            self.W_q = torch.nn.Linear(d_model, d_model)

        def forward(self, query, key, value, mask=None):
            return query, key

    report = examine("multi_head_attention", MultiHead)
    assert report.status == "error"
    assert "begin with `super().__init__()`" in report.text
    assert "`self.W_q = torch.nn.Linear(d_model, d_model)`" in report.text


class NoInit(torch.nn.Module):
    def forward(self, query, key, value, mask=None):
        return query, key


class OtherNames(answers_multi_head.FourLayers):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.W_out = self.W_o
        del self.W_o

    def forward(self, query, key, value, mask=None):
        return query, key


class ListOfTorch(torch.nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.heads = torch.nn.ModuleList(torch.nn.Linear(d_model, d_model // num_heads) for _ in range(num_heads))

    def forward(self, query, key, value, mask=None):
        return query, key


class OtherShapes(OtherNames):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.W_o = torch.nn.Linear(self.d_k, d_model)
        del self.W_out


class OneTooMany(answers_multi_head.ProjectSplitAttendMergeProject):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.norm = torch.nn.LayerNorm(d_model)


class TakesNothing(answers_multi_head.ProjectSplitAttendMergeProject):
    def __init__(self):
        super().__init__(12, 3)


class MaskWithoutDefault(answers_multi_head.FourLayers):
    def forward(self, query, key, value, mask):
        return query, key


class NoForward(answers_multi_head.FourLayers):
    def foward(self, query, key, value, mask=None):
        return query, key


class NotAModule:
    def __init__(self, d_model, num_heads):
        self.num_heads = num_heads

    def forward(self, query, key, value, mask=None):
        return query, key


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (answers_multi_head.FoldedHeads(12, 3), "given a FoldedHeads that is built already"),
        (as_in_the_formula, "given a function. This exercise asks for a class"),
        (None, "given a NoneType. This exercise asks for a class"),
        (NotAModule, "`class NotAModule(nn.Module):`"),
        (NoForward, "`NoForward` has no method of that name"),
        (NoInit, "`NoInit` has no method of that name"),
        (TakesNothing, "`TakesNothing(d_model, num_heads)`, and yours does not take that"),
        (MaskWithoutDefault, "missing a required argument: 'mask'"),
        (OtherNames, "`W_out.weight` (12, 12)"),
        (ListOfTorch, "`heads.0.weight` (4, 12)"),
        (OtherShapes, "`W_o.weight` (12, 4)"),
        (OneTooMany, "`norm.weight` (12,)"),
    ],
)
def test_class_that_is_not_what_was_asked_for_is_told_what_was(answer, told):
    report = examine("multi_head_attention", answer)
    assert (report.status, report.mistakes) == ("error", ())
    assert told in report.text
    if "Other layers" in report.text:
        assert "`W_q`, `W_k`, `W_v`, `W_o`, each an `nn.Linear(d_model, d_model)`" in report.text
        assert "(12, 12) and a bias of shape (12,)" in report.text


def test_plain_list_is_told_by_its_name_and_by_what_the_optimiser_sees():
    report = examine("multi_head_attention", answers_multi_head.PlainList)
    assert "`self.projections`" in report.text
    assert "sees 0 parameters" in report.text
    assert "sees 2 parameters" in examine("multi_head_attention", answers_multi_head.PlainDictionaryAndOneLayer).text


def test_list_of_layers_that_are_attributes_too_is_no_mistake():
    class Listed(answers_multi_head.ProjectSplitAttendMergeProject):
        def __init__(self, d_model, num_heads):
            super().__init__(d_model, num_heads)
            self.all = [self.W_q, self.W_k, self.W_v, self.W_o]

    assert examine("multi_head_attention", Listed).status == "correct"


def test_bug_of_the_folded_heads_is_shown_on_two_samples_with_different_padding():
    text = examine("find_the_bug_in_multi_head", answers_multi_head.FoldedHeads).text
    mask = ast.literal_eval(re.search(r"^mask = (.*?)\n\n", text, re.DOTALL | re.MULTILINE)[1])
    assert mask == [[[1, 1]], [[1, 0]]]
    assert "projections: W_q, W_k, W_v and W_o are the identity, their biases 0" in text


@pytest.mark.parametrize(
    "function",
    [answers_multi_head.ProjectSplitAttendMergeProject, answers_multi_head.PlainList, answers_multi_head.ResidualAdded],
)
def test_building_a_module_moves_no_random_state(shell, function):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    shown(check, "multi_head_attention", function)
    shown(use, "multi_head_attention", function)
    assert torch.equal(torch.get_rng_state(), before)


# ---------------------------------------------------------------- whatever the function does


def raises(*arguments):
    raise ValueError("no")


def raises_something_of_its_own(*arguments):
    class Odd(Exception):
        def __str__(self):
            return "`` ``` ** odd"

    raise Odd


def calls_itself(*arguments):
    return calls_itself(*arguments)


def generates(*arguments):
    yield arguments


def draws_random_numbers(token_ids, pad_id=0):
    return torch.rand(token_ids.shape).unsqueeze(1) < 0.5


def changes_the_default_dtype(token_ids, pad_id=0):
    torch.set_default_dtype(torch.float64)
    return torch.zeros(token_ids.shape)


def scalar(token_ids, pad_id=0):
    return token_ids.sum()


def empty_tensor(token_ids, pad_id=0):
    return token_ids[:0]


def string(*arguments):
    return "mask"


def nothing(*arguments):
    return None


class NotAnAnswer:
    def __init__(self, *arguments):
        self.arguments = arguments


class ReturnsItself:
    def __call__(self, *arguments):
        return self


def without_source():
    names = {}
    exec("def mask(token_ids, pad_id=0):\n    return token_ids @ token_ids\n", names)
    return names["mask"]


ODD_OF_ANY_KIND = [
    raises,
    raises_something_of_its_own,
    calls_itself,
    generates,
    draws_random_numbers,
    changes_the_default_dtype,
    scalar,
    empty_tensor,
    string,
    nothing,
    NotAnAnswer,
    NotAnAnswer(),
    ReturnsItself(),
    torch.nn.Identity(),
    lambda *arguments: ...,
    lambda: None,
    without_source(),
    functools.partial(raises, 1),
    len,
    max,
    zip,
    dict,
    torch.softmax,
    torch.nn.Linear,
    torch.nn.Module,
    torch.nn.MultiheadAttention,
    None,
    3,
    "padding_mask",
    torch.ones(2),
]


def named(odd):
    return getattr(odd, "__name__", type(odd).__name__)


@pytest.mark.parametrize("exercise_id", ["padding_mask", "multi_head_attention"])
@pytest.mark.parametrize("odd", ODD_OF_ANY_KIND, ids=named)
def test_check_raises_only_when_it_is_strict(shell, odd, exercise_id):
    (data,) = shown(check, exercise_id, odd)
    assert data["text/plain"]
    assert not data["text/plain"].startswith("Correct")
    with pytest.raises(ExerciseError, match=exercise_id):
        shown(check, exercise_id, odd, strict=True)


def changes_the_grad_mode(Q, K, V):
    torch.set_grad_enabled(False)
    output, weights = as_in_the_formula(Q, K, V)
    return output + 1, weights


def halved_precision(Q, K, V):
    return tuple(x.bfloat16() for x in as_in_the_formula(Q, K, V))


def complex_numbers(Q, K, V):
    return tuple(x.to(torch.complex64) + 1j for x in as_in_the_formula(Q, K, V))


def sparse_tensors(Q, K, V):
    return tuple((x + 1).to_sparse() for x in as_in_the_formula(Q, K, V))


def tensors_without_data(Q, K, V):
    return tuple(x.to("meta") for x in as_in_the_formula(Q, K, V))


def whole_numbers(Q, K, V):
    return tuple(x.long() for x in as_in_the_formula(Q, K, V))


def breaks_its_own_backward(Q, K, V):
    output, weights = as_in_the_formula(Q, K, V)
    weights += 1
    return output, weights


@pytest.mark.parametrize(
    "odd",
    [
        changes_the_grad_mode,
        halved_precision,
        complex_numbers,
        sparse_tensors,
        tensors_without_data,
        whole_numbers,
        breaks_its_own_backward,
    ],
)
def test_check_of_odd_tensors_raises_nothing(shell, odd):
    (data,) = shown(check, "attention", odd)
    assert data["text/plain"]
    assert not data["text/plain"].startswith("Correct")


def test_strict_check_of_a_right_answer_raises_nothing(shell):
    (data,) = shown(check, "attention", as_in_the_formula, strict=True)
    assert data["text/plain"].startswith("Correct")


def test_error_in_a_function_without_source_quotes_no_empty_line():
    report = examine("padding_mask", without_source())
    assert report.status == "error"
    assert "RuntimeError" in report.text
    assert "``" not in report.text.replace("```", "")


def drops_at_random(Q, K, V):
    output, weights = as_in_the_formula(Q, K, V)
    return F.dropout(output, 0.5), weights


def seeds_torch_itself(Q, K, V):
    torch.manual_seed(0)
    return drops_at_random(Q, K, V)


@pytest.mark.parametrize("function", [as_in_the_formula, drops_at_random, seeds_torch_itself])
def test_random_state_of_the_reader_is_not_moved(shell, function):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    shown(check, "attention", function)
    assert torch.equal(torch.get_rng_state(), before)


def test_random_state_of_the_reader_is_not_moved_by_use(shell):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    shown(use, "padding_mask", draws_random_numbers)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("exercise_id", "function"),
    [
        ("attention", as_in_the_formula),
        ("attention", drops_at_random),
        ("masked_attention", lowest_number_then_zeros),
        ("padding_mask", draws_random_numbers),
        ("padding_mask", raises),
        ("padding_mask", nothing),
    ],
)
def test_second_check_says_the_same(exercise_id, function):
    assert examine(exercise_id, function) == examine(exercise_id, function)


def test_check_of_a_method_and_of_a_module():
    class Attention(torch.nn.Module):
        def forward(self, Q, K, V):
            return as_in_the_formula(Q, K, V)

    assert examine("attention", Attention()).status == "correct"
    assert examine("attention", Attention().forward).status == "correct"


# ---------------------------------------------------------------- reports

REPORTED = (
    ("attention", as_in_the_formula),
    ("attention", nothing_returned),
    ("padding_mask", raises),
    ("padding_mask", draws_random_numbers),
    ("padding_mask", lambda token_ids, pad_id=0: token_ids != pad_id),
    ("padding_mask", lambda token_ids, pad_id=0: (token_ids == pad_id).unsqueeze(2)),
    ("padding_mask", lambda: None),
    ("padding_mask", None),
)


@pytest.mark.parametrize(("exercise_id", "function"), REPORTED)
def test_report_is_markdown_and_reads_without_it(shell, exercise_id, function):
    report = examine(exercise_id, function)
    (data,) = shown(display, report)
    assert data["text/markdown"] == report._repr_markdown_() == report.text
    assert data["text/plain"] == repr(report).rstrip()
    assert report.text.startswith("**")
    assert report.text.count("```") % 2 == 0
    assert "```" not in repr(report)
    assert "**" not in repr(report)


def test_readers_line_is_quoted_whole_in_plain_text_too():
    def attention(Q, K, V):
        return Q @ K / Q.size(-1) ** 0.5

    report = examine("attention", attention)
    assert "`return Q @ K / Q.size(-1) ** 0.5`" in report.text
    assert "`return Q @ K / Q.size(-1) ** 0.5`" in repr(report)


# ---------------------------------------------------------------- use, hint, solution


@pytest.mark.parametrize(
    "answer", [next(a for a in ANSWERS if (a.exercise, a.status) == (i, "correct")) for i in EXERCISES]
)
def test_use_gives_a_right_answer_back(shell, answer):
    with capture_output() as captured:
        used = use(answer.exercise, answer.function)
    assert used is answer.function
    (output,) = captured.outputs
    assert f"`{answer.function.__name__}`" in output.data["text/markdown"]


def only_dots(*arguments): ...


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
@pytest.mark.parametrize("function", [only_dots, None])
def test_use_gives_the_functions_of_the_course_otherwise_and_says_so(shell, exercise, function):
    with capture_output() as captured:
        used = use(exercise.id, function)
    assert used is exercise.reference
    (output,) = captured.outputs
    assert exercise.id in output.data["text/markdown"]
    assert f"`{exercise.reference.__name__}`" in output.data["text/markdown"]
    assert "not solved" in output.data["text/markdown"]


def test_use_gives_a_wrong_answer_not_back(shell):
    with capture_output():
        assert use("attention", nothing_returned) is EXERCISES["attention"].reference


def test_use_takes_a_right_answer_that_has_no_name(shell):
    class Attention(torch.nn.Module):
        def forward(self, Q, K, V):
            return as_in_the_formula(Q, K, V)

    for function in (Attention(), functools.partial(as_in_the_formula)):
        with capture_output():
            assert use("attention", function) is function


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_hint_has_three_levels_and_stays_at_the_last(shell, monkeypatch, exercise):
    fresh = replace(exercise, id=f"{exercise.id}, asked for the first time")
    monkeypatch.setitem(EXERCISES, fresh.id, fresh)
    texts = [shown(hint, fresh.id)[0]["text/markdown"] for _ in range(5)]
    assert len(exercise.hints) == 3
    for text, level in zip(texts, (0, 1, 2, 2, 2), strict=True):
        assert exercise.hints[level] in text
        assert all(other not in text for at, other in enumerate(exercise.hints) if at != level)
    assert texts[2] == texts[3] == texts[4]


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_solution_is_the_source_of_the_function_in_utils(shell, exercise):
    (data,) = shown(solution, exercise.id)
    place, name = re.search(r"`(\w+)` in `(\S+)`", data["text/markdown"]).group(2, 1)
    assert (ROOT / place).is_file()
    there = importlib.import_module(place.removesuffix(".py").replace("/", "."))
    assert f"```python\n{inspect.getsource(getattr(there, name))}```" in data["text/markdown"]
    assert getattr(there, name) is exercise.reference


@pytest.mark.parametrize("call", [lambda i: check(i, len), lambda i: use(i, len), hint, solution])
@pytest.mark.parametrize("unknown", ["atention", "", None])
def test_unknown_exercise_is_an_error_that_lists_the_known_ones(shell, call, unknown):
    with pytest.raises(ValueError, match="exercise_id") as raised, capture_output():
        call(unknown)
    assert repr(unknown) in str(raised.value)
    for known in EXERCISES:
        assert known in str(raised.value)


# ---------------------------------------------------------------- predict

QUESTION = "Which row of <weights> & which column?"
OPTIONS = ["the <b>first</b>", "the second", "none & all"]
WHY = ["Rows are queries, so <i>no</i>.", "The second key fits best.", "Each row sums to 1, so some key has weight."]


@pytest.mark.parametrize("answer", OPTIONS)
def test_each_button_answers_with_its_own_explanation(answer):
    prediction = Prediction(QUESTION, OPTIONS, answer, WHY)
    assert [button.description for button in prediction.buttons] == OPTIONS
    assert prediction.verdict.value == ""
    for button, option, why in [*zip(prediction.buttons, OPTIONS, WHY, strict=True)] * 2:
        button.click()
        said = re.sub(r"</?(?:p|b)\b[^>]*>", "", prediction.verdict.value)
        assert said.startswith("Yes" if option == answer else "No")
        assert escaped(option) in said
        assert escaped(why) in said
        assert "<" not in said
        assert all(escaped(other) not in said for other in WHY if other != why)


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def bundle(*arguments):
    (data,) = shown(predict, *arguments)
    return data


def test_prediction_is_shown_as_a_widget_and_as_a_page_with_the_answer_folded_away(shell):
    data = bundle(QUESTION, OPTIONS, "the second", WHY)
    assert "application/vnd.jupyter.widget-view+json" in data
    page = data["text/html"]
    before, folded = page.split("<details>")
    assert escaped(QUESTION) in before
    for option in OPTIONS:
        assert escaped(option) in before
        assert option == escaped(option) or option not in page
    assert all(escaped(why) not in before for why in WHY)
    assert "the second" in folded
    assert escaped(WHY[1]) in folded
    assert escaped(WHY[0]) not in folded


def test_prediction_shows_the_box_with_its_buttons(shell):
    prediction = Prediction(QUESTION, OPTIONS, "the second", WHY)
    (data,) = shown(prediction.show)
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == prediction.box.model_id

    def inside(widget):
        return {widget}.union(*map(inside, getattr(widget, "children", ())))

    assert {*prediction.buttons, prediction.verdict} <= inside(prediction.box)
    heading = [w.value for w in inside(prediction.box) if "Predict" in getattr(w, "value", "")]
    assert escaped(QUESTION) in heading[0]
    assert "<weights>" not in heading[0]


def test_plain_text_of_a_prediction_does_not_give_the_answer_away(shell):
    plain = {bundle(QUESTION, OPTIONS, answer, WHY)["text/plain"] for answer in OPTIONS}
    assert len(plain) == 1
    (text,) = plain
    assert QUESTION in text
    assert all(option in text for option in OPTIONS)
    assert all(why not in text for why in WHY)


@pytest.mark.parametrize(
    ("options", "answer", "why", "told"),
    [
        (["yes"], "yes", ["a"], "two or more"),
        ([], "yes", [], "two or more"),
        (["yes", "yes"], "yes", ["a", "b"], "differ"),
        (["yes", "no"], "maybe", ["a", "b"], "'maybe'"),
        (["yes", "no"], "yes", ["a"], "1 explanations but options has 2"),
        (["yes", "no"], "yes", ["a", "b", "c"], "3 explanations but options has 2"),
    ],
)
def test_prediction_that_does_not_fit_together_is_an_error(options, answer, why, told):
    with pytest.raises(ValueError, match=told):
        predict("Does it?", options, answer, why)


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=lambda exercise: exercise.id)
def test_code_in_what_is_told_stands_in_backquotes(exercise):
    """Outside them, Markdown takes ~ and * for marks and drops them."""
    told = [*exercise.hints, exercise.why, exercise.stretch, *(mistake.lead for mistake in exercise.mistakes)]
    for text in told:
        assert not re.search(r"[~*]|__", re.sub(r"`[^`]*`", "", text)), text


def test_a_weight_cut_from_the_graph_is_told():
    def attention(Q, K, V):
        output, weights = as_in_the_formula(Q, K, V)
        return output, weights.detach()

    report = examine("attention", attention)
    assert report.mistakes == ("gradient cut",)
    assert "from `weights` to `Q`" in report.text


def test_what_the_function_prints_shows_once(capsys):
    def attention(Q, K, V):
        print("shapes", Q.shape)
        return Q, K

    examine("attention", attention)
    assert capsys.readouterr().out.count("shapes") == 1


def test_the_end_of_the_readers_program_is_an_error_like_others():
    def attention(Q, K, V):
        raise SystemExit

    assert examine("attention", attention).status == "error"


@pytest.mark.parametrize("unknown", [[], None, 3, "atention"])
def test_an_unknown_exercise_is_named_with_those_that_there_are(unknown):
    with pytest.raises(ValueError, match=r"exercise_id=.*[Ee]xpected one of shift_target, "):
        check(unknown, print)


def test_use_of_the_courses_own_function_does_not_call_it_the_readers(shell):
    reference = EXERCISES["attention"].reference
    (data,) = shown(use, "attention", reference)
    assert "not solved yet" in data["text/markdown"]
