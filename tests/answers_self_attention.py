"""Answers to the exercises of lesson 05, as readers type them; importing this enters them in `ANSWERS`."""

import torch
import torch.nn.functional as F
from answers import given_bug, right, three, unnamed, wrong

from utils.masks import create_causal_mask

# ---------------------------------------------------------------- self-attention


@wrong("self_attention", "no causal mask", made="ignored")
def padding_alone(x, attend, is_token):
    return attend(x, x, x, is_token.unsqueeze(1))


@wrong("self_attention", "no padding mask", made="computed and thrown away")
def causal_alone(x, attend, is_token):
    mask = create_causal_mask(x.size(1))
    mask & is_token.unsqueeze(1)
    output, weights = attend(x, x, x, mask)
    return output, weights


@wrong("self_attention", "no mask at all", made="ignored")
def attends_to_all(x, attend, is_token):
    return attend(x, x, x)


@wrong("self_attention", "padding on the query axis", made="padding on the query axis")
def tokens_down_the_rows(x, attend, is_token):
    mask = create_causal_mask(x.size(1)) & is_token[:, :, None]
    return attend(x, x, x, mask)


@wrong("self_attention", "padding queries blocked too")
def pairs_of_tokens(x, attend, is_token):
    pairs = is_token[:, :, None] & is_token[:, None, :]
    return attend(x, x, x, pairs.tril())


@wrong("self_attention", "is_token without an axis for the queries", made="(B, T_k) broadcast by accident")
def joined_as_they_are(x, attend, is_token):
    T = x.size(1)
    mask = torch.tril(torch.ones(T, T)).bool() & is_token
    return attend(x, x, x, mask)


@wrong("self_attention", "one sample's padding for all")
def padding_of_the_first(x, attend, is_token):
    return attend(x, x, x, create_causal_mask(x.size(1)) & is_token[0])


@wrong("self_attention", "padding OR causal", made="padding OR causal")
def allowed_by_either(x, attend, is_token):
    mask = torch.logical_or(create_causal_mask(x.size(1)), is_token.unsqueeze(1))
    return attend(x, x, x, mask)


@wrong("self_attention", "mask inverted", made="inverted")
def as_torchs_module_wants_it(x, attend, is_token):
    T = x.size(1)
    future = torch.ones(T, T, dtype=torch.bool).triu(diagonal=1)
    return attend(x, x, x, future | ~is_token.unsqueeze(1))


@wrong("self_attention", "mask inverted", made="inverted")
def padding_inverted(x, attend, is_token):
    is_pad = ~is_token[:, None, :]
    return attend(x, x, x, create_causal_mask(x.size(1)) & is_pad)


@wrong("self_attention", "upper triangle for lower", made="upper for lower triangle")
def future_alone(x, attend, is_token):
    T = x.size(1)
    return attend(x, x, x, torch.ones(T, T).triu().bool() & is_token.unsqueeze(1))


@wrong("self_attention", "transposed", made="transposed")
def keys_down_the_rows(x, attend, is_token):
    mask = create_causal_mask(x.size(1)) & is_token.unsqueeze(1)
    return attend(x, x, x, mask.mT)


@wrong("self_attention", "diagonal left out", made="diagonal left out")
def strictly_before(x, attend, is_token):
    positions = torch.arange(x.size(1))
    return attend(x, x, x, (positions[None, :] < positions[:, None]) & is_token.unsqueeze(1))


@wrong("self_attention", "one too far", made="one too far")
def up_to_the_next(x, attend, is_token):
    positions = torch.arange(x.size(1))
    return attend(x, x, x, (positions[None, :] <= positions[:, None] + 1) & is_token.unsqueeze(1))


@wrong("self_attention", "padding set to zero, not masked", made="filled with 0")
def padding_zeroed_first(x, attend, is_token):
    x = x.masked_fill(~is_token.unsqueeze(-1), 0.0)
    return attend(x, x, x, create_causal_mask(x.size(1)))


@wrong("self_attention", "the weights masked afterwards", made="applied after the softmax")
def weights_blanked(x, attend, is_token):
    output, weights = attend(x, x, x)
    mask = create_causal_mask(x.size(1)) & is_token[:, None]
    return output, weights.masked_fill(~mask[:, None], 0.0)


@wrong("self_attention", "the output at padding set to zero")
def output_blanked(x, attend, is_token):
    output, weights = attend(x, x, x, create_causal_mask(x.size(1)) & is_token.unsqueeze(1))
    return output * is_token.unsqueeze(2), weights


