"""Answers to the exercises of lesson 06, as readers type them; importing this enters them in `ANSWERS`."""

import torch
import torch.nn.functional as F
from answers import given_bug, right, three, unnamed, wrong

from utils.masks import create_causal_mask

# ---------------------------------------------------------------- cross-attention


@wrong("cross_attention", "the source's padding not masked", made="ignored")
def looks_at_everything(x, memory, attend, is_target, is_source):
    return attend(x, memory, memory)


@wrong("cross_attention", "the source's padding not masked", made="computed and thrown away")
def mask_made_and_not_given(x, memory, attend, is_target, is_source):
    mask = is_source[:, None, :].expand(-1, x.size(1), -1)
    mask = torch.ones_like(mask)
    return attend(query=x, key=memory, value=memory, mask=mask)


@wrong("cross_attention", "the source asks, the target answers", made="Q and K swapped")
def source_asks(x, memory, attend, is_target, is_source):
    return attend(memory, x, x, is_source.unsqueeze(1))


@wrong("cross_attention", "the source asks, the target answers", made="Q and K swapped")
def source_asks_with_the_mask_that_fits(x, memory, attend, is_target, is_source):
    output, weights = attend(memory, x, x, mask=is_target[:, None, None])
    return output, weights


@wrong("cross_attention", "the source asks, the target answers", "the source's padding not masked")
def source_asks_without_a_mask(x, memory, attend, is_target, is_source):
    return attend(memory, x, x, None)


@wrong("cross_attention", "keys and values from x", made="K and V from the query's sequence")
def attends_to_itself(x, memory, attend, is_target, is_source):
    keep_out = is_target[:, None, :]
    return attend(x, x, x, keep_out)


@wrong("cross_attention", "keys and values from x", made="K and V from the query's sequence")
def attends_to_itself_with_the_sources_mask(x, memory, attend, is_target, is_source):
    queries = keys = values = x
    return attend(queries, keys, values, is_source.unsqueeze(1))


@wrong("cross_attention", "keys from x", made="K from the query's sequence")
def keys_of_the_target(x, memory, attend, is_target, is_source):
    return attend(query=x, key=x, value=memory, mask=is_source[:, None])


@wrong("cross_attention", "values from x", made="V from the query's sequence")
def values_of_the_target(x, memory, attend, is_target, is_source):
    return attend(x, memory, x, is_source.unsqueeze(-2))


@wrong("cross_attention", "the target's mask")
def the_other_mask(x, memory, attend, is_target, is_source):
    return attend(x, memory, memory, is_target[:, None, :])


@wrong("cross_attention", "the target's mask")
def the_other_mask_down_the_rows(x, memory, attend, is_target, is_source):
    rows = is_target.unsqueeze(-1).expand(-1, -1, memory.size(1))
    return attend(x, memory, memory, rows)


@wrong("cross_attention", "padding on the query axis", made="padding on the query axis")
def source_down_the_rows(x, memory, attend, is_target, is_source):
    return attend(x, memory, memory, is_source[..., None])


@wrong("cross_attention", "padding queries blocked too")
def pairs_of_real_tokens(x, memory, attend, is_target, is_source):
    pairs = torch.einsum("bt,bs->bts", is_target.float(), is_source.float())
    return attend(x, memory, memory, pairs)


@wrong("cross_attention", "source OR target")
def either_is_real(x, memory, attend, is_target, is_source):
    mask = torch.logical_or(is_target[:, :, None], is_source[:, None, :])
    return attend(x, memory, memory, mask)


@wrong("cross_attention", "is_source without an axis for the queries", made="(B, T_k) broadcast by accident")
def mask_as_it_is(x, memory, attend, is_target, is_source):
    return attend(x, memory, memory, is_source)


@wrong("cross_attention", "one sample's padding for all")
def padding_of_the_first_sample(x, memory, attend, is_target, is_source):
    return attend(x, memory, memory, is_source[0].expand(x.size(1), -1))


@wrong("cross_attention", "one sample's padding for all")
def cut_to_what_all_have(x, memory, attend, is_target, is_source):
    mask = is_source.float().amin(dim=0)
    return attend(x, memory, memory, mask[None, None])


@wrong("cross_attention", "a causal mask on the source")
def causal_and_padding(x, memory, attend, is_target, is_source):
    mask = create_causal_mask(x.size(1), memory.size(1)) & is_source.unsqueeze(1)
    return attend(x, memory, memory, mask)


@wrong("cross_attention", "a causal mask on the source")
def positions_up_to_ones_own(x, memory, attend, is_target, is_source):
    causal = torch.arange(memory.size(1)) <= torch.arange(x.size(1))[:, None]
    return attend(x, memory, memory, is_source[:, None, :] * causal)


@wrong("cross_attention", "a causal mask on the source")
def square_and_padding(x, memory, attend, is_target, is_source):
    T = x.size(1)
    return attend(x, memory, memory, torch.tril(torch.ones(T, T)).bool() & is_source.unsqueeze(1))


@wrong("cross_attention", "a causal mask on the source", "the source's padding not masked")
def causal_instead_of_padding(x, memory, attend, is_target, is_source):
    return attend(x, memory, memory, create_causal_mask(x.shape[1], memory.shape[1]))


@wrong("cross_attention", "mask inverted", made="inverted")
def padding_for_torchs_module(x, memory, attend, is_target, is_source):
    key_padding_mask = is_source.logical_not()
    return attend(x, memory, memory, key_padding_mask.unsqueeze(1))


@wrong("cross_attention", "padding set to zero, not masked", made="filled with 0")
def memory_zeroed(x, memory, attend, is_target, is_source):
    memory = torch.where(is_source[:, :, None], memory, 0.0)
    return attend(x, memory, memory)


@wrong("cross_attention", "the weights masked afterwards", made="applied after the softmax")
def weights_blanked(x, memory, attend, is_target, is_source):
    output, weights = attend(x, memory, memory)
    return output, weights.masked_fill(~is_source[:, None, None, :], 0.0)


@wrong("cross_attention", "weights of one head")
def last_head(x, memory, attend, is_target, is_source):
    output, weights = attend(x, memory, memory, is_source.unsqueeze(1))
    return output, weights.unbind(1)[-1]


