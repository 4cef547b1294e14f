"""`scaled_dot_product_attention` against torch's own, against plain arithmetic and against cases from the field."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from utils.attention import scaled_dot_product_attention
from utils.masks import create_causal_mask, create_padding_mask

HALF = (torch.float16, torch.bfloat16)
DTYPES = (*HALF, torch.float32, torch.float64)
MASK_DTYPES = (torch.bool, torch.int64, torch.uint8, torch.float32)
# What rounding may cost, in units of the last place at the size of the largest number in the right answer.
# A score s that is off by one part in a thousand moves its weight by s parts in a thousand, and scores reach
# about 10. The worst of 3000 random problems: 3.3 in half precision, which is compared with float64; 11.8 in
# float32 and float64, which are compared with torch's results in the same precision.
ROUNDINGS = {torch.float16: 12, torch.bfloat16: 12, torch.float32: 32, torch.float64: 32}

many = settings(deadline=None, derandomize=True, max_examples=120)
pytestmark = pytest.mark.usefixtures("one_thread")


def random_tensor(shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def random_operands(leading=(2,), T_q=3, T_k=5, d_k=4, d_v=6, dtype=torch.float32, requires_grad=False):
    Q = random_tensor((*leading, T_q, d_k), dtype, seed=1)
    K = random_tensor((*leading, T_k, d_k), dtype, seed=2)
    V = random_tensor((*leading, T_k, d_v), dtype, seed=3)
    return tuple(tensor.requires_grad_(requires_grad) for tensor in (Q, K, V))


@st.composite
def operands(draw, dtypes=DTYPES):
    """Q, K and V with leading dimensions that broadcast, and lengths that differ or are 1."""
    dtype = draw(st.sampled_from(dtypes))
    T_q, T_k = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    d_k, d_v = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    leading = draw(st.lists(st.integers(1, 3), max_size=2))
    tensors = []
    for length, features in ((T_q, d_k), (T_k, d_k), (T_k, d_v)):
        shared = draw(st.lists(st.booleans(), min_size=len(leading), max_size=len(leading)))
        dims = [1 if one else size for one, size in zip(shared, leading, strict=True)]
        dims = dims[draw(st.integers(0, len(dims))) :] if all(shared) else dims
        tensors.append(random_tensor((*dims, length, features), dtype, seed=draw(st.integers(0, 2**16))))
    return tensors


@st.composite
def problems(draw, dtypes=DTYPES, mask_dtypes=MASK_DTYPES, maskless=True):
    """Q, K, V and a mask that fits them: none, (T_q, T_k), shared by all queries, or full; some rows empty."""
    Q, K, V = draw(operands(dtypes))
    leading = torch.broadcast_shapes(Q.shape[:-2], K.shape[:-2])
    T_q, T_k = Q.size(-2), K.size(-2)
    shapes = {
        "(T_q, T_k)": (T_q, T_k),
        "shared by queries": (*leading, 1, T_k),
        "shared by samples": (*(1 for _ in leading), T_q, T_k),
        "full": (*leading, T_q, T_k),
    }
    kind = draw(st.sampled_from([*shapes, *(["none"] if maskless else [])]))
    if kind == "none":
        return Q, K, V, None
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    mask = torch.rand(shapes[kind], generator=generator) < draw(st.sampled_from([0.0, 0.4, 0.8, 1.0]))
    if draw(st.booleans()):
        mask[..., draw(st.integers(0, mask.size(-2) - 1)), :] = False
    return Q, K, V, mask.to(draw(st.sampled_from(mask_dtypes)))


def weights_shape(Q, K):
    return (*torch.broadcast_shapes(Q.shape[:-2], K.shape[:-2]), Q.size(-2), K.size(-2))


def allowed_pairs(mask, shape):
    """The mask as booleans in the shape of the weights; all True without one."""
    return torch.ones(shape, dtype=torch.bool) if mask is None else (mask != 0).expand(shape)


def plain_weights(Q, K, mask):
    """The weights, one query at a time, in double precision; a row with nothing allowed is zero."""
    shape = weights_shape(Q, K)
    queries = Q.double().expand(*shape[:-1], Q.size(-1)).numpy()
    keys = K.double().expand(*shape[:-2], *K.shape[-2:]).numpy()
    allowed = allowed_pairs(mask, shape).numpy()
    weights = np.zeros(shape)
    for row in np.ndindex(*shape[:-1]):
        may = allowed[row]
        scores = [float(queries[row] @ key) / math.sqrt(len(key)) for key in keys[row[:-1]][may]]
        if scores:
            powers = np.exp(np.array(scores) - max(scores))
            weights[row][may] = powers / powers.sum()
    return torch.from_numpy(weights)


def torch_attention(Q, K, V, mask):
    """`F.scaled_dot_product_attention` on operands expanded to one set of leading dimensions."""
    leading = torch.broadcast_shapes(Q.shape[:-2], K.shape[:-2], V.shape[:-2])
    Q, K, V = (tensor.expand(*leading, *tensor.shape[-2:]) for tensor in (Q, K, V))
    return F.scaled_dot_product_attention(Q, K, V, attn_mask=None if mask is None else mask != 0)


def value_and_gradients(attention, Q, K, V, mask, dtype):
    """The output and the gradients of Q, K and V, computed in `dtype`, for one fixed gradient of the output."""
    Q, K, V = (tensor.detach().to(dtype).requires_grad_() for tensor in (Q, K, V))
    output = attention(Q, K, V, mask)
    output.backward(random_tensor(output.shape, torch.float16, seed=4).to(dtype))  # the same numbers in every dtype
    return {"output": output.detach(), "dQ": Q.grad, "dK": K.grad, "dV": V.grad}


def assert_close(actual, expected, dtype, name, times=1):
    """Equal but for rounding in `dtype`, `times` what is usual; `expected` is in a higher precision, or the same."""
    unit = torch.finfo(dtype).eps * max(1.0, expected.abs().max().item() if expected.numel() else 0.0)
    torch.testing.assert_close(
        actual.double(),
        expected.double(),
        rtol=0.0,
        atol=times * ROUNDINGS[dtype] * unit,
        msg=lambda message: f"{name}: {message}",
    )


def assert_rows_sum_to_one_or_zero(weights, mask):
    has_key = allowed_pairs(mask, weights.shape).any(dim=-1)
    sums = weights.detach().double().sum(dim=-1)
    assert_close(sums[has_key], torch.ones_like(sums[has_key]), weights.dtype, "sum of a row")
    assert (weights[~has_key] == 0).all()


# Agreement with torch and with plain arithmetic


@many
@given(problems())
def test_output_and_gradients_agree_with_torch(problem):
    """Values and gradients are those of torch's function; half precision is held to the float64 computation."""
    Q, K, V, mask = problem
    actual = value_and_gradients(lambda *args: scaled_dot_product_attention(*args)[0], Q, K, V, mask, Q.dtype)
    reference_dtype = torch.float64 if Q.dtype in HALF else Q.dtype
    expected = value_and_gradients(torch_attention, Q, K, V, mask, reference_dtype)
    for name, tensor in actual.items():
        assert tensor.dtype == Q.dtype, name
        assert tensor.shape == expected[name].shape, name
        assert_close(tensor, expected[name], Q.dtype, name)


