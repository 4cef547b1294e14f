"""Answers to the exercises of lesson 06, as readers type them; importing this enters them in `ANSWERS`."""

import torch
import torch.nn.functional as F
from answers import right, three, unnamed, wrong

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
