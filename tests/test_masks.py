"""The masks of the course: what they allow, what they refuse, and the cases from the field."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from utils.attention import scaled_dot_product_attention
from utils.masks import create_causal_mask, create_padding_mask, to_boolean_mask

few = settings(deadline=None, derandomize=True, max_examples=60)
INTEGER_DTYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
FLOAT_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def from_drawing(*rows):
    """A boolean tensor from rows such as "##.", where # may be attended to."""
    return torch.tensor([[cell == "#" for cell in row] for row in rows])


def attend(mask, T_q, T_k):
    """Random attention under `mask`: output and weights, without leading dimensions unless the mask has them."""
    generator = torch.Generator().manual_seed(0)
    Q, K = torch.randn(T_q, 4, generator=generator), torch.randn(T_k, 4, generator=generator)
    V = torch.randn(T_k, 6, generator=generator)
    leading = mask.shape[:-2]
    return scaled_dot_product_attention(*(x.expand(*leading, *x.shape) for x in (Q, K, V)), mask)


# create_causal_mask


@few
@given(st.integers(0, 9), st.integers(0, 9))
def test_causal_mask_is_its_definition(T_q, T_k):
    """Query i may attend to key j when j <= i + T_k - T_q: the last query stands at the last key."""
    mask = create_causal_mask(T_q, T_k)
    assert mask.dtype == torch.bool
    assert mask.shape == (T_q, T_k)
    for i in range(T_q):
        for j in range(T_k):
            assert mask[i, j].item() == (j <= i + T_k - T_q), (i, j)


@few
@given(st.integers(1, 9), st.integers(1, 9))
def test_causal_mask_of_the_last_queries_is_the_last_rows(T_k, T_q):
    """Case 13: with keys kept in a cache, the new queries get the rows they would have in the whole mask."""
    T_q = min(T_q, T_k)
    assert torch.equal(create_causal_mask(T_q, T_k), create_causal_mask(T_k)[T_k - T_q :])


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ((1, 5), from_drawing("#####")),
        ((2, 5), from_drawing("####.", "#####")),
        ((5, 2), from_drawing("..", "..", "..", "#.", "##")),
        ((1, 1), from_drawing("#")),
    ],
    ids=str,
)
def test_causal_mask_is_aligned_at_the_bottom_right(lengths, expected):
    """Case 13: one query, fewer queries than keys, and more queries than keys."""
    assert torch.equal(create_causal_mask(*lengths), expected)


def test_more_queries_than_keys_give_no_nan():
    """Case 13: of five queries on two keys, the first three get zeros; values and gradients are finite."""
    Q, K, V = (torch.ones(length, 4, requires_grad=True) for length in (5, 2, 2))
    output, weights = scaled_dot_product_attention(Q, K, V, create_causal_mask(5, 2))
    assert (weights[:3] == 0).all()
    assert (output[:3] == 0).all()
    torch.testing.assert_close(weights[3:], torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    output.sum().backward()
    assert all(tensor.grad.isfinite().all() for tensor in (Q, K, V))


def test_key_len_is_query_len_when_left_out():
    """A square mask: the lower triangle, diagonal included."""
    assert torch.equal(create_causal_mask(3), from_drawing("#..", "##.", "###"))


@pytest.mark.parametrize("n", [1, 2, 5])
def test_every_position_sees_itself(n):
    """Case 8: `diagonal=0` is right; a mask that hides the diagonal leaves the first query nothing."""
    mask = create_causal_mask(n)
    assert mask.diagonal().all()
    assert not mask.triu(diagonal=1).any()
    _, weights = attend(mask, n, n)
    assert weights[0, 0] == 1
    _, weights = attend(mask.tril(diagonal=-1), n, n)  # the "repair"
    assert (weights[0] == 0).all()


def test_causal_mask_is_made_where_it_is_asked_for():
    """`device` is passed on; the meta device stands in for a GPU."""
    assert create_causal_mask(2, 3, device="meta").device.type == "meta"
    assert create_causal_mask(2, 3).device.type == "cpu"


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ((3.0,), "query_len=3.0 is a float; expected an integer"),
        (("3",), "query_len='3' is a str; expected an integer"),
        ((None,), "query_len=None is a NoneType; expected an integer"),
        ((True,), "query_len=True is a bool; expected an integer"),
        ((3, 5.0), "key_len=5.0 is a float; expected an integer"),
        ((3, (5,)), "key_len=(5,) is a tuple; expected an integer"),
    ],
    ids=str,
)
def test_a_length_that_is_no_integer_is_a_type_error(lengths, message):
    """The message names the argument, its value and its type."""
    with pytest.raises(TypeError) as error:
        create_causal_mask(*lengths)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("lengths", "named"), [((-1,), "query_len=-1"), ((-2, 3), "query_len=-2"), ((3, -4), "key_len=-4")], ids=str
)
def test_a_negative_length_is_a_value_error(lengths, named):
    """The message names the argument and its value."""
    with pytest.raises(ValueError, match=rf"^{named} is negative; expected a number of positions$"):
        create_causal_mask(*lengths)


