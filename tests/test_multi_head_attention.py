"""`MultiHeadAttention` against torch's own, against a loop over heads and against cases from the field."""

import copy
import io
import itertools
import json
import math
import pickle
import shutil
import sysconfig
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from test_attention import (
    DTYPES,
    HALF,
    MASK_DTYPES,
    MASK_SHAPES,
    SIZES,
    assert_close,
    many,
    random_tensor,
    shaped,
)
from torch import nn

from utils.attention import MultiHeadAttention, merge_heads, scaled_dot_product_attention, split_heads
from utils.masks import create_causal_mask, create_padding_mask

B, H, T_Q, T_K, D_MODEL = 2, 4, 3, 5, 24  # all different, d_k = 6 as well, so that a mix-up shows
PROJECTIONS = ("W_q", "W_k", "W_v")
# What rounding may cost, in multiples of what it may cost one function. The worst of 1500 random problems, 1.15, is in
# the gradient of W_k's bias: it moves all scores of a row alike, so the terms of that gradient cancel.
TIMES = 3
WAYS = pytest.mark.parametrize("need_weights", [True, False], ids=["weights", "no weights"])

pytestmark = pytest.mark.usefixtures("one_thread")


def made(d_model=D_MODEL, num_heads=H, dtype=torch.float32, **options):
    """A module with biases that matter: torch's start at numbers that are close to zero."""
    module = MultiHeadAttention(d_model, num_heads, **options)
    with torch.no_grad():
        for at, (name, parameter) in enumerate(module.named_parameters()):
            scale = 1.0 if name.endswith("bias") else d_model**-0.5
            parameter.copy_(scale * random_tensor(parameter.shape, seed=100 + at))
    return module.to(dtype)


def copying(d_model, num_heads, dtype=torch.float32):
    """A module whose projections change nothing."""
    module = MultiHeadAttention(d_model, num_heads).to(dtype)
    with torch.no_grad():
        for projection in module.children():
            projection.weight.copy_(torch.eye(d_model))
            projection.bias.zero_()
    return module


def sequences(B=B, T_q=T_Q, T_k=T_K, d_model=D_MODEL, dtype=torch.float32, requires_grad=False):
    shapes = ((B, T_q, d_model), (B, T_k, d_model), (B, T_k, d_model))
    return [random_tensor(shape, dtype, seed).requires_grad_(requires_grad) for seed, shape in enumerate(shapes)]


def random_mask(shape, seed=5, share=0.6):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < share


def torch_parameters(theirs, of=lambda parameter: parameter.detach()):
    """What `of` gives for the parameters of an `nn.MultiheadAttention`, under the names of ours."""
    found = {}
    for kind in ("weight", "bias"):
        packed = of(getattr(theirs, f"in_proj_{kind}")).chunk(3)  # W_q, W_k and W_v, one below the other
        found |= {f"{name}.{kind}": part for name, part in zip(PROJECTIONS, packed, strict=True)}
        found[f"W_o.{kind}"] = of(getattr(theirs.out_proj, kind))
    return found


def as_torch(ours):
    """The `nn.MultiheadAttention` with the weights of ours."""
    d_model, dtype = ours.W_q.in_features, ours.W_q.weight.dtype
    theirs = nn.MultiheadAttention(d_model, ours.num_heads, ours.dropout, batch_first=True, dtype=dtype)
    with torch.no_grad():
        for name, parameter in torch_parameters(theirs).items():
            parameter.copy_(ours.get_parameter(name))
    return theirs.train(ours.training)


def from_torch(theirs):
    """Ours with the weights of an `nn.MultiheadAttention`."""
    ours = MultiHeadAttention(theirs.embed_dim, theirs.num_heads, theirs.dropout)
    ours.load_state_dict(torch_parameters(theirs))
    return ours


def as_torch_mask(mask, shape):
    """The mask as `nn.MultiheadAttention` wants it: (B H, T_q, T_k), True where a query may *not* attend."""
    return None if mask is None else ~four_dimensional(mask).expand(shape).flatten(0, 1)


def four_dimensional(mask):
    """The boolean mask that broadcasts to (B, H, T_q, T_k) as the design says."""
    mask = mask != 0
    return mask[(None, None) if mask.dim() == 2 else (slice(None), None) if mask.dim() == 3 else ...]


def by_head(module, query, key, value, mask=None):
    """Output and weights, by a plain loop over samples and heads with the function of lesson 03."""
    H, d_k = module.num_heads, module.W_q.out_features // module.num_heads
    shape = (query.size(0), H, query.size(1), key.size(1))
    allowed = None if mask is None else four_dimensional(mask).expand(shape)
    outputs, weights = [], []
    for b in range(shape[0]):
        Q, K, V = module.W_q(query[b]), module.W_k(key[b]), module.W_v(value[b])
        heads = []
        for h in range(H):
            own = slice(h * d_k, (h + 1) * d_k)
            part = None if mask is None else allowed[b, h]
            heads.append(scaled_dot_product_attention(Q[:, own], K[:, own], V[:, own], part))
        outputs.append(module.W_o(torch.cat([head for head, _ in heads], dim=-1)))
        weights.append(torch.stack([weight for _, weight in heads]))
    return torch.stack(outputs), torch.stack(weights)


def results_and_gradients(attention, module, inputs, parameters_of=None, leave_out=None):
    """Everything that comes out of a call, and the gradients of inputs and parameters, by name.

    The loss gives each entry of the output, and of the weights where there are any, a factor of its own; it leaves
    out the queries where `leave_out` (B, T_q) is True.
    """
    distinct = {id(tensor): tensor.detach().clone().requires_grad_() for tensor in inputs}  # self-attention has one
    inputs = [distinct[id(tensor)] for tensor in inputs]
    module.zero_grad()
    found = dict(zip(("output", "weights"), attention(*inputs), strict=True))
    loss = 0.0
    for at, (name, result) in enumerate(found.items()):
        if result is not None:
            factors = random_tensor(result.shape, torch.float16, seed=40 + at).to(result.dtype)
            if leave_out is not None:
                left_out = leave_out.unsqueeze(-1) if name == "output" else leave_out[:, None, :, None]
                factors = factors.masked_fill(left_out, 0.0)
            loss = loss + (result * factors).sum()
    loss.backward()
    found |= {f"d {name}": tensor.grad for name, tensor in zip(("query", "key", "value"), inputs, strict=True)}
    grads = torch_parameters(module, lambda parameter: parameter.grad) if parameters_of == "torch" else {
        name: parameter.grad for name, parameter in module.named_parameters()
    }  # fmt: skip
    return found | {f"d {name}": grad for name, grad in grads.items()}