@wrong("cross_attention", "the output at padding set to zero")
def output_blanked(x, memory, attend, is_target, is_source):
    output, weights = attend(x, memory, memory, is_source.unsqueeze(1))
    return output.masked_fill(~is_target.unsqueeze(-1), 0.0), weights


@wrong("cross_attention", "the input added")
def with_a_residual(x, memory, attend, is_target, is_source):
    output, weights = attend(x, memory, memory, is_source.unsqueeze(1))
    return torch.add(output, x), weights


@wrong("cross_attention", "weights averaged over the heads")
def as_torchs_module_returns_them(x, memory, attend, is_target, is_source):
    output, weights = attend(x, memory, memory, is_source.unsqueeze(1))
    return output, weights.sum(dim=1) / weights.size(1)


@wrong("cross_attention", "squeeze() without a dimension", made="squeeze() without a dimension")
def ones_taken_away(x, memory, attend, is_target, is_source):
    output, weights = attend(x, memory, memory, is_source.unsqueeze(1))
    return torch.squeeze(output), torch.squeeze(weights)


@wrong("cross_attention", "gradient cut", made="gradient cut by detach")
def memory_taken_as_given(x, memory, attend, is_target, is_source):
    memory = memory.detach()
    return attend(x, memory, memory, is_source.unsqueeze(1))


@wrong("cross_attention", "an input changed in place", made="an input changed in place")
def memory_overwritten(x, memory, attend, is_target, is_source):
    memory.data.masked_fill_(~is_source.unsqueeze(-1), 0.0)
    return attend(x, memory, memory, is_source.unsqueeze(1))


@wrong("cross_attention", "right for these sizes only", made="sizes hard-coded")
def for_two_samples_of_five(x, memory, attend, is_target, is_source):
    return attend(x, memory, memory, is_source.view(2, 1, 5))


@wrong("cross_attention", "the source's padding not masked", "the input added")
def unmasked_with_a_residual(x, memory, attend, is_target, is_source):
    output, weights = attend(x, memory, memory)
    return x + output, weights


@wrong("cross_attention", "mask inverted", "weights averaged over the heads")
def written_for_torchs_module(x, memory, attend, is_target, is_source):
    output, weights = attend(x, memory, memory, ~is_source[:, None, :])
    return output, weights.mean(dim=1)


@wrong("cross_attention", "a causal mask on the source", "padding queries blocked too")
def every_mask_there_is(x, memory, attend, is_target, is_source):
    T, S = x.size(1), memory.size(1)
    mask = create_causal_mask(T, S) & is_source[:, None] & is_target[:, :, None]
    return attend(x, memory, memory, mask)


@three("cross_attention", "the source's padding not masked", "a causal mask on the source", "the input added")
def as_a_block_of_a_decoder(x, memory, attend, is_target, is_source):
    output, weights = attend(x, memory, memory, create_causal_mask(x.size(1), memory.size(1)))
    return x + output, weights


@right("cross_attention")
def target_asks_source_answers(x, memory, attend, is_target, is_source):
    mask = is_source.unsqueeze(1)  # (B, 1, S)
    output, weights = attend(x, memory, memory, mask)
    return output, weights


@right("cross_attention")
def by_keyword(x, memory, attend, is_target, is_source):
    return attend(query=x, key=memory, value=memory, mask=is_source[:, None, :])


@right("cross_attention")
def mask_written_out(x, memory, attend, is_target, is_source):
    B, T, _ = x.shape
    S = memory.shape[1]
    return attend(x, memory, memory, is_source.view(B, 1, S).expand(B, T, S))


@right("cross_attention")
def joined_with_ones_for_the_target(x, memory, attend, is_target, is_source):
    mask = torch.ones_like(is_target).unsqueeze(2) & is_source.unsqueeze(1)
    return attend(x, memory, memory, mask)


@right("cross_attention")
def ones_and_zeros_with_an_axis_for_the_heads(x, memory, attend, is_target, is_source):
    return attend(x, memory, memory, is_source[:, None, None, :].float())


@right("cross_attention")
def repeated_for_every_query(x, memory, attend, is_target, is_source):
    mask = torch.stack([is_source] * x.size(1), dim=1)
    return attend(x, memory, memory, mask)


@right("cross_attention")
def zeroed_and_masked(x, memory, attend, is_target, is_source):
    memory = memory * is_source.unsqueeze(-1)
    return attend(x, memory, memory, is_source.unsqueeze(1))


@right("cross_attention")
def outer_product_of_ones(x, memory, attend, is_target, is_source):
    mask = torch.einsum("t,bs->bts", torch.ones(x.size(1)), is_source.float())
    return attend(x, memory, memory, mask == 1)


@right("cross_attention")
def one_sample_at_a_time_without_its_padding(x, memory, attend, is_target, is_source):
    outputs, maps = [], []
    for asks, answers, real in zip(x, memory, is_source, strict=True):
        words = answers[real].unsqueeze(0)
        output, found = attend(asks.unsqueeze(0), words, words)
        weights = torch.zeros(*found.shape[:-1], len(real)).masked_scatter(real.expand(*found.shape[:-1], -1), found)
        outputs.append(output)
        maps.append(weights)
    return torch.cat(outputs), torch.cat(maps)


@right("cross_attention")
def one_query_at_a_time(x, memory, attend, is_target, is_source):
    def ask(token):
        return attend(token, memory, memory, is_source.unsqueeze(1))

    outputs, maps = zip(*(ask(token) for token in x.split(1, dim=1)), strict=True)
    return torch.cat(outputs, dim=1), torch.cat(maps, dim=2)


@right("cross_attention")
def padded_by_one_more(x, memory, attend, is_target, is_source):
    longer, mask = F.pad(memory, (0, 0, 0, 1)), F.pad(is_source, (0, 1))
    output, weights = attend(x, longer, longer, mask.unsqueeze(1))
    return output, weights[..., :-1]


@unnamed("cross_attention")
def output_halved(x, memory, attend, is_target, is_source):
    output, weights = attend(x, memory, memory, is_source.unsqueeze(1))
    return output / 2, weights


@unnamed("cross_attention")
def source_read_backwards(x, memory, attend, is_target, is_source):
    return attend(x, memory.flip(1), memory.flip(1), is_source.flip(1).unsqueeze(1))