@many
@given(problems())
def test_weights_agree_with_plain_arithmetic(problem):
    """Weights are those of a row-by-row computation, exactly 0 where blocked; rows sum to 1 or are exactly 0."""
    Q, K, V, mask = problem
    _, weights = scaled_dot_product_attention(Q, K, V, mask)
    assert weights.dtype == Q.dtype
    assert weights.shape == weights_shape(Q, K)
    assert (weights[~allowed_pairs(mask, weights.shape)] == 0).all()
    assert_rows_sum_to_one_or_zero(weights, mask)
    assert_close(weights, plain_weights(Q, K, mask), Q.dtype, "weights")


@settings(many, max_examples=30)
@given(problems(dtypes=(torch.float64,)))
def test_gradients_of_output_and_weights_are_those_of_finite_differences(problem):
    """A loss may be taken on the weights as well as on the output."""
    Q, K, V, mask = problem
    inputs = [tensor.requires_grad_() for tensor in (Q, K, V)]
    assert all(result.requires_grad for result in scaled_dot_product_attention(*inputs, mask))
    assert torch.autograd.gradcheck(lambda *QKV: scaled_dot_product_attention(*QKV, mask), inputs)


@settings(many, max_examples=60)
@given(problems())
def test_inputs_are_not_changed(problem):
    """Neither the operands nor the mask are written to, not even with the values they hold already."""
    before = [None if tensor is None else (tensor.clone(), tensor._version) for tensor in problem]
    scaled_dot_product_attention(*problem)
    for tensor, kept in zip(problem, before, strict=True):
        if tensor is not None:
            assert torch.equal(tensor, kept[0])
            assert tensor._version == kept[1]