def assert_same(actual, expected, dtype):
    assert actual.keys() == expected.keys()
    for name, tensor in actual.items():
        if tensor is None or expected[name] is None:
            assert tensor is expected[name], name
        else:
            assert tensor.shape == expected[name].shape, name
            assert_close(tensor, expected[name], dtype, name, TIMES)


@st.composite
def problems(draw, dtypes=(torch.float32, torch.float64), mask_dtypes=MASK_DTYPES):
    """A module, query, key and value (one, two or three sequences), and a mask of any shape that fits, or none."""
    B, H, d_k = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 5))
    T_q, T_k = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    dtype = draw(st.sampled_from(dtypes))
    query, key, value = sequences(B, T_q, T_k, H * d_k, dtype)
    kind = draw(st.sampled_from(["self-attention", "cross-attention", "three sequences"]))
    if kind == "self-attention":
        T_k, key, value = T_q, query, query
    elif kind == "cross-attention":
        value = key
    masks = ["none", "causal", "padding", "(T_q, T_k)", "(B, T_q, T_k)", "(B, H, T_q, T_k)"]
    mask_kind = draw(st.sampled_from(masks))
    seed, share = draw(st.integers(0, 2**16)), draw(st.sampled_from([0.2, 0.6, 1.0]))
    if mask_kind == "none":
        mask = None
    elif mask_kind == "causal":
        mask = create_causal_mask(T_q, T_k)  # with more queries than keys, the first rows are empty
    elif mask_kind == "padding":
        mask = create_padding_mask(random_mask((B, T_k), seed, share).long())
    else:
        full = MASK_SHAPES[mask_kind](B, H, T_q, T_k)
        mask = random_mask([draw(st.sampled_from([1, size])) for size in full], seed, share)
    if mask is not None:
        mask = mask.to(draw(st.sampled_from(mask_dtypes)))
    return made(H * d_k, H, dtype), (query, key, value), mask


def rows_without_keys(mask, shape):
    """Which queries have nothing to attend to: (B, H, T_q)."""
    allowed = torch.ones(shape, dtype=torch.bool) if mask is None else four_dimensional(mask).expand(shape)
    return ~allowed.any(dim=-1)


# Heads split and merged


@many
@given(st.integers(0, 3), st.integers(0, 4), st.integers(1, 4), st.integers(1, 4))
def test_a_head_holds_its_own_features_of_every_token(B, T, H, d_k):
    """Entry by entry; and merging puts everything back."""
    x = torch.arange(float(B * T * H * d_k)).view(B, T, H * d_k)
    heads = split_heads(x, H)
    assert heads.shape == (B, H, T, d_k)
    for b, h, t, i in np.ndindex(B, H, T, d_k):
        assert heads[b, h, t, i] == x[b, t, h * d_k + i]
    assert torch.equal(merge_heads(heads), x)
    assert torch.equal(split_heads(merge_heads(heads.contiguous()), H), heads)


def test_the_methods_are_the_functions_with_the_heads_of_the_module():
    module, x = made(), sequences()[0]
    assert torch.equal(module.split_heads(x), split_heads(x, H))
    assert torch.equal(module.merge_heads(split_heads(x, H)), x)


def test_splitting_and_merging_take_tensors_that_are_not_contiguous():
    """Time first, reversed features, every second token, one sample expanded; and gradients come back whole."""
    x = sequences()[0]
    for odd in (x.transpose(0, 1), x.transpose(1, 2), x[:, ::2], x[:1].expand(3, -1, -1), x[..., ::2]):
        H = 3 if odd.size(-1) == T_Q else 4
        assert torch.equal(split_heads(odd, H), split_heads(odd.contiguous(), H))
        assert torch.equal(merge_heads(split_heads(odd, H)), odd)
    x.requires_grad_()
    factors = random_tensor(x.shape, seed=9)
    (split_heads(x, H) * split_heads(factors, H)).sum().backward()
    assert torch.equal(x.grad, factors)


# Agreement with torch, with the function of lesson 03 head by head, and of the two ways with each other


@WAYS
@many
@given(problems())
def test_it_agrees_with_torch(need_weights, problem):
    """Values and the gradients of inputs and parameters are those of `nn.MultiheadAttention`, weights copied over.

    torch gives NaN to a query with nothing to attend to. It is shown such rows opened, and the loss leaves them out.
    """
    ours, inputs, mask = problem
    theirs = as_torch(ours)
    shape = (inputs[0].size(0), ours.num_heads, inputs[0].size(1), inputs[1].size(1))
    empty = rows_without_keys(mask, shape)
    blocked = as_torch_mask(mask, shape)
    if blocked is not None:
        blocked = blocked & ~empty.flatten(0, 1).unsqueeze(-1)

    def torch_attention(*inputs):
        return theirs(*inputs, attn_mask=blocked, need_weights=need_weights, average_attn_weights=False)

    left_out = empty.any(dim=1)  # a query whose row is empty in some of its heads
    expected = results_and_gradients(torch_attention, theirs, inputs, "torch", left_out)
    actual = results_and_gradients(lambda *inputs: ours(*inputs, mask, need_weights), ours, inputs, None, left_out)
    assert (actual["weights"] is not None) == need_weights
    for results in (actual, expected):
        results["output"] = results["output"][~left_out]
        if need_weights:
            results["weights"] = results["weights"][~empty]
    assert_same(actual, expected, ours.W_q.weight.dtype)


@pytest.mark.parametrize(("B", "T", "H"), [(2, 5, 4), (3, 3, 3), (1, 7, 1), (4, 2, 6)])
def test_weights_copied_from_torch(B, T, H):
    """Case 6: copied from torch, and back again, with T different from H and equal to it."""
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(12, H, batch_first=True)
    for bias in (theirs.in_proj_bias, theirs.out_proj.bias):
        nn.init.normal_(bias)
    x = random_tensor((B, T, 12))
    ours, mask = from_torch(theirs), create_causal_mask(T)
    expected = theirs(x, x, x, attn_mask=~mask, average_attn_weights=False)
    torch.testing.assert_close(ours(x, x, x, mask), expected, rtol=0.0, atol=1e-5)
    back = as_torch(ours).state_dict()
    assert all(torch.equal(back[name], tensor) for name, tensor in theirs.state_dict().items())