@wrong("self_attention", "the input added")
def with_a_residual(x, attend, is_token):
    output, weights = attend(x, x, x, create_causal_mask(x.size(1)) & is_token.unsqueeze(1))
    return x + output, weights


@wrong("self_attention", "weights of one head")
def first_head(x, attend, is_token):
    output, weights = attend(x, x, x, create_causal_mask(x.size(1)) & is_token.unsqueeze(1))
    return output, weights[:, 0]


@wrong("self_attention", "weights averaged over the heads")
def mean_of_the_heads(x, attend, is_token):
    output, weights = attend(x, x, x, create_causal_mask(x.size(1)) & is_token.unsqueeze(1))
    return output, weights.mean(dim=1)


@wrong("self_attention", "gradient cut", made="gradient cut by detach")
def without_a_gradient(x, attend, is_token):
    with torch.no_grad():
        return attend(x, x, x, create_causal_mask(x.size(1)) & is_token.unsqueeze(1))


@wrong("self_attention", "an input changed in place", made="an input changed in place")
def padding_overwritten(x, attend, is_token):
    x.data[~is_token] = 0.0
    return attend(x, x, x, create_causal_mask(x.size(1)) & is_token.unsqueeze(1))


@wrong("self_attention", "right for these sizes only", made="sizes hard-coded")
def for_two_samples_of_five(x, attend, is_token):
    mask = create_causal_mask(5).expand(2, 5, 5) & is_token.view(2, 1, 5)
    return attend(x, x, x, mask)


@wrong("self_attention", "no padding mask", "weights averaged over the heads")
def causal_alone_and_the_mean(x, attend, is_token):
    output, weights = attend(x, x, x, create_causal_mask(x.size(1)))
    return output, weights.mean(1)


@wrong("self_attention", "the input added", "one too far")
def residual_and_one_too_far(x, attend, is_token):
    T = x.size(1)
    output, weights = attend(x, x, x, torch.ones(T, T).tril(diagonal=1).bool() & is_token.unsqueeze(1))
    return output + x, weights


@three("self_attention", "no padding mask", "weights of one head", "the input added")
def unpadded_with_a_residual_of_one_head(x, attend, is_token):
    output, weights = attend(x, x, x, create_causal_mask(x.size(1)))
    return output + x, weights[:, 0]


@right("self_attention")
def both_must_allow(x, attend, is_token):
    causal = create_causal_mask(x.size(1))  # (T, T)
    mask = causal & is_token.unsqueeze(1)  # (B, T, T)
    output, weights = attend(query=x, key=x, value=x, mask=mask)
    return output, weights


@right("self_attention")
def mask_with_an_axis_for_the_heads(x, attend, is_token):
    T = x.size(1)
    return attend(x, x, x, torch.tril(torch.ones(T, T)) * is_token[:, None, None, :])


@right("self_attention")
def one_sample_after_the_other(x, attend, is_token):
    found = [
        attend(one[None], one[None], one[None], create_causal_mask(len(one)) & real)
        for one, real in zip(x, is_token, strict=True)
    ]
    outputs, weights = zip(*found, strict=True)
    return torch.cat(outputs), torch.cat(weights)


@right("self_attention")
def one_query_after_the_other(x, attend, is_token):
    outputs, weights = [], []
    for t in range(x.size(1)):
        seen = x[:, : t + 1]
        output, w = attend(x[:, t : t + 1], seen, seen, is_token[:, None, : t + 1])
        outputs.append(output)
        weights.append(F.pad(w, (0, x.size(1) - t - 1)))
    return torch.cat(outputs, dim=1), torch.cat(weights, dim=2)


@unnamed("self_attention")
def scaled_down(x, attend, is_token):
    output, weights = attend(x, x, x, create_causal_mask(x.size(1)) & is_token.unsqueeze(1))
    return output / 2, weights


@unnamed("self_attention")
def only_two_tokens_back(x, attend, is_token):
    mask = create_causal_mask(x.size(1)).triu(-1) & is_token.unsqueeze(1)
    return attend(x, x, x, mask)


# ---------------------------------------------------------------- the mask beside a cache


@wrong("cached_causal_mask", "aligned at the top left")
def tril_as_it_comes(new, cached):
    return torch.ones(new, cached + new).tril().bool()


@wrong("cached_causal_mask", "the cache left out")
def square_of_the_new(new, cached):
    return torch.ones(new, new, dtype=torch.bool).tril()


@wrong("cached_causal_mask", "the new tokens left out")
def columns_of_the_cache(new, cached):
    return create_causal_mask(new, cached)


@wrong("cached_causal_mask", "rows for the cached tokens too")
def the_whole_sequence(new, cached):
    return create_causal_mask(cached + new)