@settings(many, max_examples=60)
@given(problems(mask_dtypes=(torch.bool,), maskless=False), st.sampled_from([*MASK_DTYPES[1:], *HALF, torch.int8]))
def test_masks_of_ones_and_zeros_are_boolean_masks(problem, mask_dtype):
    """Case 12: int64, uint8 and float masks of 1 and 0 give bit for bit what the boolean mask gives."""
    Q, K, V, mask = problem
    expected = scaled_dot_product_attention(Q, K, V, mask)
    actual = scaled_dot_product_attention(Q, K, V, mask.to(mask_dtype))
    assert all(map(torch.equal, actual, expected))


def test_the_mask_may_be_left_out_or_allow_everything():
    """A mask that blocks nothing changes nothing."""
    Q, K, V = random_operands()
    for left_out, all_allowed in zip(
        scaled_dot_product_attention(Q, K, V),
        scaled_dot_product_attention(Q, K, V, mask=torch.ones(3, 5, dtype=torch.bool)),
        strict=True,
    ):
        assert torch.equal(left_out, all_allowed)


@pytest.mark.parametrize("with_mask", [False, True], ids=["no mask", "mask"])
@pytest.mark.parametrize(("T_q", "T_k"), [(3, 0), (0, 3), (0, 0)])
def test_no_keys_give_zeros_and_no_queries_give_nothing(T_q, T_k, with_mask):
    """With T_k = 0 every query has nothing to attend to; the gradients exist and are zero."""
    Q, K, V = random_operands(T_q=T_q, T_k=T_k, requires_grad=True)
    mask = torch.ones(T_q, T_k, dtype=torch.bool) if with_mask else None
    output, weights = scaled_dot_product_attention(Q, K, V, mask)
    assert weights.shape == (2, T_q, T_k)
    assert torch.equal(output, torch.zeros(2, T_q, 6))
    output.sum().backward()
    assert all((tensor.grad == 0).all() for tensor in (Q, K, V))


@pytest.mark.parametrize("with_mask", [False, True], ids=["no mask", "mask"])
@pytest.mark.parametrize("d_k", [1, 64])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_large_scores_pick_the_best_key(dtype, d_k, with_mask):
    """Scores of 5e3, 1e4 and -1e4 give weights 0, 1, 0 and finite gradients, as torch's function does."""
    size = 100.0 / d_k**0.25  # size * size * d_k / sqrt(d_k) = 1e4
    Q = torch.full((2, 2, d_k), size, dtype=dtype).requires_grad_()
    K = (torch.tensor([0.5, 1.0, -1.0], dtype=dtype).unsqueeze(1) * size).expand(2, 3, d_k).clone().requires_grad_()
    V = random_tensor((2, 3, 4), dtype).requires_grad_()
    mask = torch.tensor([[True, True, True], [False, False, False]]) if with_mask else None
    output, weights = scaled_dot_product_attention(Q, K, V, mask)
    assert torch.equal(weights[:, 0], torch.tensor([[0.0, 1.0, 0.0]] * 2, dtype=dtype))
    assert torch.equal(output[:, 0], V[:, 1])
    assert torch.equal(output, F.scaled_dot_product_attention(Q, K, V, attn_mask=mask))
    output.sum().backward()
    assert all(tensor.grad.isfinite().all() for tensor in (Q, K, V))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_allowed_key_with_a_very_low_score_gets_all_the_weight_there_is(dtype):
    """A score of -1e4 on the one allowed key: weight 1 on it, and none on the blocked keys."""
    Q = torch.full((1, 1), 100.0, dtype=dtype)
    K = torch.tensor([[100.0], [-100.0], [100.0]], dtype=dtype)
    V = torch.eye(3, dtype=dtype)
    output, weights = scaled_dot_product_attention(Q, K, V, torch.tensor([[False, True, False]]))
    assert weights.tolist() == output.tolist() == [[0.0, 1.0, 0.0]]