@unnamed("cross_attention")
def last_word_left_out(x, memory, attend, is_target, is_source):
    is_last = is_source & (is_source.cumsum(dim=1) == is_source.sum(dim=1, keepdim=True))
    return attend(x, memory, memory, (is_source & ~is_last).unsqueeze(1))


@unnamed("cross_attention")
def queries_of_the_last_token(x, memory, attend, is_target, is_source):
    return attend(x[:, -1:].expand_as(x), memory, memory, is_source.unsqueeze(1))


# ---------------------------------------------------------------- the layer of a decoder


@wrong("decoder_layer", "no residual around the self-attention")
def first_sum_forgotten(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    normed = norm(x)
    x, causal = self_attend(normed, normed, normed, create_causal_mask(x.size(1)))
    found, cross = cross_attend(norm(x), memory, memory, is_source[:, None])
    x = x + found
    return x + feed_forward(norm(x)), causal, cross


@wrong("decoder_layer", "no residual around the cross-attention")
def second_sum_forgotten(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    normed = norm(x)
    found, causal = self_attend(normed, normed, normed, create_causal_mask(x.size(1)))
    context, cross = cross_attend(norm(x + found), memory, memory, is_source[:, None])
    return context + feed_forward(norm(context)), causal, cross


@wrong("decoder_layer", "no residual around the feed-forward layer")
def third_sum_forgotten(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    normed = norm(x)
    found, causal = self_attend(normed, normed, normed, create_causal_mask(x.size(1)))
    x = x + found
    found, cross = cross_attend(norm(x), memory, memory, is_source[:, None])
    return feed_forward(norm(x + found)), causal, cross


@wrong("decoder_layer", "no residual at all")
def one_into_the_other(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x = norm(x)
    x, causal = self_attend(x, x, x, create_causal_mask(x.size(1)))
    x, cross = cross_attend(norm(x), memory, memory, is_source[:, None])
    return feed_forward(norm(x)), causal, cross


@wrong("decoder_layer", "the residual is of the normed x around the self-attention")
def first_name_used_twice(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x = norm(x)
    found, causal = self_attend(x, x, x, create_causal_mask(x.size(1)))
    x = x + found
    found, cross = cross_attend(norm(x), memory, memory, is_source[:, None])
    x = x + found
    return x + feed_forward(norm(x)), causal, cross


@wrong("decoder_layer", "the residual is of the normed x around the cross-attention")
def second_name_used_twice(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    normed = norm(x)
    found, causal = self_attend(normed, normed, normed, create_causal_mask(x.size(1)))
    normed = norm(x + found)
    found, cross = cross_attend(normed, memory, memory, is_source[:, None])
    x = normed + found
    return x + feed_forward(norm(x)), causal, cross


@wrong("decoder_layer", "the residual is of the normed x around the feed-forward layer")
def third_name_used_twice(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    normed = norm(x)
    found, causal = self_attend(normed, normed, normed, create_causal_mask(x.size(1)))
    x = x + found
    found, cross = cross_attend(norm(x), memory, memory, is_source[:, None])
    x = norm(x + found)
    return x + feed_forward(x), causal, cross


@wrong("decoder_layer", "every residual is of the normed x")
def every_name_used_twice(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x = norm(x)
    found, causal = self_attend(x, x, x, create_causal_mask(x.size(1)))
    x = norm(x + found)
    found, cross = cross_attend(x, memory, memory, is_source[:, None])
    x = norm(x + found)
    return x + feed_forward(x), causal, cross


@wrong("decoder_layer", "no norm before the self-attention")
def first_norm_forgotten(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    found, causal = self_attend(x, x, x, create_causal_mask(x.size(1)))
    x = x + found
    found, cross = cross_attend(norm(x), memory, memory, is_source[:, None])
    x = x + found
    return x + feed_forward(norm(x)), causal, cross


@wrong("decoder_layer", "no norm before the cross-attention")
def second_norm_forgotten(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    normed = norm(x)
    found, causal = self_attend(normed, normed, normed, create_causal_mask(x.size(1)))
    x = x + found
    found, cross = cross_attend(x, memory, memory, is_source[:, None])
    x = x + found
    return x + feed_forward(norm(x)), causal, cross


@wrong("decoder_layer", "no norm before the feed-forward layer")
def third_norm_forgotten(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    normed = norm(x)
    found, causal = self_attend(normed, normed, normed, create_causal_mask(x.size(1)))
    x = x + found
    found, cross = cross_attend(norm(x), memory, memory, is_source[:, None])
    x = x + found
    return x + feed_forward(x), causal, cross


@wrong("decoder_layer", "no norm at all")
def nothing_normed(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    found, causal = self_attend(x, x, x, create_causal_mask(x.size(1)))
    x = x + found
    found, cross = cross_attend(x, memory, memory, is_source[:, None])
    x = x + found
    return x + feed_forward(x), causal, cross


@wrong("decoder_layer", "norm after, not before, the self-attention")
def first_norm_behind(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    found, causal = self_attend(x, x, x, create_causal_mask(x.size(1)))
    x = norm(x + found)
    found, cross = cross_attend(norm(x), memory, memory, is_source[:, None])
    x = x + found
    return x + feed_forward(norm(x)), causal, cross


@wrong("decoder_layer", "norm after, not before, the cross-attention")
def second_norm_behind(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    normed = norm(x)
    found, causal = self_attend(normed, normed, normed, create_causal_mask(x.size(1)))
    x = x + found
    context, cross = cross_attend(x, memory, memory, is_source[:, None])
    x = x + norm(context)
    return x + feed_forward(norm(x)), causal, cross


@wrong("decoder_layer", "norm after, not before, the feed-forward layer")
def third_norm_behind(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    normed = norm(x)
    found, causal = self_attend(normed, normed, normed, create_causal_mask(x.size(1)))
    x = x + found
    found, cross = cross_attend(norm(x), memory, memory, is_source[:, None])
    x = x + found
    return norm(x + feed_forward(x)), causal, cross


@wrong("decoder_layer", "norm after every part, not before")
def as_in_the_paper_of_2017(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    found, causal = self_attend(x, x, x, create_causal_mask(x.size(1)))
    x = norm(x + found)
    found, cross = cross_attend(x, memory, memory, is_source[:, None])
    x = norm(x + found)
    return norm(x + feed_forward(x)), causal, cross


@wrong("decoder_layer", "norm after every part, not before")
def what_was_found_normed(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    found, causal = self_attend(x, x, x, create_causal_mask(x.size(1)))
    x = x + norm(found)
    found, cross = cross_attend(x, memory, memory, is_source[:, None])
    x = x + norm(found)
    return x + norm(feed_forward(x)), causal, cross


def look_back(x, attend, norm, mask):
    """What the self-attention adds to x, and its weights."""
    normed = norm(x)
    found, weights = attend(normed, normed, normed, mask)
    return x + found, weights


@wrong("decoder_layer", "normed at the end")
def last_norm_here(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = look_back(x, self_attend, norm, create_causal_mask(x.size(1)))
    found, cross = cross_attend(norm(x), memory, memory, is_source.unsqueeze(1))
    x = x + found
    x = x + feed_forward(norm(x))
    return norm(x), causal, cross


@wrong("decoder_layer", "memory normed again")
def both_sides_normed(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = look_back(x, self_attend, norm, create_causal_mask(x.size(1)))
    keys = norm(memory)
    found, cross = cross_attend(norm(x), keys, keys, is_source.unsqueeze(1))
    x = x + found
    return x + feed_forward(norm(x)), causal, cross


@wrong("decoder_layer", "only the queries normed")
def keys_as_they_are(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    found, causal = self_attend(norm(x), x, x, create_causal_mask(x.size(1)))
    x = x + found
    found, cross = cross_attend(norm(x), memory, memory, is_source.unsqueeze(1))
    x = x + found
    return x + feed_forward(norm(x)), causal, cross


@wrong("decoder_layer", "one normed x for several parts")
def normed_once(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    normed = norm(x)
    found, causal = self_attend(normed, normed, normed, create_causal_mask(x.size(1)))
    x = x + found
    found, cross = cross_attend(normed, memory, memory, is_source.unsqueeze(1))
    x = x + found
    return x + feed_forward(norm(x)), causal, cross


@wrong("decoder_layer", "one normed x for several parts")
def side_by_side(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    asks = norm(x)
    back, causal = self_attend(asks, asks, asks, create_causal_mask(x.size(1)))
    across, cross = cross_attend(asks, memory, memory, is_source.unsqueeze(1))
    x = x + back + across
    return x + feed_forward(norm(x)), causal, cross


@wrong("decoder_layer", "one normed x for several parts")
def all_three_side_by_side(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    asks = norm(x)
    back, causal = self_attend(asks, asks, asks, create_causal_mask(x.size(1)))
    across, cross = cross_attend(asks, memory, memory, is_source.unsqueeze(1))
    return x + back + across + feed_forward(asks), causal, cross


@wrong("decoder_layer", "added to an earlier x")
def added_to_what_was_given(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    y, causal = look_back(x, self_attend, norm, create_causal_mask(x.size(1)))
    found, cross = cross_attend(norm(y), memory, memory, is_source.unsqueeze(1))
    z = x + found
    return z + feed_forward(norm(z)), causal, cross


@wrong("decoder_layer", "added to an earlier x")
def last_sum_of_the_wrong_one(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    y, causal = look_back(x, self_attend, norm, create_causal_mask(x.size(1)))
    found, cross = cross_attend(norm(y), memory, memory, is_source.unsqueeze(1))
    z = y + found
    return y + feed_forward(norm(z)), causal, cross


@wrong("decoder_layer", "cross-attention before self-attention")
def source_first(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    found, cross = cross_attend(norm(x), memory, memory, is_source.unsqueeze(1))
    x, causal = look_back(x + found, self_attend, norm, create_causal_mask(x.size(1)))
    return x + feed_forward(norm(x)), causal, cross


@wrong("decoder_layer", "the feed-forward layer left out")
def attention_alone(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = look_back(x, self_attend, norm, create_causal_mask(x.size(1)))
    found, cross = cross_attend(norm(x), memory, memory, is_source.unsqueeze(1))
    return x + found, causal, cross


@wrong("decoder_layer", "the feed-forward layer in another place")
def thinks_between(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = look_back(x, self_attend, norm, create_causal_mask(x.size(1)))
    x = x + feed_forward(norm(x))
    found, cross = cross_attend(norm(x), memory, memory, is_source.unsqueeze(1))
    return x + found, causal, cross


@wrong("decoder_layer", "one attention for both")
def one_name_copied(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = look_back(x, self_attend, norm, create_causal_mask(x.size(1)))
    found, cross = self_attend(norm(x), memory, memory, is_source.unsqueeze(1))
    x = x + found
    return x + feed_forward(norm(x)), causal, cross


def ending(x, found, feed_forward, norm):
    """The rest of the layer, once the source has been looked at."""
    x = x + found
    return x + feed_forward(norm(x))


@wrong("decoder_layer", "keys and values from x", made="K and V from the query's sequence")
def second_self_attention(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    causal_mask = create_causal_mask(x.size(1))
    x, causal = look_back(x, self_attend, norm, causal_mask)
    asks = norm(x)
    found, cross = cross_attend(asks, asks, asks, causal_mask)
    return ending(x, found, feed_forward, norm), causal, cross


@wrong("decoder_layer", "keys from x", made="K from the query's sequence")
def keys_of_the_target_in_a_layer(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = look_back(x, self_attend, norm, create_causal_mask(x.size(1)))
    asks = norm(x)
    found, cross = cross_attend(query=asks, key=asks, value=memory, mask=is_source[:, None])
    return ending(x, found, feed_forward, norm), causal, cross


@wrong("decoder_layer", "values from x", made="V from the query's sequence")
def values_of_the_target_in_a_layer(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = look_back(x, self_attend, norm, create_causal_mask(x.size(1)))
    asks = norm(x)
    found, cross = cross_attend(query=asks, key=memory, value=asks, mask=is_source[:, None])
    return ending(x, found, feed_forward, norm), causal, cross


@wrong("decoder_layer", "the source asks, the target answers", made="Q and K swapped")
def source_asks_in_a_layer(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = look_back(x, self_attend, norm, create_causal_mask(x.size(1)))
    found, cross = cross_attend(memory, norm(x), norm(x), is_source[:, None])
    return ending(x, found, feed_forward, norm), causal, cross


@wrong("decoder_layer", "no causal mask", made="ignored")
def looks_ahead(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    asks = norm(x)
    found, causal = self_attend(asks, asks, asks)
    x = x + found
    found, cross = cross_attend(norm(x), memory, memory, is_source[:, None])
    return ending(x, found, feed_forward, norm), causal, cross


@wrong("decoder_layer", "upper triangle for lower", made="upper for lower triangle")
def triu_for_tril(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    T = x.size(1)
    x, causal = look_back(x, self_attend, norm, torch.ones(T, T).triu().bool())
    found, cross = cross_attend(norm(x), memory, memory, is_source[:, None])
    return ending(x, found, feed_forward, norm), causal, cross


@wrong("decoder_layer", "causal mask inverted", made="inverted")
def blocked_where_torchs_module_blocks(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    T = x.size(1)
    x, causal = look_back(x, self_attend, norm, torch.triu(torch.ones(T, T), diagonal=1).bool())
    found, cross = cross_attend(norm(x), memory, memory, is_source[:, None])
    return ending(x, found, feed_forward, norm), causal, cross


@wrong("decoder_layer", "diagonal left out", made="diagonal left out")
def strictly_before_in_a_layer(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    at = torch.arange(x.size(1))
    x, causal = look_back(x, self_attend, norm, at[:, None] > at)
    found, cross = cross_attend(norm(x), memory, memory, is_source[:, None])
    return ending(x, found, feed_forward, norm), causal, cross


@wrong("decoder_layer", "one too far", made="one too far")
def the_next_one_too(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    at = torch.arange(x.size(1))
    x, causal = look_back(x, self_attend, norm, at[:, None] + 1 >= at)
    found, cross = cross_attend(norm(x), memory, memory, is_source[:, None])
    return ending(x, found, feed_forward, norm), causal, cross


@wrong("decoder_layer", "the source's mask in the self-attention")
def padding_in_both(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    mask = is_source[:, None, :]
    x, causal = look_back(x, self_attend, norm, mask & create_causal_mask(x.size(1)))
    found, cross = cross_attend(norm(x), memory, memory, mask)
    return ending(x, found, feed_forward, norm), causal, cross


@wrong("decoder_layer", "the two masks exchanged")
def masks_mixed_up(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = look_back(x, self_attend, norm, is_source[:, None])
    found, cross = cross_attend(norm(x), memory, memory, create_causal_mask(x.size(1)))
    return ending(x, found, feed_forward, norm), causal, cross


@wrong("decoder_layer", "the source's padding not masked", made="ignored")
def source_not_masked(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = look_back(x, self_attend, norm, create_causal_mask(x.size(1)))
    found, cross = cross_attend(norm(x), memory, memory)
    return ending(x, found, feed_forward, norm), causal, cross


@wrong("decoder_layer", "source mask inverted", made="inverted")
def padding_looked_at(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = look_back(x, self_attend, norm, create_causal_mask(x.size(1)))
    found, cross = cross_attend(norm(x), memory, memory, (is_source == 0).unsqueeze(1))
    return ending(x, found, feed_forward, norm), causal, cross


@wrong("decoder_layer", "padding on the query axis", made="padding on the query axis")
def source_down_the_rows_in_a_layer(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = look_back(x, self_attend, norm, create_causal_mask(x.size(1)))
    found, cross = cross_attend(norm(x), memory, memory, is_source[:, :, None])
    return ending(x, found, feed_forward, norm), causal, cross


@wrong("decoder_layer", "is_source without an axis for the queries", made="(B, T_k) broadcast by accident")
def is_source_as_it_is(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = look_back(x, self_attend, norm, create_causal_mask(x.size(1)))
    found, cross = cross_attend(norm(x), memory, memory, is_source)
    return ending(x, found, feed_forward, norm), causal, cross


@wrong("decoder_layer", "one sample's padding for all")
def the_first_samples_padding(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = look_back(x, self_attend, norm, create_causal_mask(x.size(1)))
    found, cross = cross_attend(norm(x), memory, memory, is_source[0].unsqueeze(0))
    return ending(x, found, feed_forward, norm), causal, cross


@wrong("decoder_layer", "a causal mask on the source")
def causal_twice(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    T, S = x.size(1), memory.size(1)
    x, causal = look_back(x, self_attend, norm, create_causal_mask(T))
    found, cross = cross_attend(norm(x), memory, memory, is_source.unsqueeze(1) & create_causal_mask(T, S))
    return ending(x, found, feed_forward, norm), causal, cross


@wrong("decoder_layer", "a causal mask on the source", "the source's padding not masked")
def one_mask_for_both(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    T, S = x.size(1), memory.size(1)
    x, causal = look_back(x, self_attend, norm, create_causal_mask(T))
    found, cross = cross_attend(norm(x), memory, memory, create_causal_mask(T, S))
    return ending(x, found, feed_forward, norm), causal, cross


@wrong("decoder_layer", "weights in the other order")
def maps_the_other_way_round(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = look_back(x, self_attend, norm, create_causal_mask(x.size(1)))
    found, cross = cross_attend(norm(x), memory, memory, is_source.unsqueeze(1))
    return ending(x, found, feed_forward, norm), cross, causal


@wrong("decoder_layer", "weights averaged over the heads")
def means_of_the_heads(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = look_back(x, self_attend, norm, create_causal_mask(x.size(1)))
    found, cross = cross_attend(norm(x), memory, memory, is_source.unsqueeze(1))
    return ending(x, found, feed_forward, norm), causal.mean(1), cross.mean(1)


@wrong("decoder_layer", "gradient cut", made="gradient cut by detach")
def memory_detached(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = look_back(x, self_attend, norm, create_causal_mask(x.size(1)))
    found, cross = cross_attend(norm(x), memory.detach(), memory.detach(), is_source.unsqueeze(1))
    return ending(x, found, feed_forward, norm), causal, cross


@wrong("decoder_layer", "an input changed in place", made="an input changed in place")
def added_in_place(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    with torch.no_grad():
        asks = norm(x)
        found, causal = self_attend(asks, asks, asks, create_causal_mask(x.size(1)))
        x += found
    found, cross = cross_attend(norm(x), memory, memory, is_source.unsqueeze(1))
    return ending(x, found, feed_forward, norm), causal, cross


@wrong("decoder_layer", "right for these sizes only", made="sizes hard-coded")
def for_three_tokens(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = look_back(x, self_attend, norm, create_causal_mask(3))
    found, cross = cross_attend(norm(x), memory, memory, is_source.unsqueeze(1))
    return ending(x, found, feed_forward, norm), causal, cross


@wrong("decoder_layer", "norm after every part, not before", "the source's padding not masked")
def post_norm_without_a_source_mask(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    found, causal = self_attend(x, x, x, create_causal_mask(x.size(1)))
    x = norm(found + x)
    found, cross = cross_attend(x, memory, memory)
    x = norm(found + x)
    return norm(feed_forward(x) + x), causal, cross


@wrong("decoder_layer", "no causal mask", "memory normed again")
def looks_ahead_and_norms_all(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = look_back(x, self_attend, norm, None)
    memory = norm(memory)
    found, cross = cross_attend(norm(x), memory, memory, is_source.unsqueeze(1))
    return ending(x, found, feed_forward, norm), causal, cross


@wrong("decoder_layer", "no residual around the cross-attention", "no norm before the feed-forward layer")
def context_alone(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = look_back(x, self_attend, norm, create_causal_mask(x.size(1)))
    x, cross = cross_attend(norm(x), memory, memory, is_source.unsqueeze(1))
    return x + feed_forward(x), causal, cross


@three("decoder_layer", "no causal mask", "the source's padding not masked", "weights averaged over the heads")
def no_mask_and_means(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = look_back(x, self_attend, norm, None)
    found, cross = cross_attend(norm(x), memory, memory)
    return ending(x, found, feed_forward, norm), causal.mean(1), cross.mean(1)


@right("decoder_layer")
def three_parts_one_after_the_other(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    normed = norm(x)
    found, causal_weights = self_attend(normed, normed, normed, create_causal_mask(x.size(1)))
    x = x + found
    found, cross_weights = cross_attend(norm(x), memory, memory, is_source.unsqueeze(1))
    x = x + found
    x = x + feed_forward(norm(x))
    return x, causal_weights, cross_weights


@right("decoder_layer")
def by_keyword_in_a_layer(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    T = x.shape[1]
    asks = norm(x)
    back, causal = self_attend(query=asks, key=asks, value=asks, mask=torch.ones(T, T).tril())
    across, cross = cross_attend(query=norm(x + back), key=memory, value=memory, mask=is_source[:, None, :])
    return x + back + across + feed_forward(norm(x + back + across)), causal, cross


@right("decoder_layer")
def normed_three_times_each(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = (lambda out: (x + out[0], out[1]))(
        self_attend(norm(x), norm(x), norm(x), create_causal_mask(x.size(1))[None])
    )
    found, cross = cross_attend(norm(x), memory, memory, is_source[:, None, None])
    return ending(x, found, feed_forward, norm), causal, cross


@right("decoder_layer")
def masks_written_out(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    (B, T, _), S = x.shape, memory.shape[1]
    causal_mask = create_causal_mask(T).expand(B, T, T)
    source_mask = is_source.unsqueeze(1).expand(B, T, S)
    x, causal = look_back(x, self_attend, norm, causal_mask)
    found, cross = cross_attend(norm(x), memory, memory, source_mask)
    return ending(x, found, feed_forward, norm), causal, cross


@right("decoder_layer")
def with_names_for_every_stage(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    weights = []

    def keep(pair):
        weights.append(pair[1])
        return pair[0]

    normed = norm(x)
    after_self = x + keep(self_attend(normed, normed, normed, create_causal_mask(x.size(1))))
    after_cross = after_self + keep(cross_attend(norm(after_self), memory, memory, is_source.unsqueeze(-2)))
    return after_cross + feed_forward(norm(after_cross)), *weights


@right("decoder_layer")
def a_list_of_parts(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    maps = {}

    def back(y):
        out, maps["causal"] = self_attend(y, y, y, create_causal_mask(y.size(1)))
        return out

    def across(y):
        out, maps["cross"] = cross_attend(y, memory, memory, is_source[:, None].long())
        return out

    for part in (back, across, feed_forward):
        x = torch.add(x, part(norm(x)))
    return x, maps["causal"], maps["cross"]


@right("decoder_layer")
def one_sample_after_the_other(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    layer = three_parts_one_after_the_other
    found = [
        layer(x[b : b + 1], memory[b : b + 1], is_source[b : b + 1], self_attend, cross_attend, feed_forward, norm)
        for b in range(len(x))
    ]
    return tuple(torch.cat(parts) for parts in zip(*found, strict=True))


@right("decoder_layer")
def one_token_after_the_other(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    made, backs, acrosses = [], [], []
    T = x.size(1)
    for t in range(T):
        seen = norm(x[:, : t + 1])
        found, back = self_attend(seen[:, -1:], seen, seen)
        y = x[:, t : t + 1] + found
        found, across = cross_attend(norm(y), memory, memory, is_source.unsqueeze(1))
        made.append(ending(y, found, feed_forward, norm))
        backs.append(F.pad(back, (0, T - t - 1)))
        acrosses.append(across)
    return torch.cat(made, dim=1), torch.cat(backs, dim=2), torch.cat(acrosses, dim=2)


@right("decoder_layer")
def added_in_place_to_a_copy(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    y, asks = x.clone(), norm(x)
    found, causal = self_attend(asks, asks, asks, create_causal_mask(x.size(1)))
    y = y + found
    y = y + (second := cross_attend(norm(y), memory, memory, is_source.unsqueeze(1)))[0]
    return feed_forward(norm(y)) + y, causal, second[1]


@unnamed("decoder_layer")
def residual_halved(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    output, causal, cross = three_parts_one_after_the_other(
        x, memory, is_source, self_attend, cross_attend, feed_forward, norm
    )
    return 0.5 * (x + output), causal, cross


@unnamed("decoder_layer")
def norm_of_torch(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    def own(y):
        return F.layer_norm(y, y.shape[-1:])

    return three_parts_one_after_the_other(x, memory, is_source, self_attend, cross_attend, feed_forward, own)


@unnamed("decoder_layer")
def feed_forward_twice(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    x, causal = look_back(x, self_attend, norm, create_causal_mask(x.size(1)))
    found, cross = cross_attend(norm(x), memory, memory, is_source.unsqueeze(1))
    x = x + found
    return x + feed_forward(feed_forward(norm(x))), causal, cross


@unnamed("decoder_layer")
def memory_added_up(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    memory = memory + memory.mean(dim=1, keepdim=True)
    return three_parts_one_after_the_other(x, memory, is_source, self_attend, cross_attend, feed_forward, norm)


# ---------------------------------------------------------------- find the bug in the padding


@given_bug("find_the_bug_in_padding", made="padding on the query axis")
def padding_as_given(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source, is_source.unsqueeze(2))
    return cross_attend(x, memory, memory, is_source.unsqueeze(1))


@given_bug("find_the_bug_in_padding")
def memory_zeroed_at_padding(x, source, is_source, self_attend, cross_attend):
    memory = self_attend(source, source, source, is_source.unsqueeze(2))[0] * is_source[..., None]
    return cross_attend(x, memory, memory, is_source[:, None])


@given_bug("find_the_bug_in_padding", made="ignored")  # which does as much, or as little
def encoder_unmasked(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source)
    return cross_attend(x, memory, memory, is_source.unsqueeze(1))


@wrong("find_the_bug_in_padding", "the encoder's mask inverted", made="inverted")
def encoder_reads_padding(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source, is_source.logical_not()[:, None])
    return cross_attend(x, memory, memory, is_source.unsqueeze(1))


@wrong("find_the_bug_in_padding", "the encoder's mask without an axis for the queries")
def no_unsqueeze_in_the_encoder(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source, is_source)
    return cross_attend(x, memory, memory, is_source.unsqueeze(1))


@wrong("find_the_bug_in_padding", "a causal mask in the encoder")
def encoder_reads_from_left_to_right(x, source, is_source, self_attend, cross_attend):
    mask = is_source[:, None] & create_causal_mask(source.size(1))
    memory, _ = self_attend(source, source, source, mask)
    return cross_attend(x, memory, memory, is_source.unsqueeze(1))


@wrong("find_the_bug_in_padding", "one sample's padding for all")
def encoder_cut_to_what_all_have(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source, is_source.all(dim=0)[None, None])
    return cross_attend(x, memory, memory, is_source.unsqueeze(1))


@wrong("find_the_bug_in_padding", "padding set to zero, not masked", made="filled with 0")
def source_zeroed(x, source, is_source, self_attend, cross_attend):
    source = source.masked_fill(~is_source.unsqueeze(-1), 0.0)
    memory, _ = self_attend(source, source, source)
    return cross_attend(x, memory, memory, is_source.unsqueeze(1))


@wrong("find_the_bug_in_padding", "no mask in the cross-attention")
def masked_once_only(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source, is_source.unsqueeze(1))
    return cross_attend(x, memory, memory)


@wrong("find_the_bug_in_padding", "the cross-attention's mask on the query axis")
def masks_changed_over(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source, is_source[:, None, :])
    return cross_attend(x, memory, memory, is_source[:, :, None])


@wrong("find_the_bug_in_padding", "the cross-attention's mask inverted", made="inverted")
def target_reads_padding(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source, is_source[:, None, :])
    return cross_attend(x, memory, memory, (~is_source)[:, None, :])


@wrong("find_the_bug_in_padding", "the cross-attention's mask without an axis for the queries")
def no_unsqueeze_across(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source, is_source[:, None, :])
    return cross_attend(x, memory, memory, is_source)


@wrong("find_the_bug_in_padding", "a causal mask in the cross-attention")
def causal_across(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source, is_source[:, None, :])
    return cross_attend(x, memory, memory, create_causal_mask(x.size(1), source.size(1)) & is_source[:, None, :])


@wrong("find_the_bug_in_padding", "the encoder passed by")
def looks_at_the_source(x, source, is_source, self_attend, cross_attend):
    self_attend(source, source, source, is_source.unsqueeze(1))
    return cross_attend(x, source, source, is_source.unsqueeze(1))


@wrong("find_the_bug_in_padding", "the encoder passed by")
def values_of_the_source(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source, is_source.unsqueeze(1))
    return cross_attend(query=x, key=memory, value=source, mask=is_source.unsqueeze(1))


@wrong("find_the_bug_in_padding", "keys and values from x", made="K and V from the query's sequence")
def target_looks_at_itself(x, source, is_source, self_attend, cross_attend):
    self_attend(source, source, source, is_source.unsqueeze(1))
    return cross_attend(x, x, x, is_source.unsqueeze(1))


@wrong("find_the_bug_in_padding", "the source asks, the target answers", made="Q and K swapped")
def memory_asks(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source, is_source.unsqueeze(1))
    return cross_attend(memory, x, x, is_source.unsqueeze(1))


@wrong("find_the_bug_in_padding", "the source added")
def encoder_with_a_residual(x, source, is_source, self_attend, cross_attend):
    found, _ = self_attend(source, source, source, is_source.unsqueeze(1))
    memory = found + source
    return cross_attend(x, memory, memory, is_source.unsqueeze(1))


@wrong("find_the_bug_in_padding", "the input added")
def output_with_a_residual(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source, is_source.unsqueeze(1))
    found, weights = cross_attend(x, memory, memory, is_source.unsqueeze(1))
    return found.add(x), weights


@wrong("find_the_bug_in_padding", "weights of the encoder")
def first_weights_kept(x, source, is_source, self_attend, cross_attend):
    memory, weights = self_attend(source, source, source, is_source.unsqueeze(1))
    output, _ = cross_attend(x, memory, memory, is_source.unsqueeze(1))
    return output, weights


@wrong("find_the_bug_in_padding", "weights averaged over the heads")
def mean_of_the_maps(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source, is_source.unsqueeze(1))
    output, weights = cross_attend(x, memory, memory, is_source.unsqueeze(1))
    return output, weights.mean(dim=1)


@wrong("find_the_bug_in_padding", "squeeze() without a dimension", made="squeeze() without a dimension")
def maps_squeezed(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source, is_source.unsqueeze(1))
    output, weights = cross_attend(x, memory, memory, is_source.unsqueeze(1))
    return output, weights.squeeze()


@wrong("find_the_bug_in_padding", "gradient cut", made="gradient cut by detach")
def encoder_frozen(x, source, is_source, self_attend, cross_attend):
    with torch.no_grad():
        memory, _ = self_attend(source, source, source, is_source.unsqueeze(1))
    return cross_attend(x, memory, memory, is_source.unsqueeze(1))


@wrong("find_the_bug_in_padding", "an input changed in place", made="an input changed in place")
def source_overwritten(x, source, is_source, self_attend, cross_attend):
    source.data[~is_source] = 0.0
    memory, _ = self_attend(source, source, source, is_source.unsqueeze(1))
    return cross_attend(x, memory, memory, is_source.unsqueeze(1))


@wrong("find_the_bug_in_padding", "right for these sizes only", made="sizes hard-coded")
def for_sources_of_five(x, source, is_source, self_attend, cross_attend):
    mask = is_source.reshape(-1, 1, 5)
    memory, _ = self_attend(source, source, source, mask)
    return cross_attend(x, memory, memory, mask)


@wrong(
    "find_the_bug_in_padding",
    "real tokens look at padding in the encoder",
    "the cross-attention's mask on the query axis",
)
def second_mask_made_like_the_first(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source, is_source.unsqueeze(2))
    return cross_attend(x, memory, memory, is_source.unsqueeze(2))


@wrong("find_the_bug_in_padding", "real tokens look at padding in the encoder", "no mask in the cross-attention")
def no_mask_anywhere(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source)
    return cross_attend(x, memory, memory)


@three(
    "find_the_bug_in_padding",
    "real tokens look at padding in the encoder",
    "the source added",
    "weights averaged over the heads",
)
def block_without_a_mask(x, source, is_source, self_attend, cross_attend):
    memory = source + self_attend(source, source, source)[0]
    output, weights = cross_attend(x, memory, memory, is_source.unsqueeze(1))
    return output, weights.mean(dim=1)


@right("find_the_bug_in_padding")
def one_axis_moved(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source, is_source.unsqueeze(1))
    return cross_attend(x, memory, memory, is_source.unsqueeze(1))


@right("find_the_bug_in_padding")
def one_mask_by_keyword(x, source, is_source, self_attend, cross_attend):
    mask = is_source[:, None, :]
    memory = self_attend(query=source, key=source, value=source, mask=mask)[0]
    output, weights = cross_attend(query=x, key=memory, value=memory, mask=mask)
    return output, weights


@right("find_the_bug_in_padding")
def rows_of_padding_blocked_as_well(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source, is_source.unsqueeze(1) & is_source.unsqueeze(2))
    return cross_attend(x, memory, memory, is_source.unsqueeze(1))


@right("find_the_bug_in_padding")
def padding_zeroed_on_the_way(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source, is_source.unsqueeze(-2))
    memory = memory.masked_fill(~is_source[:, :, None], 0.0)
    return cross_attend(x, memory, memory, is_source.unsqueeze(-2))


@right("find_the_bug_in_padding")
def masks_of_ones_and_zeros(x, source, is_source, self_attend, cross_attend):
    mask = is_source.float().view(len(source), 1, 1, -1)
    memory, _ = self_attend(source, source, source, mask)
    return cross_attend(x, memory, memory, mask)


@right("find_the_bug_in_padding")
def transposed_as_a_whole(x, source, is_source, self_attend, cross_attend):
    S = source.size(1)
    mask = is_source.unsqueeze(2).expand(-1, -1, S).mT
    memory, _ = self_attend(source, source, source, mask)
    return cross_attend(x, memory, memory, is_source.unsqueeze(1).expand(-1, x.size(1), -1))


@right("find_the_bug_in_padding")
def every_token_sees_itself(x, source, is_source, self_attend, cross_attend):
    mask = is_source.unsqueeze(1) | torch.eye(source.size(1), dtype=torch.bool)
    memory, _ = self_attend(source, source, source, mask)
    return cross_attend(x, memory, memory, is_source.unsqueeze(1))


@right("find_the_bug_in_padding")
def one_token_of_the_source_at_a_time(x, source, is_source, self_attend, cross_attend):
    mask = is_source.unsqueeze(1)
    memory = torch.cat([self_attend(token, source, source, mask)[0] for token in source.split(1, dim=1)], dim=1)
    return cross_attend(x, memory, memory, mask)


@right("find_the_bug_in_padding")
def padding_cut_off(x, source, is_source, self_attend, cross_attend):
    outputs, maps = [], []
    for target, words, real in zip(x, source, is_source, strict=True):
        words = words[real].unsqueeze(0)
        memory, _ = self_attend(words, words, words)
        output, found = cross_attend(target.unsqueeze(0), memory, memory)
        weights = torch.zeros(*found.shape[:-1], len(real))
        weights[..., real] = found
        outputs.append(output)
        maps.append(weights)
    return torch.cat(outputs), torch.cat(maps)


@unnamed("find_the_bug_in_padding")
def encoded_twice(x, source, is_source, self_attend, cross_attend):
    mask = is_source.unsqueeze(1)
    memory, _ = self_attend(source, source, source, mask)
    memory, _ = self_attend(memory, memory, memory, mask)
    return cross_attend(x, memory, memory, mask)


@unnamed("find_the_bug_in_padding")
def each_token_of_the_source_alone(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source, torch.eye(source.size(1)))
    return cross_attend(x, memory, memory, is_source.unsqueeze(1))


@unnamed("find_the_bug_in_padding")
def attentions_exchanged(x, source, is_source, self_attend, cross_attend):
    memory, _ = cross_attend(source, source, source, is_source.unsqueeze(1))
    return self_attend(x, memory, memory, is_source.unsqueeze(1))


@unnamed("find_the_bug_in_padding")
def memory_shifted(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source, is_source.unsqueeze(1))
    return cross_attend(x, memory + 1.0, memory + 1.0, is_source.unsqueeze(1))