@wrong("cached_causal_mask", "new and cached exchanged")
def rows_of_the_cache(new, cached):
    return create_causal_mask(cached, cached + new)


@wrong("cached_causal_mask", "the cached ones blocked")
def zeros_before(new, cached):
    return torch.cat([torch.zeros(new, cached).bool(), create_causal_mask(new)], dim=1)


@wrong("cached_causal_mask", "the cache behind the new tokens")
def ones_behind(new, cached):
    return torch.cat([create_causal_mask(new), torch.ones(new, cached, dtype=torch.bool)], dim=1)


@wrong("cached_causal_mask", "diagonal left out", made="diagonal left out")
def less_than(new, cached):
    return torch.arange(cached + new) < cached + torch.arange(new)[:, None]


@wrong("cached_causal_mask", "one too far", made="one too far")
def one_diagonal_more(new, cached):
    return torch.ones(new, cached + new, dtype=torch.bool).tril(diagonal=cached + 1)


@wrong("cached_causal_mask", "mask inverted", made="inverted")
def the_future(new, cached):
    return torch.ones(new, cached + new, dtype=torch.bool).triu(diagonal=cached + 1)


@wrong("cached_causal_mask", "upper triangle for lower", made="upper for lower triangle")
def triu_with_the_right_shift(new, cached):
    return torch.ones(new, cached + new, dtype=torch.bool).triu(cached)


@wrong("cached_causal_mask", "transposed", made="transposed")
def keys_by_queries(new, cached):
    return create_causal_mask(new, cached + new).T


@wrong("cached_causal_mask", "shifted by the number of new tokens")
def shift_of_the_new(new, cached):
    return torch.ones(new, cached + new).tril(diagonal=new).bool()


@wrong("cached_causal_mask", "nothing is blocked")
def everything(new, cached):
    return torch.ones(new, cached + new, dtype=torch.bool)


@wrong("cached_causal_mask", "numbers instead of booleans")
def ones_and_zeros(new, cached):
    return torch.cat([torch.ones(new, cached), torch.ones(new, new).tril()], dim=1)


@wrong("cached_causal_mask", "the cached ones blocked", "mask inverted")
def zeros_before_inverted(new, cached):
    return ~torch.cat([torch.zeros(new, cached).bool(), create_causal_mask(new)], dim=1)


@right("cached_causal_mask")
def aligned_at_the_end(new, cached):
    return create_causal_mask(new, cached + new)


@right("cached_causal_mask")
def last_rows_of_the_whole(new, cached):
    return create_causal_mask(cached + new)[cached:]


@right("cached_causal_mask")
def ones_before(new, cached):
    return torch.cat([torch.ones(new, cached, dtype=torch.bool), create_causal_mask(new)], dim=1)


@right("cached_causal_mask")
def row_by_row(new, cached):
    mask = torch.zeros(new, cached + new, dtype=torch.bool)
    for i in range(new):
        mask[i, : cached + i + 1] = True
    return mask


@unnamed("cached_causal_mask")
def a_window_over_the_cache(new, cached):
    return create_causal_mask(new, cached + new).triu(1)


# ---------------------------------------------------------------- the perturbation test


@wrong("outputs_that_move", "transposed")
def one_row_a_token(model, x):
    before = model(x)
    rows = []
    for i in range(x.size(1)):
        changed = x.clone()
        changed[0, i] += torch.randn(x.size(2))
        rows.append((model(changed) != before).any(-1)[0])
    return torch.stack(rows)


@wrong("outputs_that_move", "inverted")
def those_that_stay(model, x):
    T = x.size(1)
    before, moved = model(x), torch.zeros(T, T, dtype=torch.bool)
    for i in range(T):
        changed = x.clone()
        changed[:, i] += torch.randn(x.size(-1))
        moved[:, i] = (model(changed) == before)[0].all(dim=-1)
    return moved


@wrong("outputs_that_move", "changes add up")
def one_clone_for_all(model, x):
    T = x.size(1)
    before, moved = model(x), torch.zeros(T, T, dtype=torch.bool)
    changed = x.clone()
    for i in range(T):
        changed[:, i] += torch.randn_like(changed[:, i])
        moved[:, i] = (model(changed) != before).any(dim=-1)
    return moved


@wrong("outputs_that_move", "an input changed in place", made="an input changed in place")
def no_clone(model, x):
    T = x.size(1)
    before, moved = model(x), torch.zeros(T, T, dtype=torch.bool)
    for i in range(T):
        noise = torch.randn(x.size(2))
        x[:, i] += noise
        moved[:, i] = (model(x) != before).any(dim=-1)
        x[:, i] -= noise  # which does not give every number back
    return moved