# Cases from the field


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_query_with_nothing_to_attend_to(dtype):
    """Case 1: causal and padding masks empty a row, the loss leaves it out; all is finite, and its share is 0."""
    token_ids = torch.tensor([[0, 7, 8, 9], [5, 6, 7, 0]])  # the first sample is padded on the left
    mask = create_causal_mask(4) & create_padding_mask(token_ids)
    Q, K, V = random_operands(T_q=4, T_k=4, dtype=dtype, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        output, weights = scaled_dot_product_attention(Q, K, V, mask)
        output[token_ids != 0].square().sum().backward()
    assert (output[0, 0] == 0).all()
    assert (weights[0, 0] == 0).all()
    assert weights.isfinite().all()
    assert output.isfinite().all()
    assert (Q.grad[0, 0] == 0).all()
    assert all(tensor.grad.isfinite().all() for tensor in (Q, K, V))
    assert (Q.grad[0, 1:] != 0).any()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_loss_on_the_empty_row_itself_has_finite_gradients(dtype):
    """Case 1: with the loss on everything, weights included, the empty row sends no gradient anywhere."""
    Q, K, V = random_operands((), T_q=2, T_k=3, dtype=dtype, requires_grad=True)
    mask = torch.tensor([[False, False, False], [True, True, False]])
    with torch.autograd.set_detect_anomaly(True):
        output, weights = scaled_dot_product_attention(Q, K, V, mask)
        (output.sum() + weights.square().sum()).backward()
    assert (Q.grad[0] == 0).all()
    assert (K.grad[2] == 0).all()
    assert (V.grad[2] == 0).all()
    assert all(tensor.grad.isfinite().all() for tensor in (Q, K, V))


@pytest.mark.parametrize("leading", [(), (2,), (2, 3)], ids=str)
@pytest.mark.parametrize("t", [0, 2, 4])
def test_no_position_sees_what_comes_after_it(t, leading):
    """Case 3: token t+1 changed, outputs up to t are bit for bit the same; weights above the diagonal are 0."""
    x = random_tensor((*leading, 6, 8))
    changed = x.clone()
    changed[..., t + 1, :] = 100.0
    mask = create_causal_mask(6)
    output, weights = scaled_dot_product_attention(x, x, x, mask)
    output_changed, _ = scaled_dot_product_attention(changed, changed, changed, mask)
    assert torch.equal(output[..., : t + 1, :], output_changed[..., : t + 1, :])
    assert not torch.equal(output[..., t + 1, :], output_changed[..., t + 1, :])
    assert torch.equal(weights, weights.tril())
    assert (weights.diagonal(dim1=-2, dim2=-1) > 0).all()


def padded_batch():
    """Self-attention inputs for two samples, the second with two tokens of padding, and the mask for them."""
    token_ids = torch.tensor([[4, 5, 6, 7, 8], [9, 3, 2, 0, 0]])
    return random_tensor((2, 5, 8)), create_padding_mask(token_ids)


def test_the_padding_mask_as_torch_takes_it():
    """Case 4: given as it is to `F.scaled_dot_product_attention`, the course's padding mask means the same."""
    x, mask = padded_batch()
    output, _ = scaled_dot_product_attention(x, x, x, mask)
    expected = F.scaled_dot_product_attention(x, x, x, attn_mask=mask)
    torch.testing.assert_close(output, expected, rtol=0.0, atol=1e-6)


def test_the_padding_mask_as_multihead_attention_takes_it():
    """Case 4: inverted, the padding mask means the same to `nn.MultiheadAttention`; as it is, it does not."""
    x, mask = padded_batch()
    module = torch.nn.MultiheadAttention(8, num_heads=1, bias=False, batch_first=True)
    with torch.no_grad():  # projections that change nothing
        module.in_proj_weight.copy_(torch.eye(8).repeat(3, 1))
        module.out_proj.weight.copy_(torch.eye(8))
    for actual, expected in zip(
        scaled_dot_product_attention(x, x, x, mask),
        module(x, x, x, key_padding_mask=~mask.squeeze(1)),
        strict=True,
    ):
        torch.testing.assert_close(actual, expected, rtol=0.0, atol=1e-6)
    sample = slice(1, 2)  # in the other one, a mask that is not inverted blocks everything
    upside_down, _ = module(x[sample], x[sample], x[sample], key_padding_mask=mask[sample].squeeze(1))
    assert (upside_down - scaled_dot_product_attention(x, x, x, mask)[0][sample]).abs().max() > 0.1


def test_the_scale_is_that_of_a_head():
    """Case 5: d_model=64 in 8 heads agrees with torch's function called on one head of width 8 at a time."""
    B, T, d_model, H = 2, 5, 64, 8
    flat = [random_tensor((B, T, d_model), seed=seed) for seed in (1, 2, 3)]
    heads = [x.view(B, T, H, d_model // H).transpose(1, 2) for x in flat]  # (B, H, T, 8)
    output, _ = scaled_dot_product_attention(*heads)
    for h in range(H):
        one_head = [x[..., 8 * h : 8 * (h + 1)] for x in flat]  # (B, T, 8)
        torch.testing.assert_close(output[:, h], F.scaled_dot_product_attention(*one_head), rtol=0.0, atol=1e-5)


def test_padding_reaches_no_real_token():
    """Case 7: a padding token's embedding changed, outputs at real tokens are the same; pad columns are 0."""
    x, mask = padded_batch()
    real = mask.squeeze(1)
    changed = x.clone()
    changed[~real] = 1e3
    output, weights = scaled_dot_product_attention(x, x, x, mask)
    output_changed, weights_changed = scaled_dot_product_attention(changed, changed, changed, mask)
    assert torch.equal(output[real], output_changed[real])
    for w in (weights, weights_changed):
        assert (w[1, :, 3:] == 0).all()
        assert (w[1, :, :3].sum(dim=-1) > 0.99).all()  # what padding itself attends to is no concern


SIZES = {"B = H = T = 3": (3, 3, 3, 3), "all different": (2, 4, 3, 5)}  # B, H, T_q, T_k
MASK_SHAPES = {
    "(T_k,)": lambda B, H, T_q, T_k: (T_k,),
    "(T_q, T_k)": lambda B, H, T_q, T_k: (T_q, T_k),
    "(B, 1, T_k)": lambda B, H, T_q, T_k: (B, 1, T_k),
    "(B, T_q, T_k)": lambda B, H, T_q, T_k: (B, T_q, T_k),
    "(1, T_q, T_k)": lambda B, H, T_q, T_k: (1, T_q, T_k),
    "(B, 1, 1, T_k)": lambda B, H, T_q, T_k: (B, 1, 1, T_k),
    "(B, 1, T_q, T_k)": lambda B, H, T_q, T_k: (B, 1, T_q, T_k),
    "(1, H, T_q, 1)": lambda B, H, T_q, T_k: (1, H, T_q, 1),
    "(B, H, T_q, T_k)": lambda B, H, T_q, T_k: (B, H, T_q, T_k),
}
FITS_3D = ["(T_q, T_k)", "(B, 1, T_k)", "(B, T_q, T_k)", "(1, T_q, T_k)"]
FITS_4D = ["(T_q, T_k)", "(B, 1, 1, T_k)", "(B, 1, T_q, T_k)", "(1, H, T_q, 1)", "(B, H, T_q, T_k)"]


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize(
    ("dims", "shape"), [*((3, shape) for shape in FITS_3D), *((4, shape) for shape in FITS_4D)], ids=str
)
def test_a_mask_that_fits_means_one_thing(dims, shape, sizes):
    """Case 9: each sample and head gets its own part of the mask, when all sizes are equal as well."""
    B, H, T_q, T_k = sizes
    leading = (B,) if dims == 3 else (B, H)
    Q, K, V = random_operands(leading, T_q, T_k)
    mask = random_tensor(MASK_SHAPES[shape](*sizes), seed=5) > -0.3
    output, weights = scaled_dot_product_attention(Q, K, V, mask)
    for at in np.ndindex(*leading):
        # Its own part: a 2-D mask whole, otherwise the entry at its place, or the only one there is.
        own = at if mask.dim() > 2 else ()
        part = mask[tuple(min(i, size - 1) for i, size in zip(own, mask.shape, strict=False))]
        alone = scaled_dot_product_attention(Q[at], K[at], V[at], part.expand(T_q, T_k))
        torch.testing.assert_close((output[at], weights[at]), alone, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize(
    ("dims", "shape"),
    [
        *((2, shape) for shape in MASK_SHAPES if shape != "(T_q, T_k)"),
        *((3, shape) for shape in MASK_SHAPES if shape not in FITS_3D),
        *((4, shape) for shape in MASK_SHAPES if shape not in FITS_4D),
    ],
    ids=str,
)
def test_a_mask_that_could_be_read_two_ways_is_refused(dims, shape, sizes):
    """Case 9: the error names the shape of the mask and the shapes wanted, when all sizes are equal as well."""
    B, H, T_q, T_k = sizes
    leading = ((), (B,), (B, H))[dims - 2]
    mask = torch.ones(MASK_SHAPES[shape](*sizes), dtype=torch.bool)
    with pytest.raises(ValueError, match=r"^mask has shape") as error:
        scaled_dot_product_attention(*random_operands(leading, T_q, T_k), mask)
    message = str(error.value)
    assert f"mask has shape {tuple(mask.shape)}" in message
    assert f"{(*leading, T_q, T_k)}" in message
    assert f"{(T_q, T_k)}" in message


@pytest.mark.parametrize("shape", [(5, 3), (3, 4), (2, 5), (3, 1, 5), (2, 3, 4)], ids=str)
def test_a_mask_of_the_wrong_size_is_refused(shape):
    """Case 9: transposed, one key short, B taken for T_q, or with a batch of another size."""
    with pytest.raises(ValueError, match=r"^mask has shape") as error:
        scaled_dot_product_attention(*random_operands(leading=(2,), T_q=3, T_k=5), torch.ones(shape))
    assert str(shape) in str(error.value)
    assert "(2, 3, 5)" in str(error.value)


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("leading", [(2,), (2, 3)], ids=str)
def test_half_precision_with_a_mask_on_the_cpu(leading, dtype):
    """Case 10: float16 and bfloat16 work with a mask and keep their dtype, in results and in gradients."""
    Q, K, V = random_operands(leading, dtype=dtype, requires_grad=True)
    output, weights = scaled_dot_product_attention(Q, K, V, create_causal_mask(3, 5))
    output.sum().backward()
    assert output.dtype == weights.dtype == Q.grad.dtype == K.grad.dtype == V.grad.dtype == dtype
    assert (weights[..., 0, 3:] == 0).all()
    assert_rows_sum_to_one_or_zero(weights, mask=None)


@pytest.mark.parametrize("low", [-math.inf, -1e9, torch.finfo(torch.float32).min, -1.0, math.nan], ids=str)
def test_an_additive_mask_is_refused(low):
    """Case 11: a mask of 0 and -inf, to be added to the scores, is an error that says how to convert it."""
    additive = torch.zeros(3, 5).masked_fill(~create_causal_mask(3, 5), low)
    with pytest.raises(ValueError, match=r"^mask \(torch.float32\) holds values other than 0 and 1") as error:
        scaled_dot_product_attention(*random_operands(), additive)
    assert "pass mask == 0" in str(error.value)


def test_a_converted_additive_mask_and_a_float_mask_of_ones_work():
    """Case 11: `mask == 0` of the additive mask, and `mask.float()` of the boolean one, both mean the same."""
    Q, K, V = random_operands()
    mask = create_causal_mask(3, 5)
    additive = torch.zeros(3, 5).masked_fill(~mask, -math.inf)
    expected, _ = scaled_dot_product_attention(Q, K, V, mask)
    for equivalent in (additive == 0, mask.float()):
        assert torch.equal(scaled_dot_product_attention(Q, K, V, equivalent)[0], expected)


@pytest.mark.parametrize("leading", [(2,), (2, 3)], ids=str)
def test_samples_do_not_mix(leading):
    """Case 15: sample 1 changed, sample 0's output and gradients are bit for bit the same."""
    results = []
    for shift in (0.0, 10.0):
        Q, K, V = random_operands(leading)
        for tensor in (Q, K, V):
            tensor[1] += shift
        Q, K, V = (tensor.requires_grad_() for tensor in (Q, K, V))
        output, weights = scaled_dot_product_attention(Q, K, V, create_causal_mask(3, 5))
        output.square().sum().backward()
        results.append([output.detach(), weights.detach(), Q.grad, K.grad, V.grad])
    for before, after in zip(*results, strict=True):
        assert torch.equal(before[0], after[0])
    assert not torch.equal(results[0][0][1], results[1][0][1])


def test_weights_sum_to_one_along_the_keys():
    """Case 16: one query, two keys, one sample: each weight is below 1 and the two sum to 1."""
    Q, K, V = random_operands((1,), T_q=1, T_k=2)
    _, weights = scaled_dot_product_attention(Q, K, V)
    assert weights.shape == (1, 1, 2)
    assert (weights < 1).all()
    assert weights.sum().item() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    ("leading", "mask_shape"),
    [((2,), (4, 7)), ((2,), (2, 1, 7)), ((2, 3), (4, 7)), ((2, 3), (2, 1, 1, 7))],
    ids=str,
)
def test_fewer_queries_than_keys(leading, mask_shape):
    """Case 17: query length 4 against key length 7, with a mask for the pairs and with one for the padding."""
    Q, K, V = random_operands(leading, T_q=4, T_k=7)
    mask = torch.ones(mask_shape, dtype=torch.bool)
    mask[..., 5:] = False
    output, weights = scaled_dot_product_attention(Q, K, V, mask)
    assert output.shape == (*leading, 4, 6)
    assert weights.shape == (*leading, 4, 7)
    assert (weights[..., 5:] == 0).all()
    without, _ = scaled_dot_product_attention(Q, K[..., :5, :], V[..., :5, :])
    torch.testing.assert_close(output, without, rtol=0.0, atol=1e-6)


# Errors


def shaped(*shape):
    return torch.ones(shape)


@pytest.mark.parametrize(
    ("Q", "K", "V", "names"),
    [
        ([[1.0]], shaped(1, 1), shaped(1, 1), ["Q is a list", "torch.Tensor"]),
        (shaped(3, 4), np.ones((5, 4)), shaped(5, 6), ["K is a ndarray", "torch.Tensor"]),
        (shaped(3, 4), shaped(5, 4), None, ["V is a NoneType", "torch.Tensor"]),
        (shaped(3, 4), shaped(5, 4).double(), shaped(5, 6), ["K holds torch.float64", "Q holds torch.float32"]),
        (shaped(3, 4), shaped(5, 4), shaped(5, 6).half(), ["V holds torch.float16", "Q holds torch.float32"]),
        (shaped(3, 4).cfloat(), shaped(5, 4), shaped(5, 6), ["Q holds torch.complex64", "floating point"]),
    ],
    ids=["Q list", "K array", "V missing", "K dtype", "V dtype", "Q complex"],
)
def test_an_argument_of_the_wrong_type_is_a_type_error(Q, K, V, names):
    """The message names the argument, what it is and what is expected."""
    with pytest.raises(TypeError) as error:
        scaled_dot_product_attention(Q, K, V)
    assert all(name in str(error.value) for name in names), error.value


@pytest.mark.parametrize("name", ["Q", "K", "V"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool], ids=str)
def test_integers_are_refused(name, dtype):
    """Case 19: integer operands, token ids perhaps, are a plain 'floating point expected'."""
    tensors = dict(zip("QKV", random_operands(), strict=True))
    tensors[name] = tensors[name].to(dtype)
    with pytest.raises(TypeError, match=f"^{name} holds {dtype}; floating point expected"):
        scaled_dot_product_attention(**tensors)


def test_integer_queries_and_keys_are_refused():
    """Case 19: the reported call, in which Q, K and V are all integers."""
    ids = torch.arange(12).view(1, 3, 4)
    with pytest.raises(TypeError, match="floating point expected"):
        scaled_dot_product_attention(ids, ids, ids)


@pytest.mark.parametrize(
    ("Q", "K", "V", "names"),
    [
        ((4,), (5, 4), (5, 6), ["Q has shape (4,)", "(..., positions, features)"]),
        ((3, 4), (4,), (5, 6), ["K has shape (4,)", "(..., positions, features)"]),
        ((3, 4), (5, 4), (5,), ["V has shape (5,)", "(..., positions, features)"]),
        ((2, 3, 4), (2, 5, 6), (2, 5, 6), ["Q has d_k=4", "(2, 3, 4)", "K has d_k=6", "(2, 5, 6)", "same number"]),
        ((2, 3, 0), (2, 5, 0), (2, 5, 6), ["Q has shape (2, 3, 0)", "d_k=0", "at least one"]),
        ((2, 3, 4), (2, 7, 4), (2, 5, 6), ["K has 7 positions but V has 5", "(2, 7, 4)", "(2, 5, 6)", "every key"]),
        ((2, 3, 4), (3, 5, 4), (2, 5, 6), ["leading dimensions", "Q (2, 3, 4)", "K (3, 5, 4)", "V (2, 5, 6)"]),
        ((2, 3, 4), (2, 5, 4), (3, 5, 6), ["leading dimensions", "Q (2, 3, 4)", "K (2, 5, 4)", "V (3, 5, 6)"]),
    ],
    ids=["Q 1-D", "K 1-D", "V 1-D", "d_k differs", "d_k is 0", "lengths differ", "K batch", "V batch"],
)
def test_shapes_that_do_not_fit_are_a_value_error(Q, K, V, names):
    """The message names the arguments, their shapes and the rule."""
    with pytest.raises(ValueError) as error:  # noqa: PT011 - every part of the message is looked at below
        scaled_dot_product_attention(shaped(*Q), shaped(*K), shaped(*V))
    assert all(name in str(error.value) for name in names), error.value


@pytest.mark.parametrize("mask", [[[True, False]], np.ones((3, 5), dtype=bool), True], ids=["list", "array", "bool"])
def test_a_mask_that_is_no_tensor_is_a_type_error(mask):
    """The message names the mask and what it is."""
    with pytest.raises(TypeError, match=f"^mask is a {type(mask).__name__}; expected a torch.Tensor"):
        scaled_dot_product_attention(*random_operands(), mask)


def test_a_mask_of_other_numbers_is_a_value_error():
    """A mask of 0 and 2, or of 0.5, is neither boolean nor 0 and 1."""
    for mask in (torch.full((3, 5), 2), torch.full((3, 5), 0.5)):
        with pytest.raises(ValueError, match=r"^mask .* holds values other than 0 and 1"):
            scaled_dot_product_attention(*random_operands(), mask)