def test_the_padding_mask_as_torch_takes_it():
    """Case 4: the padding mask is the `key_padding_mask` of `nn.MultiheadAttention` inverted, and not as it is."""
    x, mask = random_tensor((2, 5, D_MODEL)), create_padding_mask(torch.tensor([[4, 5, 6, 7, 8], [9, 3, 2, 0, 0]]))
    ours = made()
    theirs = as_torch(ours)
    expected = theirs(x, x, x, key_padding_mask=~mask.squeeze(1), average_attn_weights=False)
    torch.testing.assert_close(ours(x, x, x, mask), expected, rtol=0.0, atol=1e-5)
    upside_down, _ = theirs(x[1:], x[1:], x[1:], key_padding_mask=mask[1:].squeeze(1))
    assert (upside_down - expected[0][1:]).abs().max() > 0.1


@WAYS
@settings(many, max_examples=60)
@given(problems())
def test_it_is_the_function_of_lesson_03_head_by_head(need_weights, problem):
    """Values and gradients, rows with nothing to attend to included, those of a plain loop over the heads."""
    module, inputs, mask = problem

    def loop(*inputs):
        output, weights = by_head(module, *inputs, mask)
        return output, weights if need_weights else None

    expected = results_and_gradients(loop, module, inputs)
    actual = results_and_gradients(lambda *inputs: module(*inputs, mask, need_weights), module, inputs)
    assert_same(actual, expected, module.W_q.weight.dtype)


@WAYS
def test_the_scale_is_that_of_a_head(need_weights):
    """Case 5: d_model=64 in 8 heads agrees with torch's function called on one head of width 8 at a time."""
    module, x = copying(64, 8), random_tensor((2, 5, 64))
    output, _ = module(x, x, x, need_weights=need_weights)
    for h in range(8):
        own = x[..., 8 * h : 8 * (h + 1)]
        expected = F.scaled_dot_product_attention(own, own, own)
        torch.testing.assert_close(output[..., 8 * h : 8 * (h + 1)], expected, rtol=0.0, atol=1e-5)


@many
@given(problems(dtypes=DTYPES))
def test_with_and_without_weights_the_output_is_the_same(problem):
    """Case 2: outputs and gradients, rows with nothing to attend to included; half precision is held to float64."""
    module, inputs, mask = problem
    wide = copy.deepcopy(module).double()

    def output_of(module, need_weights):
        return lambda *inputs: (module(*inputs, mask, need_weights)[0], None)

    doubles = {id(tensor): tensor.double() for tensor in inputs}
    expected = results_and_gradients(output_of(wide, False), wide, [doubles[id(tensor)] for tensor in inputs])
    for need_weights in (True, False):
        actual = results_and_gradients(output_of(module, need_weights), module, inputs)
        assert all(tensor is None or tensor.dtype == module.W_q.weight.dtype for tensor in actual.values())
        assert_same(actual, expected, module.W_q.weight.dtype)


@settings(many, max_examples=20)
@given(problems(dtypes=(torch.float64,), mask_dtypes=(torch.bool,)))
def test_gradients_are_those_of_finite_differences(problem):
    """A loss may be taken on the weights as well as on the output."""
    module, inputs, mask = problem
    inputs = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    assert torch.autograd.gradcheck(lambda *inputs: module(*inputs, mask), inputs)
    assert torch.autograd.gradcheck(lambda *inputs: module(*inputs, mask, False)[0], inputs)


@settings(many, max_examples=60)
@given(problems())
def test_nothing_that_comes_in_is_changed(problem):
    """Neither the sequences, nor the mask, nor a parameter is written to, not even with the values it has already."""
    module, inputs, mask = problem
    tensors = [*inputs, *module.parameters(), *([] if mask is None else [mask])]
    before = [(tensor.clone(), tensor._version) for tensor in tensors]
    for need_weights in (True, False):
        module(*inputs, mask, need_weights)
    for tensor, (kept, version) in zip(tensors, before, strict=True):
        assert torch.equal(tensor, kept)
        assert tensor._version == version


@WAYS
def test_inputs_that_are_not_contiguous(need_weights):
    """Time first, every second token, one sample expanded, and a mask that is transposed or expanded."""
    module, wide = made(), random_tensor((T_K, 2 * B, D_MODEL))
    mask = random_mask((T_K, T_K)).T
    for x, given_mask in (
        (wide.transpose(0, 1), mask),
        (wide.transpose(0, 1)[::2], mask.expand(B, H, T_K, T_K)),
        (wide.transpose(0, 1)[:1].expand(B, -1, -1), mask[:1].expand(T_K, -1)),
        (random_tensor((B, D_MODEL, T_K)).transpose(1, 2), mask),
    ):
        found = module(x, x, x, given_mask, need_weights)
        x, given_mask = x.contiguous(), given_mask.contiguous()
        expected = module(x, x, x, given_mask, need_weights)
        torch.testing.assert_close(found[0], expected[0], rtol=0.0, atol=1e-5)
        if need_weights:
            torch.testing.assert_close(found[1], expected[1], rtol=0.0, atol=1e-6)


# Cases from the field: rows with nothing to attend to, and numbers at the edge


@WAYS
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_query_with_nothing_to_attend_to(dtype, need_weights):
    """Case 1: causal and padding masks empty a row, the loss leaves it out; all is finite, and its share is 0."""
    token_ids = torch.tensor([[0, 7, 8, 9], [5, 6, 7, 0]])  # the first sample is padded on the left
    mask, module = create_causal_mask(4) & create_padding_mask(token_ids), made(dtype=dtype)
    query, key, value = sequences(T_q=4, T_k=4, dtype=dtype, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        output, weights = module(query, key, value, mask, need_weights)
        output[token_ids != 0].square().sum().backward()
    assert torch.equal(output[0, 0], module.W_o.bias)
    assert need_weights is (weights is not None)
    if need_weights:
        assert (weights[0, :, 0] == 0).all()
        assert weights.isfinite().all()
    assert output.isfinite().all()
    assert (query.grad[0, 0] == 0).all()
    assert (query.grad[0, 1:] != 0).any()
    assert all(tensor.grad.isfinite().all() for tensor in (query, key, value, *module.parameters()))


@WAYS
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_loss_on_the_empty_row_itself(dtype, need_weights):
    """Case 1: with the loss on everything, weights included, the empty row reaches the bias of W_o and no more."""
    module = made(dtype=dtype)
    query, key, value = sequences(1, 2, 3, dtype=dtype, requires_grad=True)
    mask = torch.tensor([[False, False, False], [True, True, False]])
    with torch.autograd.set_detect_anomaly(True):
        output, weights = module(query, key, value, mask, need_weights)
        (output.sum() + (weights.square().sum() if need_weights else 0.0)).backward()
    assert (query.grad[0, 0] == 0).all()
    assert (key.grad[0, 2] == 0).all()
    assert (value.grad[0, 2] == 0).all()
    assert torch.equal(module.W_o.bias.grad, torch.full_like(module.W_o.bias, 2.0))
    assert all(tensor.grad.isfinite().all() for tensor in (query, key, value, *module.parameters()))


@WAYS
@pytest.mark.parametrize("kind", ["(T_q, T_k)", "(B, 1, T_k)", "(B, H, T_q, T_k)"])
def test_a_mask_that_blocks_everything(kind, need_weights):
    """Every output is the bias of W_o, whichever shape the mask has, and all gradients are finite."""
    module, inputs = made(), sequences(requires_grad=True)
    output, weights = module(*inputs, torch.zeros(MASK_SHAPES[kind](B, H, T_Q, T_K)), need_weights)
    assert torch.equal(output, module.W_o.bias.expand(B, T_Q, D_MODEL))
    assert weights is None or torch.equal(weights, torch.zeros(B, H, T_Q, T_K))
    output.square().sum().backward()
    assert all((tensor.grad == 0).all() for tensor in inputs)
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())