def tested(change, compare):
    """The test with a change (x, i) -> x and a comparison (after, before) -> (T,)."""

    def test(model, x):
        before = model(x)
        return torch.stack([compare(model(change(x, i)), before) for i in range(x.size(1))], dim=1)

    return test


def added(x, i):
    changed = x.clone()
    changed[:, i] += torch.randn(x.size(-1))
    return changed


def one_added(x, i):
    changed = x.clone()
    changed[:, i] += 1.0
    return changed


def any_bit(after, before):
    return (after != before)[0].any(dim=-1)


@wrong("outputs_that_move", "several tokens changed at once")
def all_from_here(model, x):
    def change(x, i):
        changed = x.clone()
        changed[:, i:] = torch.randn(changed[:, i:].shape)
        return changed

    return tested(change, any_bit)(model, x)


@wrong("outputs_that_move", "a feature or a sample changed, not a token")
def feature_changed(model, x):
    def change(x, i):
        changed = x.clone()
        changed[:, :, i] += 1.0
        return changed

    return tested(change, any_bit)(model, x)


@wrong("outputs_that_move", "a feature or a sample changed, not a token")
def sample_changed(model, x):
    def change(x, i):
        changed = x.clone()
        changed[i] = changed[i] + torch.randn(x.shape[1:])
        return changed

    return tested(change, any_bit)(model, x)


@wrong("outputs_that_move", "a change that may be none")
def set_to_zero(model, x):
    def change(x, i):
        changed = x.clone()
        changed[:, i] = torch.zeros(x.size(-1))
        return changed

    return tested(change, any_bit)(model, x)


@wrong("outputs_that_move", "a change that may be none")
def doubled(model, x):
    def change(x, i):
        changed = x.clone()
        changed[:, i] *= 2
        return changed

    return tested(change, any_bit)(model, x)


@wrong("outputs_that_move", "a change that may be none")
def the_token_before_taken(model, x):
    def change(x, i):
        changed = x.clone()
        changed[:, i] = x[:, i - 1]
        return changed

    return tested(change, any_bit)(model, x)


@wrong("outputs_that_move", "nothing is changed")
def run_on_x_again(model, x):
    T = x.size(1)
    before, moved = model(x), torch.zeros(T, T, dtype=torch.bool)
    for i in range(T):
        changed = x.clone()
        changed[:, i] += torch.randn(x.size(-1))
        moved[:, i] = (model(x) != before)[0].any(dim=-1)
    return moved


@wrong("outputs_that_move", "nothing is changed")
def change_on_a_copy_thrown_away(model, x):
    T = x.size(1)
    before, moved = model(x), torch.zeros(T, T, dtype=torch.bool)
    for i in range(T):
        changed = x.clone()
        changed[:, i].clone().add_(torch.randn(x.size(-1)))
        moved[:, i] = (model(changed) != before)[0].any(dim=-1)
    return moved


@wrong("outputs_that_move", "nothing is changed")
def sum_thrown_away(model, x):
    before, columns = model(x), []
    for i in range(x.size(1)):
        changed = x.clone()
        changed[:, i] + torch.randn(x.size(2))
        columns.append(any_bit(model(changed), before))
    return torch.stack(columns, dim=1)


@wrong("outputs_that_move", "nothing is changed", "compared with x")
def x_run_and_compared(model, x):
    return torch.stack([(model(x) != x)[0].any(dim=-1) for i in range(x.size(1))], dim=1)


@wrong("outputs_that_move", "the same number added to every feature")
def one_added_to_a_fresh_copy(model, x):
    T = x.size(1)
    moved = torch.zeros(T, T, dtype=torch.bool)
    before = model(x)
    for i in range(T):
        changed = x.clone()
        changed[0, i] += 1
        moved[:, i] = (model(changed) != before).any(dim=-1).squeeze(0)
    return moved


@wrong("outputs_that_move", "the same number added to every feature")
def ten_taken_off(model, x):
    def change(x, i):
        changed = x.clone()
        changed[:, i] -= 10
        return changed

    return tested(change, any_bit)(model, x)


@wrong("outputs_that_move", "the same number added to every feature")
def a_little_added(model, x):
    noise = 0.01 * torch.eye(x.size(1)).unsqueeze(-1)  # (T, T, 1), the same for all features
    return (model(x + noise) != model(x)).any(dim=-1).T


@wrong("outputs_that_move", "the same number added to every feature")
def a_single_random_number(model, x):
    def change(x, i):
        changed = x.clone()
        changed[:, i] += torch.randn(1)
        return changed

    return tested(change, any_bit)(model, x)