# create_padding_mask


@few
@given(
    st.integers(0, 3).flatmap(lambda T: st.lists(st.lists(st.integers(0, 4), min_size=T, max_size=T), min_size=1)),
    st.integers(0, 4),
    st.sampled_from(INTEGER_DTYPES),
)
def test_padding_mask_is_its_definition(rows, pad_id, dtype):
    """(B, 1, T_k), True exactly where the token is not `pad_id`, wherever in the sample it stands."""
    token_ids = torch.tensor(rows, dtype=dtype)
    mask = create_padding_mask(token_ids, pad_id)
    assert mask.dtype == torch.bool
    assert mask.shape == (len(rows), 1, len(rows[0]))
    assert mask.squeeze(1).tolist() == [[token != pad_id for token in row] for row in rows]


def test_padding_is_id_0_unless_another_is_given():
    """The default `pad_id` is 0; another one frees 0, and may be negative."""
    token_ids = torch.tensor([[7, 0, -1]])
    assert torch.equal(create_padding_mask(token_ids)[0], from_drawing("#.#"))
    assert torch.equal(create_padding_mask(token_ids, pad_id=-1)[0], from_drawing("##."))


def test_token_ids_are_not_changed():
    """The mask is a new tensor."""
    token_ids = torch.tensor([[7, 0]])
    create_padding_mask(token_ids).fill_(False)
    assert token_ids.tolist() == [[7, 0]]


@pytest.mark.parametrize("T_q", [1, 3, 5])
def test_padding_mask_serves_any_number_of_queries(T_q):
    """Every query of sample 0 sees all five keys, every query of sample 1 the first three."""
    mask = create_padding_mask(torch.tensor([[4, 5, 6, 7, 8], [9, 3, 2, 0, 0]]))
    _, weights = attend(mask, T_q, 5)
    assert weights.shape == (2, T_q, 5)
    assert torch.equal(weights != 0, mask.expand(2, T_q, 5))


def test_padding_queries_keep_something_to_attend_to():
    """Case 8: only keys are blocked. To block the rows of padding as well empties them, and helps nobody."""
    token_ids = torch.tensor([[4, 5, 6, 7], [9, 3, 0, 0]])
    real = token_ids != 0
    mask = create_causal_mask(4) & create_padding_mask(token_ids)
    assert mask.any(dim=-1).all()
    output, weights = attend(mask, 4, 4)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 4))
    repaired = mask & real.unsqueeze(-1)
    assert repaired.any(dim=-1).tolist() == real.tolist()
    assert torch.equal(attend(repaired, 4, 4)[0][real], output[real])


def test_causal_and_padding_masks_combine_with_and():
    """Both rules hold at once; (T_q, T_k) & (B, 1, T_k) is (B, T_q, T_k)."""
    mask = create_causal_mask(3) & create_padding_mask(torch.tensor([[5, 6, 0], [0, 6, 7]]))
    assert torch.equal(mask[0], from_drawing("#..", "##.", "##."))
    assert torch.equal(mask[1], from_drawing("...", ".#.", ".##"))


@pytest.mark.parametrize(
    ("token_ids", "message"),
    [
        ([[1, 2, 0]], "token_ids is a list; expected a torch.Tensor"),
        (np.array([[1, 2, 0]]), "token_ids is a ndarray; expected a torch.Tensor"),
        (torch.ones(2, 3), "token_ids holds torch.float32; expected integer token ids"),
        (torch.ones(2, 3, dtype=torch.bool), "token_ids holds torch.bool; expected integer token ids"),
        (torch.ones(2, 3, dtype=torch.complex64), "token_ids holds torch.complex64; expected integer token ids"),
    ],
    ids=["list", "array", "float", "bool", "complex"],
)
def test_token_ids_that_are_no_integers_are_a_type_error(token_ids, message):
    """The message says what was given; embeddings and ready masks are among the usual mistakes."""
    with pytest.raises(TypeError) as error:
        create_padding_mask(token_ids)
    assert str(error.value) == message


