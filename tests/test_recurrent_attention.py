"""AdditiveAttention and LuongAttention: their formulas, their masks, their errors."""

import pytest
import torch

from utils.attention import AdditiveAttention, LuongAttention
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