@wrong("outputs_that_move", "the same number added to every feature", "compared with a tolerance")
def one_added_and_not_close(model, x):
    return tested(one_added, lambda after, before: ~torch.isclose(after, before)[0].all(dim=-1))(model, x)


@wrong("outputs_that_move", "the same number added to every feature", "changes add up")
def one_clone_and_one_added(model, x):
    before, changed, columns = model(x), x.clone(), []
    for i in range(x.size(1)):
        changed[:, i] += 1.0
        columns.append(any_bit(model(changed), before))
    return torch.stack(columns, dim=1)


@wrong("outputs_that_move", "the same number added to every feature", "several tokens changed at once")
def one_added_from_here(model, x):
    def change(x, i):
        changed = x.clone()
        changed[:, i:] += 1.0
        return changed

    return tested(change, any_bit)(model, x)


@wrong("outputs_that_move", "the same number added to every feature", "transposed")
def one_added_row_by_row(model, x):
    before = model(x)
    return torch.stack([any_bit(model(one_added(x, i)), before) for i in range(x.size(1))])


@wrong("outputs_that_move", "not all features of the token changed")
def first_number_of_the_token(model, x):
    def change(x, i):
        changed = x.clone()
        changed[0, i, 0] += 1
        return changed

    return tested(change, any_bit)(model, x)


@wrong("outputs_that_move", "not all features of the token changed")
def last_number_of_the_token(model, x):
    def change(x, i):
        changed = x.clone()
        changed[:, i, -1] = torch.randn(())
        return changed

    return tested(change, any_bit)(model, x)


@wrong("outputs_that_move", "not all features of the token changed", "compared with a tolerance")
def first_number_and_not_close(model, x):
    T = x.size(1)
    before, moved = model(x), torch.zeros(T, T, dtype=torch.bool)
    for i in range(T):
        changed = x.clone()
        changed[0, i, 0] += 1.0
        moved[:, i] = (model(changed) - before)[0].abs().sum(dim=-1) > 1e-6
    return moved


@wrong("outputs_that_move", "NaN or infinity for a change")
def nan_followed(model, x):
    T = x.size(1)
    moved = torch.zeros(T, T, dtype=torch.bool)
    for i in range(T):
        changed = x.clone()
        changed[:, i] = torch.nan
        moved[:, i] = model(changed).isnan().any(dim=-1)
    return moved


@wrong("outputs_that_move", "NaN or infinity for a change")
def infinity_added(model, x):
    def change(x, i):
        changed = x.clone()
        changed[:, i] += float("inf")
        return changed

    return tested(change, any_bit)(model, x)


@wrong("outputs_that_move", "compared with a tolerance")
def not_close(model, x):
    return tested(added, lambda after, before: ~torch.isclose(after, before)[0].all(dim=-1))(model, x)


@wrong("outputs_that_move", "compared with a tolerance")
def largest_difference(model, x):
    return tested(added, lambda after, before: (after - before)[0].abs().amax(dim=-1) > 1e-5)(model, x)


@wrong("outputs_that_move", "compared with a tolerance")
def allclose_pair_by_pair(model, x):
    T = x.size(1)
    before, moved = model(x), torch.zeros(T, T, dtype=torch.bool)
    for i in range(T):
        changed = x.clone()
        changed[0, i] = torch.randn(x.size(-1))
        after = model(changed)
        for t in range(T):
            moved[t, i] = not torch.allclose(after[0, t], before[0, t])
    return moved


@wrong("outputs_that_move", "changes that cancel in a sum")
def sums_compared(model, x):
    return tested(added, lambda after, before: after[0].sum(dim=-1) != before[0].sum(dim=-1))(model, x)


@wrong("outputs_that_move", "changes that cancel in a sum")
def differences_summed(model, x):
    return tested(added, lambda after, before: (after - before).sum(dim=(0, 2)).bool())(model, x)


@wrong("outputs_that_move", "every feature must change")
def all_for_any(model, x):
    return tested(added, lambda after, before: (after != before).all(dim=-1).squeeze(0))(model, x)


@wrong("outputs_that_move", "one feature looked at")
def the_first_feature(model, x):
    return tested(added, lambda after, before: after[0, :, 0] != before[0, :, 0])(model, x)


@wrong("outputs_that_move", "one answer for all outputs")
def whole_output_compared(model, x):
    T = x.size(1)
    before, moved = model(x), torch.zeros(T, T, dtype=torch.bool)
    for i in range(T):
        moved[:, i] = not torch.equal(model(added(x, i)), before)
    return moved