@pytest.mark.parametrize("shape", [(), (5,), (2, 1, 5)], ids=str)
def test_token_ids_of_another_rank_are_a_value_error(shape):
    """The message names the shape given and the one wanted."""
    with pytest.raises(ValueError, match="token_ids") as error:
        create_padding_mask(torch.ones(shape, dtype=torch.int64))
    assert str(error.value) == f"token_ids has shape {shape}; expected (B, T_k)"


@pytest.mark.parametrize("pad_id", [None, "<pad>"])
def test_a_pad_id_that_is_no_number_is_refused(pad_id):
    """A tokenizer without padding has `pad_token_id` None; the message names the argument."""
    with pytest.raises((TypeError, ValueError), match="pad_id"):
        create_padding_mask(torch.tensor([[1, 2, 0]]), pad_id)


# to_boolean_mask


@few
@given(
    st.lists(st.integers(0, 3), max_size=4),
    st.integers(0, 2**16),
    st.sampled_from((*INTEGER_DTYPES, *FLOAT_DTYPES)),
)
def test_ones_and_zeros_become_true_and_false(shape, seed, dtype):
    """Case 12: whatever the dtype and the shape, 1 is True and 0 is False; the mask given is not changed."""
    expected = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    given_mask = expected.to(dtype)
    actual = to_boolean_mask(given_mask)
    assert actual.dtype == torch.bool
    assert torch.equal(actual, expected)
    assert given_mask.dtype == dtype
    assert torch.equal(given_mask, expected.to(dtype))


def test_a_boolean_mask_is_returned_itself():
    """No copy is made of what is right already."""
    mask = create_causal_mask(3)
    assert to_boolean_mask(mask) is mask


def test_the_usual_causal_mask_in_floats():
    """Case 11: `torch.tril(torch.ones(n, n))` is the causal mask."""
    assert torch.equal(to_boolean_mask(torch.tril(torch.ones(4, 4))), create_causal_mask(4))


def test_negative_zero_is_zero():
    """-0.0 equals 0, so it blocks."""
    assert to_boolean_mask(torch.tensor([[-0.0, 1.0]])).tolist() == [[False, True]]


@pytest.mark.parametrize("dtype", FLOAT_DTYPES, ids=str)
@pytest.mark.parametrize("low", [-math.inf, -1e4, "the lowest finite number"], ids=str)
def test_an_additive_mask_is_refused_in_every_float_type(dtype, low):
    """Case 11: the message names the dtype, what is wrong and how to convert; the conversion then works."""
    low = torch.finfo(dtype).min if isinstance(low, str) else low
    additive = torch.zeros(3, 3, dtype=dtype).masked_fill(~create_causal_mask(3), low)
    with pytest.raises(ValueError, match=r"^mask \(") as error:
        to_boolean_mask(additive)
    for part in (str(dtype), "holds values other than 0 and 1", "additive mask", "True (or 1)", "pass mask == 0"):
        assert part in str(error.value)
    assert torch.equal(to_boolean_mask(additive == 0), create_causal_mask(3))


@pytest.mark.parametrize(
    ("number", "dtype"),
    [
        *((number, torch.int64) for number in (2, -1)),
        *((number, torch.float32) for number in (0.5, 1.0 + 1e-6, math.inf, math.nan)),
        (255, torch.uint8),
    ],
    ids=str,
)
def test_other_numbers_are_refused(number, dtype):
    """One number that is neither 0 nor 1 is enough; nothing is rounded."""
    with pytest.raises(ValueError, match="holds values other than 0 and 1"):
        to_boolean_mask(torch.tensor([[0, 1], [1, number]], dtype=dtype))


@pytest.mark.parametrize("mask", [[[1, 0]], np.ones((2, 2)), True, None], ids=["list", "array", "bool", "None"])
def test_a_mask_that_is_no_tensor_is_a_type_error(mask):
    """The message names the mask and its type."""
    with pytest.raises(TypeError, match=f"^mask is a {type(mask).__name__}; expected a torch.Tensor$"):
        to_boolean_mask(mask)