@WAYS
def test_a_row_that_is_empty_in_some_heads_only(need_weights):
    """Head 1 of query 0 finds nothing and leaves its features at 0; the other heads are what they were."""
    module, inputs = copying(D_MODEL, H), sequences()
    mask = torch.ones(1, H, T_Q, 1, dtype=torch.bool)
    mask[0, 1, 0] = False
    output, weights = module(*inputs, mask, need_weights)
    expected, _ = module(*inputs)
    own = slice(D_MODEL // H, 2 * D_MODEL // H)
    assert (output[:, 0, own] == 0).all()
    assert weights is None or (weights[:, 1, 0] == 0).all()
    expected[:, 0, own] = 0.0
    torch.testing.assert_close(output, expected, rtol=0.0, atol=1e-6)


@WAYS
@pytest.mark.parametrize("with_mask", [False, True], ids=["no mask", "mask"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_large_scores_pick_the_best_key(dtype, with_mask, need_weights):
    """Scores of 5e3, 1e4 and -1e4 give weights 0, 1, 0 and finite gradients."""
    module, size = copying(8, 2, dtype), 100.0 / 4**0.25  # size * size * d_k / sqrt(d_k) = 1e4
    query = torch.full((1, 2, 8), size, dtype=dtype)
    key = (torch.tensor([0.5, 1.0, -1.0], dtype=dtype).unsqueeze(1) * size).expand(1, 3, 8).clone()
    value = random_tensor((1, 3, 8), dtype)
    inputs = [tensor.requires_grad_() for tensor in (query, key, value)]
    mask = torch.tensor([[True, True, True], [False, False, False]]) if with_mask else None
    output, weights = module(*inputs, mask, need_weights)
    assert torch.equal(output[:, 0], value[:, 1])
    assert weights is None or torch.equal(weights[:, :, 0], torch.tensor([0.0, 1.0, 0.0], dtype=dtype).expand(1, 2, 3))
    output.sum().backward()
    assert all(tensor.grad.isfinite().all() for tensor in (*inputs, *module.parameters()))


@WAYS
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_allowed_key_with_a_very_low_score_gets_all_the_weight_there_is(dtype, need_weights):
    """A score of -1e4 on the one allowed key: weight 1 on it, and none on the blocked keys."""
    module = copying(1, 1, dtype)
    query, key = torch.full((1, 1, 1), 100.0, dtype=dtype), torch.tensor([[[100.0], [-100.0], [100.0]]], dtype=dtype)
    value = torch.tensor([[[1.0], [2.0], [4.0]]], dtype=dtype)
    output, weights = module(query, key, value, torch.tensor([[False, True, False]]), need_weights)
    assert output.tolist() == [[[2.0]]]
    assert weights is None or weights.tolist() == [[[[0.0, 1.0, 0.0]]]]


@WAYS
@pytest.mark.parametrize("mask", [[[1, 0], [1, 0]], [[0, 0], [1, 0]]], ids=["blocked key", "empty row"])
def test_a_blocked_score_that_overflows_in_half_precision_does_no_harm(mask, need_weights):
    """400 * 400 * 4 / 2 is beyond 65504, the largest float16; where it is blocked nobody looks at it."""
    module = copying(8, 2, torch.float16)
    query, key, value = (torch.full((1, 2, 8), size, dtype=torch.float16) for size in (400.0, 0.5, 1.0))
    key[0, 1] = 400.0
    inputs = [tensor.requires_grad_() for tensor in (query, key, value)]
    output, weights = module(*inputs, torch.tensor(mask), need_weights)
    assert torch.equal(output, torch.tensor(mask, dtype=torch.float16)[:, :1].expand(1, 2, 8))
    assert weights is None or torch.equal(weights, torch.tensor(mask, dtype=torch.float16).expand(1, 2, 2, 2))
    output.sum().backward()
    assert all(tensor.grad.isfinite().all() for tensor in (*inputs, *module.parameters()))


# Cases from the field: what may not depend on what


@WAYS
@pytest.mark.parametrize("t", [0, 2, 4])
def test_no_position_sees_what_comes_after_it(t, need_weights):
    """Case 3: token t+1 changed, outputs up to t are bit for bit the same; weights above the diagonal are 0."""
    module, x, mask = made(), random_tensor((B, 6, D_MODEL)), create_causal_mask(6)
    changed = x.clone()
    changed[:, t + 1] = 100.0
    output, weights = module(x, x, x, mask, need_weights)
    output_changed, _ = module(changed, changed, changed, mask, need_weights)
    assert torch.equal(output[:, : t + 1], output_changed[:, : t + 1])
    assert not torch.equal(output[:, t + 1], output_changed[:, t + 1])
    if need_weights:
        assert torch.equal(weights, weights.tril())
        assert (weights.diagonal(dim1=-2, dim2=-1) > 0).all()


@WAYS
def test_padding_reaches_no_real_token(need_weights):
    """Case 7: a padding token's embedding changed, outputs at real tokens are the same; pad columns are 0."""
    module, x = made(), random_tensor((2, 5, D_MODEL))
    mask = create_padding_mask(torch.tensor([[4, 5, 6, 7, 8], [9, 3, 2, 0, 0]]))
    real = mask.squeeze(1)
    changed = x.clone()
    changed[~real] = 1e3
    output, weights = module(x, x, x, mask, need_weights)
    output_changed, weights_changed = module(changed, changed, changed, mask, need_weights)
    assert torch.equal(output[real], output_changed[real])
    for found in (weights, weights_changed) if need_weights else ():
        assert (found[1, :, :, 3:] == 0).all()
        torch.testing.assert_close(found.sum(dim=-1), torch.ones(2, H, 5))


@WAYS
def test_samples_do_not_mix(need_weights):
    """Case 15: sample 1 changed, sample 0's output and gradients are bit for bit the same."""
    module, results = made(), []
    for shift in (0.0, 10.0):
        inputs = sequences()
        for tensor in inputs:
            tensor[1] += shift
            tensor.requires_grad_()
        output, weights = module(*inputs, create_causal_mask(T_Q, T_K), need_weights)
        output.square().sum().backward()
        results.append([output.detach(), *(tensor.grad for tensor in inputs), *([weights] if need_weights else [])])
    for before, after in zip(*results, strict=True):
        assert torch.equal(before[0], after[0])
    assert not torch.equal(results[0][0][1], results[1][0][1])


@WAYS
def test_a_sample_alone_gives_what_it_gives_in_a_batch(need_weights):
    module, inputs, mask = made(), sequences(3), random_mask((3, 1, T_K))
    output, _ = module(*inputs, mask, need_weights)
    for b in range(3):
        alone, _ = module(*(tensor[b : b + 1] for tensor in inputs), mask[b : b + 1], need_weights)
        torch.testing.assert_close(output[b : b + 1], alone, rtol=0.0, atol=1e-5)


@WAYS
def test_the_order_of_the_keys_does_not_matter(need_weights):
    """Keys, values and mask put in another order: the same output, and the weights in that order."""
    module, (query, key, value), mask = made(), sequences(), random_mask((B, T_Q, T_K))
    order = torch.tensor([3, 0, 4, 1, 2])
    output, weights = module(query, key, value, mask, need_weights)
    moved, weights_moved = module(query, key[:, order], value[:, order], mask[..., order], need_weights)
    torch.testing.assert_close(moved, output, rtol=0.0, atol=1e-5)
    if need_weights:
        torch.testing.assert_close(weights_moved, weights[..., order], rtol=0.0, atol=1e-6)


def test_weights_sum_to_one_along_the_keys():
    """Case 16: one query, two keys, one sample: each weight is below 1 and the two sum to 1."""
    _, weights = made()(*sequences(1, 1, 2))
    assert weights.shape == (1, H, 1, 2)
    assert (weights < 1).all()
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(1, H, 1))


@WAYS
@pytest.mark.parametrize("mask_shape", [(4, 7), (B, 1, 7)], ids=str)
def test_fewer_queries_than_keys(mask_shape, need_weights):
    """Case 17: query length 4 against key length 7, with a mask for the pairs and with one for the padding."""
    module, (query, key, value) = made(), sequences(T_q=4, T_k=7)
    mask = torch.ones(mask_shape, dtype=torch.bool)
    mask[..., 5:] = False
    output, weights = module(query, key, value, mask, need_weights)
    assert output.shape == (B, 4, D_MODEL)
    without, _ = module(query, key[:, :5], value[:, :5])
    torch.testing.assert_close(output, without, rtol=0.0, atol=1e-5)
    if need_weights:
        assert weights.shape == (B, H, 4, 7)
        assert (weights[..., 5:] == 0).all()


@WAYS
@pytest.mark.parametrize("mask_kind", [None, "(T_q, T_k)", "(B, 1, T_k)", "(B, H, T_q, T_k)"])
@pytest.mark.parametrize(("samples", "T_q", "T_k"), [(1, 1, 1), (2, 1, 5), (2, 3, 1), (0, 3, 5), (2, 0, 5), (2, 3, 0)])
def test_lengths_of_one_and_nothing(samples, T_q, T_k, mask_kind, need_weights):
    """One key gets all the weight; without keys every output is the bias of W_o; without queries nothing comes out."""
    module, inputs = made(), sequences(samples, T_q, T_k, requires_grad=True)
    mask = None if mask_kind is None else torch.ones(MASK_SHAPES[mask_kind](samples, H, T_q, T_k))
    output, weights = module(*inputs, mask, need_weights)
    assert output.shape == (samples, T_q, D_MODEL)
    if need_weights:
        assert weights.shape == (samples, H, T_q, T_k)
        torch.testing.assert_close(weights.sum(dim=-1), torch.full((samples, H, T_q), float(T_k > 0)))
    if T_k == 1:
        expected = module.W_o(module.W_v(inputs[2])).expand(-1, T_q, -1)
        torch.testing.assert_close(output, expected, rtol=0.0, atol=1e-5)
    if T_k == 0:
        assert torch.equal(output, module.W_o.bias.expand(samples, T_q, D_MODEL))
    output.sum().backward()
    assert all(tensor.grad.isfinite().all() for tensor in (*inputs, *module.parameters()))


# Masks


FITS = [shape for shape in MASK_SHAPES if shape != "(T_k,)"]


@WAYS
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("shape", FITS)
def test_a_mask_that_fits_means_one_thing(shape, sizes, need_weights):
    """Case 9: each sample and head gets its own part of the mask, when all sizes are equal as well."""
    samples, num_heads, T_q, T_k = sizes
    module, inputs = made(4 * num_heads, num_heads), sequences(samples, T_q, T_k, 4 * num_heads)
    mask = random_mask(MASK_SHAPES[shape](*sizes))
    output, weights = module(*inputs, mask, need_weights)
    for b, h in np.ndindex(samples, num_heads):
        # A 2-D mask is for all, a 3-D one has samples, a 4-D one samples and heads; where it has 1, all share.
        own = {2: (), 3: (b,), 4: (b, h)}[mask.dim()]
        part = mask[tuple(min(at, size - 1) for at, size in zip(own, mask.shape, strict=False))].expand(T_q, T_k)
        one = slice(b, b + 1)
        alone = module(*(tensor[one] for tensor in inputs), part.clone())
        if need_weights:
            torch.testing.assert_close(weights[b, h], alone[1][0, h], rtol=0.0, atol=1e-6)
        if mask.dim() < 4 or mask.size(1) == 1:
            torch.testing.assert_close(output[one], alone[0], rtol=0.0, atol=1e-5)
    torch.testing.assert_close(output, by_head(module, *inputs, mask)[0], rtol=0.0, atol=1e-5)


@WAYS
@pytest.mark.parametrize(
    "shape",
    [
        (),
        (5,),
        (5, 3),  # transposed
        (3, 4),
        (2, 5),  # (B, T_k)
        (4, 3, 5),  # (H, T_q, T_k)
        (3, 1, 5),
        (2, 5, 3),
        (4, 2, 3, 5),  # heads before samples
        (8, 3, 5),  # as `nn.MultiheadAttention` takes it
        (2, 2, 3, 5),
        (2, 1, 1, 4),
        (2, 1, 4, 3, 5),
        (0, 5),
    ],
    ids=str,
)
def test_a_mask_that_does_not_fit_is_refused(shape, need_weights):
    """Case 9: the error names the shape of the mask and all three shapes wanted."""
    with pytest.raises(ValueError, match=r"^mask has shape") as error:
        made()(*sequences(), torch.ones(shape), need_weights)
    wanted = [f"mask has shape {shape};", "(T_q, T_k) = (3, 5)", "(B, T_q, T_k) = (2, 3, 5)"]
    assert all(part in str(error.value) for part in [*wanted, "(B, H, T_q, T_k) = (2, 4, 3, 5)"]), error.value


@pytest.mark.parametrize("sizes", [(3, 3), (2, 5)], ids=str)
def test_a_mask_of_samples_and_keys_is_never_read_as_one_of_queries(sizes):
    """Case 9: (B, T_k) with B different from T_q is refused; with B = T_q it is (T_q, T_k), as the design says."""
    samples, T = sizes
    module, x, mask = made(), random_tensor((samples, T, D_MODEL)), random_mask((samples, T))
    if samples == T:
        torch.testing.assert_close(module(x, x, x, mask), by_head(module, x, x, x, mask), rtol=0.0, atol=1e-5)
    else:
        with pytest.raises(ValueError, match=r"^mask has shape"):
            module(x, x, x, mask)


@WAYS
@settings(many, max_examples=40)
@given(problems(mask_dtypes=(torch.bool,)), st.sampled_from([*MASK_DTYPES[1:], *HALF, torch.int8, torch.float64]))
def test_masks_of_ones_and_zeros_are_boolean_masks(need_weights, problem, mask_dtype):
    """Case 12: int64, uint8 and float masks of 1 and 0 give bit for bit what the boolean mask gives."""
    module, inputs, mask = problem
    mask = torch.ones(inputs[0].size(1), inputs[1].size(1), dtype=torch.bool) if mask is None else mask
    expected = module(*inputs, mask, need_weights)
    actual = module(*inputs, mask.to(mask_dtype), need_weights)
    assert torch.equal(actual[0], expected[0])
    assert not need_weights or torch.equal(actual[1], expected[1])


@WAYS
@pytest.mark.parametrize("low", [-math.inf, -1e9, -1.0, math.nan], ids=str)
def test_an_additive_mask_is_refused(low, need_weights):
    """Case 11: a mask of 0 and -inf is an error that says how to convert it, and converted it works."""
    mask = create_causal_mask(T_Q, T_K)
    additive = torch.zeros(T_Q, T_K).masked_fill(~mask, low)
    with pytest.raises(ValueError, match=r"^mask \(torch.float32\) holds values other than 0 and 1") as error:
        made()(*sequences(), additive, need_weights)
    assert "pass mask == 0" in str(error.value)
    expected, _ = made()(*sequences(), mask, need_weights)
    assert torch.equal(made()(*sequences(), additive == 0, need_weights)[0], expected)


@WAYS
def test_the_mask_may_be_left_out_or_allow_everything(need_weights):
    """A mask that blocks nothing changes nothing."""
    module, inputs = made(), sequences()
    left_out, all_allowed = (module(*inputs, mask, need_weights)[0] for mask in (None, torch.ones(T_Q, T_K)))
    torch.testing.assert_close(left_out, all_allowed, rtol=0.0, atol=1e-6)


def most_memory(call, file):
    """The most bytes that torch holds at a time during a call, beyond those that it held before, by its profiler."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    profiler.export_chrome_trace(str(file))
    events = [event for event in json.loads(file.read_text())["traceEvents"] if event["name"] == "[memory]"]
    changes = [event["args"]["Bytes"] for event in sorted(events, key=lambda event: event["ts"])]
    return max(itertools.accumulate(changes))


def test_causal_and_padding_masks_together_take_no_memory_for_every_head(tmp_path):
    """Case 48, x-transformers#325: without weights, forward and backward, one mask a sample, as floats.

    Beside it, less than half as much: the booleans that it is made of, and the output before empty rows are cleared.
    """
    heads, T = 8, 96
    module, x = made(16, heads), random_tensor((3, T, 16)).requires_grad_()
    token_ids = torch.ones(3, T, dtype=torch.long)
    token_ids[1, 50:], token_ids[2, :7] = 0, 0  # padding at the end; at the beginning, where rows are empty
    causal, padding = create_causal_mask(T), create_padding_mask(token_ids)

    def memory(mask):
        return most_memory(lambda: module(x, x, x, mask, need_weights=False)[0].sum().backward(), tmp_path / "trace")

    memory(None)  # what is allocated once and kept, such as gradients
    floats = 3 * T * T * 4
    without = memory(None)
    assert memory(padding) - without < floats / 2  # (B, 1, T_k): no more than a row a sample
    assert memory(causal) - without < floats
    both = memory(causal & padding)
    assert both - without < 1.5 * floats
    assert both < heads * floats  # all of it: no scores of every head either


# Dropout


def test_dropout_does_nothing_in_evaluation():
    """Case 14: two calls are bit-equal, equal to a module without dropout, and draw no random number."""
    module, plain = made(dropout=0.5).eval(), made().train()
    state = torch.get_rng_state()
    for need_weights in (True, False):
        outputs = [m(*sequences(), None, need_weights)[0] for m in (module, module, plain)]
        assert torch.equal(outputs[0], outputs[1])
        assert torch.equal(outputs[0], outputs[2])
    assert torch.equal(torch.get_rng_state(), state)


@WAYS
@pytest.mark.parametrize("with_mask", [False, True], ids=["no mask", "mask"])
def test_dropout_in_training(with_mask, need_weights):
    """Case 14: the outputs of two calls differ; the weights are the ones before dropout, so rows sum to 1."""
    mask = create_causal_mask(T_Q, T_K) if with_mask else None
    torch.manual_seed(0)
    module = made(dropout=0.5)
    (first, weights), (second, _) = (module(*sequences(), mask, need_weights) for _ in range(2))
    assert (first - second).abs().max() > 0.01
    if need_weights:
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(B, H, T_Q))
        assert torch.equal(weights, made()(*sequences(), mask)[1])


@WAYS
def test_dropout_takes_whole_weights_and_makes_up_for_them(need_weights):
    """With one key, a head finds nothing or twice the value: all its features together, each head on its own."""
    torch.manual_seed(0)
    module, x = copying(8, 4), torch.ones(500, 1, 8)
    module.dropout = 0.5
    heads = split_heads(module(x, x, x, need_weights=need_weights)[0], 4)  # (500, 4, 1, 2)
    assert set(heads.flatten().tolist()) == {0.0, 2.0}
    assert torch.equal(heads[..., 0], heads[..., 1])
    assert len({tuple(sample) for sample in heads[:, :, 0, 0].tolist()}) == 2**4


@WAYS
@pytest.mark.parametrize("with_mask", [False, True], ids=["no mask", "mask"])
@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_dropout_leaves_the_expected_output_as_it_is(dropout, with_mask, need_weights):
    """The mean of 4000 draws is within five of its standard errors of the output without dropout."""
    draws = 4000
    torch.manual_seed(0)
    module, mask = made(8, 2, dropout=dropout), torch.ones(T_Q, T_K).tril(2) if with_mask else None
    one = sequences(1, d_model=8)
    expected, _ = module.eval()(*one, mask)
    output, _ = module.train()(*(tensor.expand(draws, -1, -1) for tensor in one), mask, need_weights)
    error = output.std(dim=0) / math.sqrt(draws)
    assert ((output.mean(dim=0) - expected[0]).abs() < 5 * error).all()


@WAYS
def test_an_empty_row_stays_empty_and_finite_under_dropout(need_weights):
    torch.manual_seed(0)
    module, inputs = made(dropout=0.5), sequences(requires_grad=True)
    mask = torch.ones(T_Q, T_K)
    mask[1] = 0
    with torch.autograd.set_detect_anomaly(True):
        output, _ = module(*inputs, mask, need_weights)
        output.square().sum().backward()
    assert torch.equal(output[:, 1], module.W_o.bias.expand(B, -1))
    assert all(tensor.grad.isfinite().all() for tensor in (*inputs, *module.parameters()))


@WAYS
def test_everything_may_be_dropped(need_weights):
    """With a dropout of 1, every output is the bias of W_o."""
    module = made(dropout=1.0)
    assert torch.equal(module(*sequences(), None, need_weights)[0], module.W_o.bias.expand(B, T_Q, D_MODEL))


# The module


@pytest.mark.parametrize("num_heads", [1, 2, 12, 24])
def test_the_parameters_are_four_projections_whatever_the_heads(num_heads):
    module = MultiHeadAttention(D_MODEL, num_heads)
    shapes = {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
    names = ["W_q", "W_k", "W_v", "W_o"]
    assert list(shapes) == [f"{name}.{kind}" for name in names for kind in ("weight", "bias")]
    assert all(shapes[f"{name}.weight"] == (D_MODEL, D_MODEL) for name in names)
    assert all(shapes[f"{name}.bias"] == (D_MODEL,) for name in names)
    assert sum(parameter.numel() for parameter in module.parameters()) == 4 * D_MODEL * (D_MODEL + 1)
    assert all(parameter.requires_grad for parameter in module.parameters())
    assert dict(module.named_buffers()) == {}
    assert f"num_heads={num_heads}, dropout=0.0" in repr(module)


def test_more_heads_ask_other_questions():
    """The same weights with another number of heads are another function: heads are no matter of speed."""
    one, four = made(num_heads=1), made(num_heads=4)
    assert all(torch.equal(one.get_parameter(name), other) for name, other in four.named_parameters())
    assert (one(*sequences())[0] - four(*sequences())[0]).abs().max() > 0.1


def by_state_dict(module):
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    found = MultiHeadAttention(D_MODEL, H, module.dropout)
    found.load_state_dict(torch.load(file, weights_only=True))
    return found


@pytest.mark.parametrize(
    "copied", [by_state_dict, copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))],
    ids=["state_dict", "deepcopy", "pickle"],
)  # fmt: skip
def test_a_copy_is_the_same_and_its_own(copied):
    """After a call too: a module keeps nothing that could not be copied."""
    module = made(dropout=0.5).eval()
    expected = module(*sequences(requires_grad=True))
    other = copied(module).eval()
    assert (other.num_heads, other.dropout) == (H, 0.5)
    assert all(map(torch.equal, other(*sequences()), expected))
    with torch.no_grad():
        other.W_q.weight.add_(1.0)
    assert all(map(torch.equal, module(*sequences()), expected))


@WAYS
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_precision_keeps_its_dtype(dtype, need_weights):
    """Case 10: float16 and bfloat16 work with a mask on the CPU, results and gradients keep the dtype."""
    module, inputs = made(dtype=dtype), sequences(dtype=dtype, requires_grad=True)
    output, weights = module(*inputs, create_causal_mask(T_Q, T_K), need_weights)
    output.sum().backward()
    tensors = [
        output,
        *(tensor.grad for tensor in (*inputs, *module.parameters())),
        *([weights] if need_weights else []),
    ]
    assert {tensor.dtype for tensor in tensors} == {dtype}
    assert all(tensor.isfinite().all() for tensor in tensors)
    wide, _ = module.float()(*(tensor.detach().float() for tensor in inputs), create_causal_mask(T_Q, T_K))
    assert_close(output, wide, torch.float32 if dtype == torch.float64 else dtype, "output", TIMES)


@WAYS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_autocast_to_bfloat16(dtype, need_weights):
    """Inputs may have either dtype then; the output is bfloat16, close to float32, and the gradients are float32."""
    module, mask = made(), create_causal_mask(T_Q, T_K)
    inputs = [tensor.to(dtype) for tensor in sequences()]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, weights = module(*inputs, mask, need_weights)
    assert output.dtype == torch.bfloat16
    output.float().sum().backward()
    assert {parameter.grad.dtype for parameter in module.parameters()} == {torch.float32}
    expected = module(*(tensor.float() for tensor in inputs), mask)
    assert_close(output, expected[0], torch.bfloat16, "output", TIMES)
    if need_weights:
        assert_close(weights, expected[1], torch.bfloat16, "weights", TIMES)


def test_the_module_works_on_another_device():
    """On the meta device, which has shapes alone, the mask's included."""
    module, inputs = made().to("meta"), [tensor.to("meta") for tensor in sequences()]
    output, _ = module(*inputs, torch.ones(T_Q, T_K, dtype=torch.bool, device="meta"), need_weights=False)
    assert output.shape == (B, T_Q, D_MODEL)
    assert output.device.type == "meta"


def why_not_compile():
    """What `torch.compile` lacks here, or nothing."""
    if not any(map(shutil.which, ("g++", "c++", "clang++"))):
        return "no C++ compiler for torch.compile"
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    return "" if headers.is_file() else "no headers of Python for torch.compile"


@pytest.mark.skipif(bool(why_not_compile()), reason=why_not_compile())
@pytest.mark.filterwarnings("ignore")  # torch's compiler warns of what it itself does: deprecations, `.grad` looked at
@WAYS
def test_compiled_it_gives_the_same(need_weights):
    """With a mask that empties a row: values and gradients."""
    module, inputs = made(), sequences()
    mask = create_causal_mask(T_Q, T_K)
    mask[1] = False
    compiled = torch.compile(module)
    expected, actual = (
        results_and_gradients(lambda *inputs, f=f: f(*inputs, mask, need_weights), module, inputs)
        for f in (module, compiled)
    )
    torch.compiler.reset()
    assert_same(actual, expected, torch.float32)


# Errors


@pytest.mark.parametrize(
    ("arguments", "error", "names"),
    [
        ((10, 3), ValueError, ["d_model=10 is not divisible by num_heads=3"]),
        ((2, 8), ValueError, ["d_model=2 is not divisible by num_heads=8"]),
        ((8, 0), ValueError, ["d_model=8", "num_heads=0", "at least 1"]),
        ((0, 8), ValueError, ["d_model=0", "num_heads=8", "at least 1"]),
        ((8, -2), ValueError, ["d_model=8", "num_heads=-2", "at least 1"]),
        ((-8, 2), ValueError, ["d_model=-8", "num_heads=2", "at least 1"]),
        ((8.0, 2), TypeError, ["d_model=8.0 is a float", "expected an integer"]),
        ((8, 2.0), TypeError, ["num_heads=2.0 is a float", "expected an integer"]),
        ((8, True), TypeError, ["num_heads=True is a bool", "expected an integer"]),
        ((8, "2"), TypeError, ["num_heads='2' is a str", "expected an integer"]),
        ((8, None), TypeError, ["num_heads=None is a NoneType", "expected an integer"]),
        ((8, 2, -0.1), ValueError, ["dropout=-0.1", "from 0 to 1"]),
        ((8, 2, 1.5), ValueError, ["dropout=1.5", "from 0 to 1"]),
        ((8, 2, math.nan), ValueError, ["dropout=nan", "from 0 to 1"]),
    ],
    ids=str,
)
def test_sizes_that_cannot_be_are_named(arguments, error, names):
    """Case 18: the message has both numbers."""
    with pytest.raises(error) as raised:
        MultiHeadAttention(*arguments)
    assert all(name in str(raised.value) for name in names), raised.value


def test_sizes_may_be_integers_of_numpy():
    assert made(np.int64(24), np.int32(4))(*sequences())[0].shape == (B, T_Q, D_MODEL)


@WAYS
@pytest.mark.parametrize(
    ("query", "key", "value", "error", "names"),
    [
        ([[1.0]], shaped(2, 5, 24), shaped(2, 5, 24), TypeError, ["query is a list", "torch.Tensor"]),
        (shaped(2, 3, 24), np.ones((2, 5, 24)), shaped(2, 5, 24), TypeError, ["key is a ndarray", "torch.Tensor"]),
        (shaped(2, 3, 24), shaped(2, 5, 24), None, TypeError, ["value is a NoneType", "torch.Tensor"]),
        (shaped(2, 3).long(), shaped(2, 5, 24), shaped(2, 5, 24), TypeError, ["query holds torch.int64", "floating"]),
        (shaped(2, 3, 24), shaped(2, 5, 24).bool(), shaped(2, 5, 24), TypeError,
         ["key holds torch.bool", "key.float()"]),
        (shaped(2, 3, 24).cfloat(), shaped(2, 5, 24), shaped(2, 5, 24), TypeError, ["query holds torch.complex64"]),
        (shaped(2, 3, 24), shaped(2, 5, 24).double(), shaped(2, 5, 24), TypeError,
         ["key holds torch.float64", "weights hold torch.float32"]),
        (shaped(2, 3, 24), shaped(2, 5, 24), shaped(2, 5, 24).half(), TypeError,
         ["value holds torch.float16", "weights hold torch.float32"]),
        (shaped(3, 24), shaped(5, 24), shaped(5, 24), ValueError,
         ["query has shape (3, 24)", "(B, T_q, d_model=24)"]),
        (shaped(2, 3, 24), shaped(2, 1, 5, 24), shaped(2, 5, 24), ValueError,
         ["key has shape (2, 1, 5, 24)", "(B, T_k, d_model=24)"]),
        (shaped(2, 3, 12), shaped(2, 5, 24), shaped(2, 5, 24), ValueError,
         ["query has shape (2, 3, 12)", "(B, T_q, d_model=24)"]),
        (shaped(2, 3, 24), shaped(2, 5, 24), shaped(2, 5, 25), ValueError,
         ["value has shape (2, 5, 25)", "(B, T_k, d_model=24)"]),
        (shaped(2, 3, 24), shaped(4, 5, 24), shaped(4, 5, 24), ValueError, ["query has 2 samples but key has 4"]),
        (shaped(2, 3, 24), shaped(2, 5, 24), shaped(1, 5, 24), ValueError, ["query has 2 samples but value has 1"]),
        (shaped(2, 3, 24), shaped(2, 7, 24), shaped(2, 5, 24), ValueError,
         ["key has 7 positions but value has 5", "every key needs its value"]),
    ],
    ids=["query list", "key array", "value missing", "query ids", "key bool", "query complex", "key dtype",
         "value dtype", "query 2-D", "key 4-D", "query width", "value width", "key batch", "value batch", "lengths"],
)  # fmt: skip
def test_sequences_that_do_not_fit_are_named(query, key, value, error, names, need_weights):
    """The message names the argument, its shape and the rule. Case 19: token ids are 'floating point expected'."""
    with pytest.raises(error) as raised:
        made()(query, key, value, need_weights=need_weights)
    assert all(name in str(raised.value) for name in names), raised.value


@pytest.mark.parametrize("mask", [[[True, False]], np.ones((3, 5), dtype=bool), True], ids=["list", "array", "bool"])
def test_a_mask_that_is_no_tensor_is_a_type_error(mask):
    with pytest.raises(TypeError, match=f"^mask is a {type(mask).__name__}; expected a torch.Tensor"):
        made()(*sequences(), mask)


def test_an_error_comes_before_any_computation():
    """No projection has been called when the mask, the last thing that is looked at, turns out not to fit."""
    module, called = made(), []
    for projection in module.children():
        projection.register_forward_hook(lambda *call: called.append(call))
    with pytest.raises(ValueError, match=r"^mask has shape"):
        module(*sequences(), torch.ones(5, 3))
    assert called == []


def test_autocast_leaves_float64_alone_so_it_is_refused():
    module = made()
    query, key, value = sequences()
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(TypeError, match=r"value holds torch\.float64"):
        module(query, key, value.double())