@wrong("outputs_that_move", "compared with x")
def input_compared(model, x):
    T = x.size(1)
    moved = torch.zeros(T, T, dtype=torch.bool)
    for i in range(T):
        moved[:, i] = (model(added(x, i)) != x)[0].any(dim=-1)
    return moved


@wrong("outputs_that_move", "some outputs or tokens left out")
def own_output_alone(model, x):
    T = x.size(1)
    before, moved = model(x), torch.zeros(T, T, dtype=torch.bool)
    for i in range(T):
        moved[i, i] = (model(added(x, i))[0, i] != before[0, i]).any()
    return moved


@wrong("outputs_that_move", "some outputs or tokens left out")
def forgotten_in_every_round(model, x):
    T = x.size(1)
    before = model(x)
    for i in range(T):
        moved = torch.zeros(T, T, dtype=torch.bool)
        moved[:, i] = any_bit(model(added(x, i)), before)
    return moved


@wrong("outputs_that_move", "gradients asked instead")
def slopes_that_are_not_zero(model, x):
    T = x.size(1)
    moved = torch.zeros(T, T, dtype=torch.bool)
    for t in range(T):
        for feature in range(x.size(2)):
            leaf = x.clone().requires_grad_()
            output = model(leaf)[0, t, feature]
            if output.requires_grad:
                (slope,) = torch.autograd.grad(output, leaf, allow_unused=True)
                moved[t] |= (slope[0] != 0).any(dim=-1)
    return moved


@wrong("outputs_that_move", "gradients asked instead")
def slopes_of_each_output(model, x):
    leaf = x.clone().requires_grad_()
    output = model(leaf)
    rows = []
    for t in range(x.size(1)):
        (slope,) = torch.autograd.grad(output[0, t].sum(), leaf, retain_graph=True)
        rows.append(slope[0].abs().sum(dim=-1) > 0)
    return torch.stack(rows)


@wrong("outputs_that_move", "gradients asked instead")
def slopes_by_backward(model, x):
    rows = []
    for t in range(x.size(1)):
        leaf = x.clone().requires_grad_()
        model(leaf)[:, t].sum().backward()
        rows.append((leaf.grad != 0).any(dim=-1))
    return torch.cat(rows)


@wrong("outputs_that_move", "gradients asked instead")
def jacobian_asked(model, x):
    return (torch.autograd.functional.jacobian(model, x) != 0).any(dim=5).any(dim=2)[0, :, 0]


@wrong("outputs_that_move", "right for these sizes only", made="sizes hard-coded")
def five_tokens(model, x):
    moved = torch.zeros(5, 5, dtype=torch.bool)
    for i in range(5):
        moved[:, i] = any_bit(model(added(x, i)), model(x))
    return moved


@wrong("outputs_that_move", "transposed", "compared with a tolerance")
def rows_of_what_is_not_close(model, x):
    before = model(x)
    return torch.stack([~torch.isclose(model(added(x, i)), before)[0].all(-1) for i in range(x.size(1))])


@wrong("outputs_that_move", "changes add up", "every feature must change")
def one_clone_and_all(model, x):
    before, changed, columns = model(x), x.clone(), []
    for i in range(x.size(1)):
        changed[:, i] += torch.randn(x.size(2))
        columns.append((model(changed) != before)[0].all(dim=-1))
    return torch.stack(columns, dim=1)


@three("outputs_that_move", "transposed", "inverted", "compared with a tolerance")
def rows_of_what_is_close(model, x):
    before = model(x)
    return torch.stack([torch.isclose(model(added(x, i)), before)[0].all(-1) for i in range(x.size(1))])


@right("outputs_that_move")
def a_fresh_copy_each_time(model, x):
    T = x.size(1)
    moved = torch.zeros(T, T, dtype=torch.bool)
    before = model(x)
    for i in range(T):
        changed = x.clone()
        changed[0, i] += torch.randn(x.size(2))
        moved[:, i] = (model(changed) != before).any(dim=-1).squeeze(0)
    return moved


@right("outputs_that_move")
def another_token_put_there(model, x):
    T = x.size(1)
    before, moved = model(x), torch.zeros(T, T, dtype=torch.bool)
    for i in range(T):
        changed = x.clone()
        changed[:, i] = torch.randn(x.size(-1))
        moved[:, i] = (model(changed) != before)[0].any(dim=-1)
    return moved


@right("outputs_that_move")
def another_token_of_a_seed_that_comes_to_mind(model, x):
    T = x.size(1)
    before, moved = model(x), torch.zeros(T, T, dtype=torch.bool)
    for i in range(T):
        torch.manual_seed(i)
        changed = x.clone()
        changed[:, i] = torch.randn(x.size(-1))
        moved[:, i] = (model(changed) != before)[0].any(dim=-1)
    return moved


