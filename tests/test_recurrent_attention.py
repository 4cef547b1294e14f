"""AdditiveAttention and LuongAttention: their formulas, their masks, their errors; and their forms for one step."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from utils.attention import AdditiveAttention, LuongAttention, additive_attention, align, luong_score
from utils.masks import create_padding_mask

B, T_Q, T_K, QUERY, KEY, VALUE, HIDDEN = 3, 2, 5, 4, 6, 7, 8  # all different, so that a mix-up shows
TOKENS = torch.tensor([[5, 3, 9, 4, 7], [2, 8, 0, 0, 0], [6, 1, 4, 0, 0]])


def made(name, query_dim=QUERY, key_dim=KEY):
    torch.manual_seed(0)
    if name == "additive":
        return AdditiveAttention(query_dim, key_dim, HIDDEN)
    return LuongAttention(query_dim, key_dim, name, **({"hidden_dim": HIDDEN} if name == "concat" else {}))


def inputs(query_dim=QUERY, key_dim=KEY):
    torch.manual_seed(1)
    return torch.randn(B, T_Q, query_dim), torch.randn(B, T_K, key_dim), torch.randn(B, T_K, VALUE)


def by_hand(name, attention, q, k):
    """The score of one query and one key, by the formula of its paper."""
    if name == "additive":
        return attention.v.weight[0] @ torch.tanh(attention.W_q.weight @ q + attention.W_k.weight @ k)
    if name == "dot":
        return q @ k
    if name == "general":
        return q @ (attention.W.weight @ k)
    return attention.v.weight[0] @ torch.tanh(attention.W.weight @ torch.cat([q, k]))


NAMES = ["additive", "dot", "general", "concat"]
SIZES = {"dot": (KEY, KEY)}


@pytest.mark.parametrize("name", NAMES)
def test_it_is_the_formula_of_its_paper(name):
    sizes = SIZES.get(name, (QUERY, KEY))
    attention, (query, keys, values) = made(name, *sizes), inputs(*sizes)
    context, weights = attention(query, keys, values)
    for b in range(B):
        for i in range(T_Q):
            scores = torch.stack([by_hand(name, attention, query[b, i], keys[b, j]) for j in range(T_K)])
            expected = torch.softmax(scores, dim=0)
            torch.testing.assert_close(weights[b, i], expected)
            torch.testing.assert_close(context[b, i], expected @ values[b])


@pytest.mark.parametrize("name", NAMES)
def test_one_query_gives_what_it_gives_among_several(name):
    sizes = SIZES.get(name, (QUERY, KEY))
    attention, (query, keys, values) = made(name, *sizes), inputs(*sizes)
    mask = create_padding_mask(TOKENS)
    several = attention(query, keys, values, mask)
    one = attention(query[:, 1], keys, values, mask)
    torch.testing.assert_close(one[0], several[0][:, 1])
    torch.testing.assert_close(one[1], several[1][:, 1])
    assert one[0].shape == (B, VALUE)
    assert one[1].shape == (B, T_K)


@pytest.mark.parametrize("name", NAMES)
def test_rows_sum_to_one_and_padding_gets_nothing(name):  # FIELD_CASES 20, 22
    sizes = SIZES.get(name, (QUERY, KEY))
    attention, (query, keys, _) = made(name, *sizes), inputs(*sizes)
    mask = create_padding_mask(TOKENS)
    context, weights = attention(query, keys, mask=mask)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(B, T_Q))
    assert (weights.masked_select(~mask.expand_as(weights)) == 0).all()
    assert context.shape == (B, T_Q, sizes[1])  # the keys are the values when none are given
    alone, _ = attention(query[1:2], keys[1:2, :2])
    torch.testing.assert_close(context[1:2], alone)


@pytest.mark.parametrize("on_the_empty_row", [False, True], ids=["loss on the others", "loss on all"])
@pytest.mark.parametrize("name", NAMES)
def test_a_query_with_nothing_to_attend_to(name, on_the_empty_row):  # FIELD_CASES 1, pytorch#41508
    """One query of one sample: its weights and output are 0, and it sends no gradient anywhere; all are finite."""
    sizes = SIZES.get(name, (QUERY, KEY))
    attention, operands = made(name, *sizes), [tensor.requires_grad_() for tensor in inputs(*sizes)]
    mask = create_padding_mask(TOKENS).repeat(1, T_Q, 1)
    mask[1, 0] = False
    with torch.autograd.set_detect_anomaly(True):
        context, weights = attention(*operands, mask)
        others = torch.ones(B, T_Q, 1)
        others[1, 0] = float(on_the_empty_row)
        (context.square() * others).sum().backward()
    assert not weights[1, 0].any()
    assert not context[1, 0].any()
    assert not operands[0].grad[1, 0].any()
    assert all(operand.grad.isfinite().all() for operand in operands)
    assert all(parameter.grad.isfinite().all() for parameter in attention.parameters())
    assert operands[0].grad[1, 1].any()


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_of_padding_alone_gets_zero_and_finite_gradients(name):
    sizes = SIZES.get(name, (QUERY, KEY))
    attention, (query, keys, values) = made(name, *sizes), inputs(*sizes)
    mask = create_padding_mask(torch.tensor([[1, 2, 3, 4, 5], [0, 0, 0, 0, 0], [1, 0, 0, 0, 0]]))
    query.requires_grad_()
    context, weights = attention(query, keys, values, mask)
    assert not weights[1].any()
    assert not context[1].any()
    context.sum().backward()
    assert query.grad.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in attention.parameters())


def test_without_tanh_the_query_would_drop_out():
    """What tanh is for: the same weights for every query is what a plain sum gives."""
    attention, (query, keys, _) = made("additive"), inputs()
    _, weights = attention(query, keys)
    assert (weights[:, 0] - weights[:, 1]).abs().max() > 1e-3
    plain = attention.v(attention.W_q(query).unsqueeze(2) + attention.W_k(keys).unsqueeze(1)).squeeze(-1)
    without = torch.softmax(plain, dim=-1)
    torch.testing.assert_close(without[:, 0], without[:, 1])


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_sample_changes_itself_alone(name):  # FIELD_CASES 15
    sizes = SIZES.get(name, (QUERY, KEY))
    attention, (query, keys, values) = made(name, *sizes), inputs(*sizes)
    before, _ = attention(query, keys, values)
    changed = keys.clone()
    changed[1] += 1.0
    after, _ = attention(query, changed, values)
    assert torch.equal(before[0], after[0])
    assert not torch.equal(before[1], after[1])


# Masks and dtypes: FIELD_CASES 9 to 12


MASKS = {
    "(T_q, T_k)": lambda B, T_q, T_k: (T_q, T_k),
    "(B, 1, T_k)": lambda B, T_q, T_k: (B, 1, T_k),
    "(1, T_q, T_k)": lambda B, T_q, T_k: (1, T_q, T_k),
    "(B, T_q, T_k)": lambda B, T_q, T_k: (B, T_q, T_k),
}


@pytest.mark.parametrize("sizes", [(3, 3, 3), (B, T_Q, T_K)], ids=str)
@pytest.mark.parametrize("shape", MASKS)
@pytest.mark.parametrize("name", NAMES)
def test_a_mask_that_fits_means_one_thing(name, shape, sizes):  # FIELD_CASES 9
    """Each query of each sample alone, with the keys it may see and no mask; a 2-D mask is one of queries."""
    dims = SIZES.get(name, (QUERY, KEY))
    samples, T_q, T_k = sizes
    torch.manual_seed(3)
    query, keys = torch.randn(samples, T_q, dims[0]), torch.randn(samples, T_k, dims[1])
    attention, mask = made(name, *dims), torch.rand(MASKS[shape](*sizes)) < 0.6
    mask[..., 1] = True
    context, weights = attention(query, keys, mask=mask)
    for b, i in itertools.product(range(samples), range(T_q)):
        may = mask.expand(samples, T_q, T_k)[b, i]
        alone, share = attention(query[b : b + 1, i], keys[b : b + 1, may])
        torch.testing.assert_close(context[b, i], alone[0])
        torch.testing.assert_close(weights[b, i], torch.zeros(T_k).masked_scatter(may, share[0]))


@pytest.mark.parametrize("shape", [(T_K,), (B, T_K), (T_K, T_Q), (B, 1, T_Q, T_K), (T_Q, B, T_K)], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_a_mask_that_could_be_read_two_ways_is_refused(name, shape):  # FIELD_CASES 9
    sizes = SIZES.get(name, (QUERY, KEY))
    query, keys, _ = inputs(*sizes)
    with pytest.raises(ValueError, match=r"^mask has shape .*; expected \(3, 2, 5\) or \(2, 5\)"):
        made(name, *sizes)(query, keys, mask=torch.ones(shape).bool())


@pytest.mark.parametrize("mask_dtype", [torch.int64, torch.uint8, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_masks_of_ones_and_zeros_are_boolean_masks(name, mask_dtype):  # FIELD_CASES 11, 12, pytorch#33763
    """To the last bit; and an additive mask of 0 and -inf is an error that says how to convert it."""
    sizes = SIZES.get(name, (QUERY, KEY))
    attention, (query, keys, values), mask = made(name, *sizes), inputs(*sizes), create_padding_mask(TOKENS)
    expected = attention(query, keys, values, mask)
    assert all(map(torch.equal, attention(query, keys, values, mask.to(mask_dtype)), expected))
    additive = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
    with pytest.raises(ValueError, match=r"values other than 0 and 1.* pass mask == 0"):
        attention(query, keys, values, additive)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_half_precision_with_a_mask_on_the_cpu(name, dtype):  # FIELD_CASES 10, apex#1052
    """Results and gradients keep their dtype and are close to float32; a sample of padding alone is zero."""
    sizes = SIZES.get(name, (QUERY, KEY))
    attention, (query, keys, values) = made(name, *sizes), inputs(*sizes)
    mask = create_padding_mask(TOKENS * torch.tensor([[1], [1], [0]]))
    expected = attention(query, keys, values, mask)
    half = [tensor.to(dtype).requires_grad_() for tensor in (query, keys, values)]
    found = attention.to(dtype)(*half, mask)
    sum(result.square().sum() for result in found).backward()
    gradients = [tensor.grad for tensor in (*half, *attention.parameters())]
    assert {tensor.dtype for tensor in (*found, *gradients)} == {dtype}
    assert all(gradient.isfinite().all() for gradient in gradients)
    for one, other in zip(found, expected, strict=True):
        assert not one[2].any()
        torch.testing.assert_close(one.float(), other, rtol=0.0, atol=10 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("argument", ["query", "keys", "values"])
@pytest.mark.parametrize("name", NAMES)
def test_integers_are_refused(name, argument):  # FIELD_CASES 19, pytorch#142368
    """Token ids, perhaps, in the place of vectors."""
    sizes = SIZES.get(name, (QUERY, KEY))
    operands = dict(zip(("query", "keys", "values"), inputs(*sizes), strict=True))
    operands[argument] = operands[argument].long()
    with pytest.raises(TypeError, match=rf"^{argument} holds torch\.int64; floating point expected"):
        made(name, *sizes)(**operands)


# The forms for one step, which lesson 02 builds


def gradients_of(results, tensors):
    """The gradients of a number in which every entry of every result has a weight of its own."""
    generator = torch.Generator().manual_seed(2)
    total = sum((result * torch.randn(result.shape, generator=generator)).sum() for result in results)
    return torch.autograd.grad(total, tensors)


def equal(actual, expected):
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def weights_of(name, attention):
    """Its weights by name, as the forms for one step take them."""
    parts = {"additive": ["W_q", "W_k", "v"], "dot": [], "general": ["W"], "concat": ["W", "v"]}[name]
    found = {part: getattr(attention, part).weight for part in parts}
    return {part: weight[0] if part == "v" else weight for part, weight in found.items()}


def one_step(name, query, keys, weights, lengths=None):
    """Context and weights by the forms for one step."""
    if name == "additive":
        return additive_attention(query, keys, **weights)
    lengths = torch.full((len(keys),), keys.size(1)) if lengths is None else lengths
    return align(luong_score(query, keys, name, **weights), keys, lengths)


@pytest.mark.parametrize("name", NAMES)
def test_the_form_for_one_step_is_the_module_with_its_weights(name):
    """Values, and gradients of query, keys and weights."""
    sizes = SIZES.get(name, (QUERY, KEY))
    attention, (query, keys, _) = made(name, *sizes), inputs(*sizes)
    query, keys = query[:, 0].clone().requires_grad_(), keys.requires_grad_()
    expected, found = attention(query, keys), one_step(name, query, keys, weights_of(name, attention))
    assert found[0].shape == (B, sizes[1])
    assert found[1].shape == (B, T_K)
    equal(found, expected)
    inputs_and_weights = [query, keys, *attention.parameters()]
    equal(gradients_of(found, inputs_and_weights), gradients_of(expected, inputs_and_weights))


@pytest.mark.parametrize("score", NAMES[1:])
def test_the_scores_themselves_are_the_formula(score):
    """Before the softmax, which would hide a shift that all keys share."""
    sizes = SIZES.get(score, (QUERY, KEY))
    attention, (query, keys, _) = made(score, *sizes), inputs(*sizes)
    scores = luong_score(query[:, 0], keys, score, **weights_of(score, attention))
    assert scores.shape == (B, T_K)
    for b in range(B):
        for j in range(T_K):
            torch.testing.assert_close(scores[b, j], by_hand(score, attention, query[b, 0], keys[b, j]))


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_of_one_and_a_sentence_of_one_keep_their_axes(name):
    sizes = SIZES.get(name, (QUERY, KEY))
    attention, (query, keys, _) = made(name, *sizes), inputs(*sizes)
    query, keys = query[:1, 0], keys[:1, :1]
    context, weights = one_step(name, query, keys, weights_of(name, attention))
    assert weights.tolist() == [[1.0]]
    torch.testing.assert_close(context, keys[:, 0])


def aligned_by_hand(scores, keys, lengths):
    """As `align`, one sentence and one word at a time."""
    contexts, weights = [], []
    for b, length in enumerate(lengths):
        powers = [torch.exp(scores[b, j] - scores[b, :length].max()) for j in range(length)]
        shares = [power / sum(powers) for power in powers]
        contexts.append(sum(share * keys[b, j] for j, share in enumerate(shares)))
        weights.append(torch.stack([*shares, *[torch.zeros(())] * (scores.size(1) - length)]))
    return torch.stack(contexts), torch.stack(weights)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 2), st.sampled_from([1.0, 30.0]))
def test_align_is_a_loop_over_the_words(lengths, more, scale):  # FIELD_CASES 20, 23
    torch.manual_seed(0)
    T = max(lengths) + more
    scores = (scale * torch.randn(len(lengths), T)).requires_grad_()
    keys = torch.randn(len(lengths), T, KEY, requires_grad=True)
    found, expected = align(scores, keys, torch.tensor(lengths)), aligned_by_hand(scores, keys, lengths)
    equal(found, expected)
    equal(gradients_of(found, [scores, keys]), gradients_of(expected, [scores, keys]))
    padding = torch.arange(T) >= torch.tensor(lengths).unsqueeze(1)
    assert (found[1][padding] == 0).all()
    torch.testing.assert_close(found[1].sum(dim=-1), torch.ones(len(lengths)))


def test_align_gives_padding_nothing_however_well_it_fits():
    scores, keys = torch.tensor([[1.0, 2.0, 1e30], [-1e30, -2e30, 0.0]], requires_grad=True), torch.ones(2, 3, KEY)
    keys[:, 2] = 1e6
    context, weights = align(scores, keys, torch.tensor([2, 2]))
    assert weights[:, 2].tolist() == [0.0, 0.0]
    torch.testing.assert_close(context, torch.ones(2, KEY))
    context.sum().backward()
    assert scores.grad.isfinite().all()
    assert not scores.grad[:, 2].any()


@pytest.mark.parametrize("name", NAMES[1:])
def test_lengths_are_the_padding_mask_of_the_modules(name):
    """The same weights by `align` with lengths and by a module with the mask of token ids."""
    sizes = SIZES.get(name, (QUERY, KEY))
    attention, (query, keys, _) = made(name, *sizes), inputs(*sizes)
    lengths, mask = (TOKENS != 0).sum(dim=1), create_padding_mask(TOKENS)
    found = one_step(name, query[:, 0], keys, weights_of(name, attention), lengths)
    equal(found, attention(query[:, 0], keys, mask=mask))


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: LuongAttention(4, 6), "score='dot' with query_dim=4 and key_dim=6"),
        (lambda: LuongAttention(4, 4, "cosine"), "score='cosine'"),
        (lambda: made("additive")(torch.zeros(3, 5), torch.zeros(3, 5, 6)), r"query has shape \(3, 5\)"),
        (lambda: made("additive")(torch.zeros(3, 4), torch.zeros(3, 5, 4)), r"keys has shape \(3, 5, 4\)"),
        (lambda: made("additive")(torch.zeros(2, 4), torch.zeros(3, 5, 6)), "query has 2 samples but keys has 3"),
        (
            lambda: made("additive")(torch.zeros(3, 4), torch.zeros(3, 5, 6), torch.zeros(3, 4, 7)),
            r"values has shape \(3, 4, 7\)",
        ),
        (
            lambda: made("general")(torch.zeros(3, 4), torch.zeros(3, 5, 6), mask=torch.ones(3, 1, 4).bool()),
            r"mask has shape \(3, 1, 4\)",
        ),
    ],
)
def test_what_does_not_fit_is_named(call, named):
    with pytest.raises(ValueError, match=named):
        call()