@right("outputs_that_move")
def another_amount_for_each_feature(model, x):
    def change(x, i):
        changed = x.clone()
        changed[:, i] += torch.arange(1.0, x.size(2) + 1) ** 2
        return changed

    return tested(change, any_bit)(model, x)


@right("outputs_that_move")
def a_little_noise(model, x):
    def change(x, i):
        changed = x.clone()
        changed[:, i] += 0.01 * torch.rand(x.size(2))
        return changed

    return tested(change, any_bit)(model, x)


@right("outputs_that_move")
def pair_by_pair(model, x):
    T = x.size(1)
    return torch.tensor(
        [[not torch.equal(model(added(x, i))[0, t], model(x)[0, t]) for i in range(T)] for t in range(T)]
    )


@right("outputs_that_move")
def noise_added(model, x):
    before = model(x)
    columns = []
    for i in range(x.size(1)):
        noise = torch.zeros_like(x)
        noise[:, i] = torch.randn(x.size(2))
        columns.append((model(x + noise) - before).abs().amax(dim=-1)[0] > 0)
    return torch.stack(columns, dim=-1)


@right("outputs_that_move")
def put_back_afterwards(model, x):
    T = x.size(1)
    before, moved = model(x), torch.zeros(T, T, dtype=torch.bool)
    for i in range(T):
        old = x[:, i].clone()
        x[:, i] = torch.randn(x.size(2))
        moved[:, i] = (model(x) != before).any(dim=-1)
        x[:, i] = old
    return moved


@right("outputs_that_move")
def compared_with_the_last_run(model, x):
    T = x.size(1)
    changed, moved = x.clone(), torch.zeros(T, T, dtype=torch.bool)
    for i in range(T):
        before = model(changed)
        changed[:, i] += torch.randn(x.size(2))
        moved[:, i] = any_bit(model(changed), before)
    return moved


@right("outputs_that_move")
def one_batch_of_changes(model, x):
    T = x.size(1)
    changed = x + torch.eye(T).unsqueeze(-1) * torch.randn(x.size(2))  # (T, T, d): in sample i, token i is changed
    return (model(changed) != model(x)).any(dim=-1).T


@unnamed("outputs_that_move")
def the_causal_mask(model, x):
    return create_causal_mask(x.size(1))


@wrong("outputs_that_move", "not all features of the token changed")
def every_second_feature(model, x):
    def change(x, i):
        changed = x.clone()
        changed[:, i, ::2] += 1.0
        return changed

    return tested(change, any_bit)(model, x)


@unnamed("outputs_that_move")
def the_first_output_forgotten(model, x):
    moved = a_fresh_copy_each_time(model, x)
    moved[0] = False
    return moved


# ---------------------------------------------------------------- find the bug in a causal block


def normed_over(x, *dims):
    mean, std = x.mean(dim=dims, keepdim=True), x.std(dim=dims, keepdim=True)
    return (x - mean) / (std + 1e-5)


@given_bug("find_the_bug_in_causal_block")
def block_as_given(x, attend):
    mean, std = x.mean(dim=(1, 2), keepdim=True), x.std(dim=(1, 2), keepdim=True)
    normed = (x - mean) / (std + 1e-5)
    mask = create_causal_mask(x.size(1))
    return x + attend(normed, mask)


@given_bug("find_the_bug_in_causal_block")
def block_flattened(x, attend):
    flat = x.flatten(1)
    normed = (x - flat.mean(1).view(-1, 1, 1)) / (flat.std(1).view(-1, 1, 1) + 1e-5)
    return x + attend(normed, torch.ones(x.size(1), x.size(1)).tril().bool())


@wrong("find_the_bug_in_causal_block", "only one of the two repaired")
def mean_repaired(x, attend):
    mean, std = x.mean(dim=-1, keepdim=True), x.std(dim=(1, 2), keepdim=True)
    return x + attend((x - mean) / (std + 1e-5), create_causal_mask(x.size(1)))


@wrong("find_the_bug_in_causal_block", "normalised over the tokens alone")
def over_the_tokens(x, attend):
    return x + attend(normed_over(x, 1), create_causal_mask(x.size(1)))


@wrong("find_the_bug_in_causal_block", "normalised over the batch")
def over_everything(x, attend):
    normed = (x - x.mean()) / (x.std() + 1e-5)
    return x + attend(normed, create_causal_mask(x.size(1)))


@wrong("find_the_bug_in_causal_block", "normalised over the batch")
def as_batch_norm(x, attend):
    return x + attend(normed_over(x, 0, 1), create_causal_mask(x.size(1)))


@wrong("find_the_bug_in_causal_block", "no normalisation")
def norm_taken_out(x, attend):
    return x + attend(x, create_causal_mask(x.size(1)))


@wrong("find_the_bug_in_causal_block", "normalised after, not before")
def post_norm(x, attend):
    return normed_over(x + attend(x, create_causal_mask(x.size(1))), -1)


@wrong("find_the_bug_in_causal_block", "the mean left in")
def mean_forgotten(x, attend):
    return x + attend(x / (x.std(-1, keepdim=True) + 1e-5), create_causal_mask(x.size(1)))


@wrong("find_the_bug_in_causal_block", "divided by the variance")
def variance_for_deviation(x, attend):
    mean, var = x.mean(dim=-1, keepdim=True), x.var(dim=-1, keepdim=True)
    return x + attend((x - mean) / (var + 1e-5), create_causal_mask(x.size(1)))


@wrong("find_the_bug_in_causal_block", "divided by d_model, not by d_model - 1")
def layer_norm(x, attend):
    normed = F.layer_norm(x, x.shape[-1:])
    return x + attend(normed, create_causal_mask(x.size(1)))


@wrong("find_the_bug_in_causal_block", "divided by d_model, not by d_model - 1")
def without_bessels_correction(x, attend):
    mean, std = x.mean(-1, keepdim=True), x.std(-1, unbiased=False, keepdim=True)
    return x + attend((x - mean) / (std + 1e-5), create_causal_mask(x.size(1)))


@wrong("find_the_bug_in_causal_block", "no residual")
def residual_forgotten(x, attend):
    return attend(normed_over(x, -1), create_causal_mask(x.size(1)))


@wrong("find_the_bug_in_causal_block", "the residual is of the normed x")
def name_used_twice(x, attend):
    x = normed_over(x, -1)
    return x + attend(x, create_causal_mask(x.size(1)))


@wrong("find_the_bug_in_causal_block", "no causal mask", made="ignored")
def mask_of_ones(x, attend):
    T = x.size(1)
    return x + attend(normed_over(x, -1), torch.ones(T, T, dtype=torch.bool))


@wrong("find_the_bug_in_causal_block", "diagonal left out", made="diagonal left out")
def mask_made_stricter(x, attend):
    T = x.size(1)
    return x + attend(normed_over(x, -1), torch.ones(T, T, dtype=torch.bool).tril(-1))


@wrong("find_the_bug_in_causal_block", "normalised over the tokens too", "diagonal left out")
def mask_repaired_instead(x, attend):
    T = x.size(1)
    return x + attend(normed_over(x, 1, 2), torch.ones(T, T, dtype=torch.bool).tril(-1))


@wrong("find_the_bug_in_causal_block", "no residual", "divided by d_model, not by d_model - 1")
def layer_norm_without_a_residual(x, attend):
    return attend(F.layer_norm(x, (x.size(-1),)), create_causal_mask(x.size(1)))


@right("find_the_bug_in_causal_block")
def each_token_by_itself(x, attend):
    mean, std = x.mean(dim=-1, keepdim=True), x.std(dim=-1, keepdim=True)
    normed = (x - mean) / (std + 1e-5)
    mask = create_causal_mask(x.size(1))
    return x + attend(normed, mask)


@right("find_the_bug_in_causal_block")
def over_the_third_axis(x, attend):
    normed = (x - x.mean(2)[..., None]) / (x.std(2)[..., None] + 1e-5)
    return attend(normed, create_causal_mask(x.size(1))) + x


@right("find_the_bug_in_causal_block")
def added_under_the_root(x, attend):
    mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True)
    return x + attend((x - mean) / torch.sqrt(var + 1e-5), create_causal_mask(x.size(1)))


@right("find_the_bug_in_causal_block")
def token_after_token(x, attend):
    normed = torch.stack([normed_over(x[:, t], -1) for t in range(x.size(1))], dim=1)
    return x + attend(normed, create_causal_mask(x.size(1)))


@unnamed("find_the_bug_in_causal_block")
def normed_by_what_came_before(x, attend):
    T = x.size(1)
    normed = torch.stack([normed_over(x[:, : t + 1], 1, 2)[:, -1] for t in range(T)], dim=1)
    return x + attend(normed, create_causal_mask(T))


@unnamed("find_the_bug_in_causal_block")
def residual_twice(x, attend):
    return x + x + attend(normed_over(x, -1), create_causal_mask(x.size(1)))
