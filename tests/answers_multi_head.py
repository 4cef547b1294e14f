"""Answers to the exercises of lesson 04, as readers type them; importing this enters them in `ANSWERS`."""

import math

import torch
import torch.nn.functional as F
from answers import given_bug, right, three, unnamed, wrong
from torch import nn

from utils.attention import MultiHeadAttention, merge_heads, split_heads
from utils.attention import scaled_dot_product_attention as attention

# ---------------------------------------------------------------- split heads


@wrong("split_heads", "split by view without a transpose", made="split by view without a transpose")
def viewed_as_asked(x, num_heads):
    B, T, d_model = x.shape
    return x.view(B, num_heads, T, d_model // num_heads)


@wrong("split_heads", "split by view without a transpose", made="split by view without a transpose")
def reshaped_as_asked(x, num_heads):
    d_k = x.size(-1) // num_heads
    return x.reshape(x.size(0), num_heads, -1, d_k)


@wrong("split_heads", "heads interleaved", made="heads interleaved")
def every_third_feature(x, num_heads):
    return torch.stack([x[:, :, h::num_heads] for h in range(num_heads)], dim=1)


@wrong("split_heads", "heads interleaved", made="heads interleaved")
def cut_with_the_heads_last(x, num_heads):
    B, T, d_model = x.shape
    return x.view(B, T, d_model // num_heads, num_heads).permute(0, 3, 1, 2)


@wrong("split_heads", "view after transpose", made="view after transpose")
def transposed_and_viewed(x, num_heads):
    B, T, d_model = x.shape
    return x.transpose(1, 2).view(B, num_heads, T, d_model // num_heads)


@wrong("split_heads", "transposed before the cut")
def transposed_and_reshaped(x, num_heads):
    B, T, d_model = x.shape
    return x.transpose(1, 2).reshape(B, num_heads, T, d_model // num_heads)


@wrong("split_heads", "heads left behind the positions", made="attention over heads")
def cut_and_left_there(x, num_heads):
    B, T, d_model = x.shape
    return x.view(B, T, num_heads, d_model // num_heads)


@wrong("split_heads", "heads left behind the positions", made="attention over heads")
def unflattened_only(x, num_heads):
    return x.unflatten(-1, (num_heads, -1))


@wrong("split_heads", "positions and features exchanged")
def transposed_and_cut(x, num_heads):
    return x.transpose(1, 2).unflatten(1, (num_heads, x.size(-1) // num_heads))


@wrong("split_heads", "positions and features exchanged")
def permuted_one_too_far(x, num_heads):
    return x.unflatten(2, (num_heads, -1)).permute(0, 2, 3, 1)


@wrong("split_heads", "number of heads and size of a head exchanged")
def split_into_pieces_of_num_heads(x, num_heads):
    return torch.stack(x.split(num_heads, dim=-1), dim=1)


@wrong("split_heads", "heads before the batch")
def chunks_stacked_in_front(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1))


@wrong("split_heads", "heads folded into the batch")
def heads_in_the_batch(x, num_heads):
    B, T, _ = x.shape
    return x.view(B, T, num_heads, -1).transpose(1, 2).reshape(B * num_heads, T, -1)


@wrong("split_heads", "squeeze() without a dimension")
def split_and_squeezed(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2).squeeze()


@wrong("split_heads", "right for these sizes only")
def three_heads_of_four(x, num_heads):
    return x.view(2, 5, 3, 4).transpose(1, 2)


@wrong("split_heads", "gradient cut")
def split_in_numpy(x, num_heads):
    B, T, _ = x.shape
    heads = x.detach().numpy().reshape(B, T, num_heads, -1).transpose(0, 2, 1, 3)
    return torch.from_numpy(heads.copy())


@right("split_heads")
def viewed_and_transposed(x, num_heads):
    B, T, d_model = x.shape
    d_k = d_model // num_heads
    return x.view(B, T, num_heads, d_k).transpose(1, 2)


@right("split_heads")
def reshaped_and_permuted(x, num_heads):
    return x.reshape(*x.shape[:2], num_heads, -1).permute(0, 2, 1, 3).contiguous()


@right("split_heads")
def chunked_and_stacked(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


@right("split_heads")
def unflattened(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).swapaxes(1, 2)


@right("split_heads")
def slice_after_slice(x, num_heads):
    d_k = x.size(2) // num_heads
    return torch.cat([x[:, None, :, h * d_k : (h + 1) * d_k] for h in range(num_heads)], dim=1)


@unnamed("split_heads")
def heads_in_reverse(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2).flip(1)


# ---------------------------------------------------------------- merge heads


@wrong("merge_heads", "merged without a transpose", made="merged without a transpose")
def reshaped_at_once(heads):
    B, H, T, d_k = heads.shape
    return heads.reshape(B, T, H * d_k)


@wrong("merge_heads", "merged without a transpose", made="merged without a transpose")
def viewed_at_once(heads):
    return heads.contiguous().view(heads.shape[0], heads.shape[2], -1)


@wrong("merge_heads", "view after transpose", made="view after transpose")
def transposed_back_and_viewed(heads):
    B, H, T, d_k = heads.shape
    return heads.transpose(1, 2).view(B, T, H * d_k)


@wrong("merge_heads", "heads interleaved", made="heads interleaved")
def features_before_heads(heads):
    B, H, T, d_k = heads.shape
    return heads.permute(0, 2, 3, 1).reshape(B, T, d_k * H)


@wrong("merge_heads", "heads interleaved", made="heads interleaved")
def stacked_on_the_last_axis(heads):
    return torch.stack(heads.unbind(1), dim=-1).flatten(2)


@wrong("merge_heads", "heads averaged or summed", made="heads averaged")
def mean_of_the_heads(heads):
    return heads.mean(1)


@wrong("merge_heads", "heads averaged or summed", made="heads summed")
def sum_of_the_heads(heads):
    return sum(heads[:, h] for h in range(heads.size(1)))


@wrong("merge_heads", "only one head")
def last_of_the_loop(heads):
    for h in range(heads.size(1)):
        merged = heads[:, h]
    return merged


@wrong("merge_heads", "joined along the positions")
def joined_below_each_other(heads):
    return torch.cat(heads.unbind(1), dim=1)


@wrong("merge_heads", "not merged")
def transposed_back_only(heads):
    return heads.permute(0, 2, 1, 3)


@wrong("merge_heads", "wrong axes transposed")
def last_two_exchanged(heads):
    B, H, T, d_k = heads.shape
    return heads.transpose(-2, -1).reshape(B, T, H * d_k)


@wrong("merge_heads", "squeeze() without a dimension")
def merged_and_squeezed(heads):
    return heads.transpose(1, 2).flatten(2).squeeze()


@wrong("merge_heads", "right for these sizes only")
def twelve_features(heads):
    return heads.transpose(1, 2).reshape(-1, 5, 12)


@right("merge_heads")
def transposed_and_made_contiguous(heads):
    B, H, T, d_k = heads.shape
    return heads.transpose(1, 2).contiguous().view(B, T, H * d_k)


@right("merge_heads")
def permuted_and_flattened(heads):
    return heads.permute(0, 2, 1, 3).flatten(2)


@right("merge_heads")
def joined_side_by_side(heads):
    return torch.cat(heads.unbind(dim=1), dim=-1)


@unnamed("merge_heads")
def last_head_first(heads):
    return heads.flip(1).transpose(1, 2).flatten(2)


# ---------------------------------------------------------------- multi-head attention


class FourLayers(nn.Module):
    """The `__init__` that nearly every reader writes."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.d_model, self.num_heads, self.d_k = d_model, num_heads, d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)

    def split(self, *sequences):
        return [split_heads(x, self.num_heads) for x in sequences]

    def project(self, query, key, value):
        return self.split(self.W_q(query), self.W_k(key), self.W_v(value))


def with_head_axis(mask):
    return None if mask is None else mask.unsqueeze(1)


def by_hand(Q, K, V, mask=None, scale=None):
    """Attention as typed out once more, where readers change a line of it."""
    scores = Q @ K.transpose(-2, -1) / (scale or math.sqrt(Q.size(-1)))
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e9)
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ V, weights


@wrong("multi_head_attention", "split by view without a transpose", made="split by view without a transpose")
class SplitByView(FourLayers):
    def forward(self, query, key, value, mask=None):
        B = query.size(0)
        Q = self.W_q(query).view(B, self.num_heads, -1, self.d_k)
        K = self.W_k(key).view(B, self.num_heads, -1, self.d_k)
        V = self.W_v(value).view(B, self.num_heads, -1, self.d_k)
        heads, weights = attention(Q, K, V, with_head_axis(mask))
        return self.W_o(merge_heads(heads)), weights


@wrong(
    "multi_head_attention",
    "split by view without a transpose",
    "merged without a transpose",
    made="split by view without a transpose",
)
class ViewedThereAndBack(FourLayers):
    def forward(self, query, key, value, mask=None):
        B, T_q, d_model = query.shape
        Q, K, V = (
            x.view(B, self.num_heads, x.size(1), self.d_k) for x in (self.W_q(query), self.W_k(key), self.W_v(value))
        )
        heads, weights = attention(Q, K, V, with_head_axis(mask))
        return self.W_o(heads.reshape(B, T_q, d_model)), weights


@wrong("multi_head_attention", "merged without a transpose", made="merged without a transpose")
class MergedAtOnce(FourLayers):
    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.project(query, key, value), with_head_axis(mask))
        return self.W_o(heads.contiguous().view(query.size(0), -1, self.d_model)), weights


@wrong("multi_head_attention", "view after transpose", made="view after transpose")
class ViewAfterTranspose(FourLayers):
    def forward(self, query, key, value, mask=None):
        B, T_q, d_model = query.shape
        heads, weights = attention(*self.project(query, key, value), with_head_axis(mask))
        return self.W_o(heads.transpose(1, 2).view(B, T_q, d_model)), weights


@wrong("multi_head_attention", "heads interleaved", made="heads interleaved")
class InterleavedThroughout(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = (
            x.unflatten(-1, (self.d_k, self.num_heads)).permute(0, 3, 1, 2)
            for x in (self.W_q(query), self.W_k(key), self.W_v(value))
        )
        heads, weights = attention(Q, K, V, with_head_axis(mask))
        return self.W_o(heads.permute(0, 2, 3, 1).flatten(2)), weights


@wrong("multi_head_attention", "attention over the heads", made="attention over heads")
class NeverTransposed(FourLayers):
    def forward(self, query, key, value, mask=None):
        B, T_q, d_model = query.shape
        Q = self.W_q(query).view(B, -1, self.num_heads, self.d_k)
        K = self.W_k(key).view(B, -1, self.num_heads, self.d_k)
        V = self.W_v(value).view(B, -1, self.num_heads, self.d_k)
        heads, weights = attention(Q, K, V, with_head_axis(mask))
        return self.W_o(heads.reshape(B, T_q, d_model)), weights


@wrong("multi_head_attention", "attention over the heads", made="attention over heads")
class NeverTransposedAndMerged(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = (
            x.unflatten(-1, (self.num_heads, self.d_k)) for x in (self.W_q(query), self.W_k(key), self.W_v(value))
        )
        heads, weights = by_hand(Q, K, V, with_head_axis(mask))
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "no output projection", made="no output projection")
class NoOutputProjection(FourLayers):
    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.project(query, key, value), with_head_axis(mask))
        return merge_heads(heads), weights


@wrong("multi_head_attention", "heads averaged or summed", made="heads averaged")
class HeadsAveraged(FourLayers):
    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.project(query, key, value), with_head_axis(mask))
        return heads.mean(dim=1), weights


@wrong("multi_head_attention", "heads averaged or summed", made="heads summed")
class HeadsSummed(FourLayers):
    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.project(query, key, value), with_head_axis(mask))
        return heads.sum(dim=1), weights


@wrong("multi_head_attention", "a projection inside a head", made="heads averaged")
class OutputProjectionOfTheMean(FourLayers):
    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.project(query, key, value), with_head_axis(mask))
        return self.W_o(heads.mean(dim=1)), weights


@wrong("multi_head_attention", "a projection inside a head")
class OutputProjectionFirst(FourLayers):
    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.project(query, key, value), with_head_axis(mask))
        return merge_heads(self.W_o(heads)), weights


@wrong("multi_head_attention", "a projection inside a head")
class NotMergedAfterTheTranspose(FourLayers):
    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.project(query, key, value), with_head_axis(mask))
        return self.W_o(heads.transpose(1, 2)), weights


@wrong("multi_head_attention", "a projection inside a head")
class SplitFirst(FourLayers):
    def forward(self, query, key, value, mask=None):
        query, key, value = self.split(query, key, value)
        heads, weights = attention(self.W_q(query), self.W_k(key), self.W_v(value), with_head_axis(mask))
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "only one head")
class FirstHeadOnly(FourLayers):
    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.project(query, key, value), with_head_axis(mask))
        return heads[:, 0], weights


@wrong("multi_head_attention", "only one head", "weights of one head")
class LastHeadOfTheLoop(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = self.W_q(query), self.W_k(key), self.W_v(value)
        for h in range(self.num_heads):
            part = slice(h * self.d_k, (h + 1) * self.d_k)
            output, weights = attention(Q[..., part], K[..., part], V[..., part], mask)
        return output, weights


@wrong("multi_head_attention", "weights of one head")
class LastWeightsOfTheLoop(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = self.W_q(query), self.W_k(key), self.W_v(value)
        outputs = []
        for h in range(self.num_heads):
            q, k, v = (x.chunk(self.num_heads, dim=-1)[h] for x in (Q, K, V))
            output, weights = attention(q, k, v, mask)
            outputs.append(output)
        return self.W_o(torch.cat(outputs, dim=-1)), weights


@wrong("multi_head_attention", "K or V from the query's sequence", made="K and V from the query's sequence")
class SelfAttentionAlways(FourLayers):
    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.project(query, query, query), with_head_axis(mask))
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "K or V from the query's sequence", made="K from the query's sequence")
class KeysOfTheQuery(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = self.split(self.W_q(query), self.W_k(query), self.W_v(value))
        heads, weights = by_hand(Q, K, V, with_head_axis(mask))
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "K or V from the query's sequence", made="V from the query's sequence")
class ValuesOfTheQuery(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = self.split(self.W_q(query), self.W_k(key), self.W_v(query))
        heads, weights = attention(Q, K, V, with_head_axis(mask))
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "key and value mixed up")
class ValuesOfTheKey(FourLayers):
    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.project(query, key, key), with_head_axis(mask))
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "scale of d_model", made="scale of d_model")
class ScaleOfTheModel(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = self.project(query, key, value)
        heads, weights = by_hand(Q, K, V, with_head_axis(mask), scale=math.sqrt(self.d_model))
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "root of the number of heads")
class ScaleOfTheHeads(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = self.project(query, key, value)
        heads, weights = by_hand(Q, K, V, with_head_axis(mask), scale=self.num_heads**0.5)
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "no scaling", made="no scaling")
class NoScale(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = self.project(query, key, value)
        heads, weights = by_hand(Q, K, V, with_head_axis(mask), scale=1)
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "divided by d_k, not by its root", made="divided by d_k")
class ScaleWithoutTheRoot(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = self.project(query, key, value)
        heads, weights = by_hand(Q, K, V, with_head_axis(mask), scale=self.d_k)
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "softmax over the queries", made="softmax over heads")
class SoftmaxOverTheHeads(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = self.project(query, key, value)
        scores = torch.einsum("bhqd,bhkd->bhqk", Q, K) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(1), torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=1)
        if mask is not None:
            weights = weights.masked_fill(~mask.unsqueeze(1), 0.0)
        return self.W_o(merge_heads(weights @ V)), weights


@wrong("multi_head_attention", "NaN where a query may attend to nothing", made="fully masked row gives NaN")
class MinusInfinityOnly(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = self.project(query, key, value)
        scores = Q @ K.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask[:, None] == 0, float("-inf"))
        weights = scores.softmax(-1)
        return self.W_o(merge_heads(weights @ V)), weights


@wrong(
    "multi_head_attention",
    "uniform weights where a query may attend to nothing",
    made="fully masked row gives uniform weights",
)
class ABillionBelow(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = self.project(query, key, value)
        scores = Q @ K.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(1), -1e9)
        weights = F.softmax(scores, dim=-1)
        return self.W_o(merge_heads(weights @ V)), weights


@wrong("multi_head_attention", "mask without a head axis", made="mask without a head axis")
class MaskAsItIs(FourLayers):
    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.project(query, key, value), mask)
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "mask without a head axis", made="mask without a head axis")
class MaskBroadcast(FourLayers):
    def forward(self, query, key, value, mask=None):
        heads, weights = by_hand(*self.project(query, key, value), mask)
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "mask without a head axis", made="mask without a head axis")
class MaskBroadcastInWhere(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = self.project(query, key, value)
        scores = Q @ K.transpose(2, 3) / math.sqrt(self.d_k)
        if mask is None:
            mask = torch.ones(1, 1, 1, dtype=torch.bool)
        weights = torch.where(mask, scores, -1e9).softmax(dim=-1)
        weights = torch.where(mask, weights, 0.0)
        return self.W_o(merge_heads(weights @ V)), weights


@wrong("multi_head_attention", "mask repeated in the wrong order", made="mask repeated in the wrong order")
class FoldedAndRepeated(FourLayers):
    def forward(self, query, key, value, mask=None):
        B, H = query.size(0), self.num_heads
        Q, K, V = (x.flatten(0, 1) for x in self.project(query, key, value))
        if mask is not None:
            mask = mask.expand(B, -1, -1).repeat(H, 1, 1)
        heads, weights = attention(Q, K, V, mask)
        return self.W_o(merge_heads(heads.unflatten(0, (B, H)))), weights.unflatten(0, (B, H))


@wrong("multi_head_attention", "a mask for all samples repeated as if for one")
class FoldedAndNotExpanded(FourLayers):
    def forward(self, query, key, value, mask=None):
        B, H = query.size(0), self.num_heads
        Q, K, V = (x.flatten(0, 1) for x in self.project(query, key, value))
        heads, weights = attention(Q, K, V, None if mask is None else mask.repeat_interleave(H, dim=0))
        return self.W_o(merge_heads(heads.view(B, H, *heads.shape[1:]))), weights.view(B, H, *weights.shape[1:])


@wrong("multi_head_attention", "the first sample's mask for all")
class MaskOfTheFirstSample(FourLayers):
    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask[0]
        heads, weights = attention(*self.project(query, key, value), mask)
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "mask ignored", made="ignored")
class MaskForgotten(FourLayers):
    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.project(query, key, value))
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "mask inverted", made="inverted")
class MaskOfTheOtherModule(FourLayers):
    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = ~mask.unsqueeze(1)
        heads, weights = attention(*self.project(query, key, value), mask)
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "W_q, W_k or W_v swapped", made="W_q and W_k swapped")
class LayersExchanged(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = self.split(self.W_k(query), self.W_q(key), self.W_v(value))
        heads, weights = attention(Q, K, V, with_head_axis(mask))
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "one projection for several")
class OneProjectionForAll(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = self.split(self.W_q(query), self.W_q(key), self.W_q(value))
        heads, weights = attention(Q, K, V, with_head_axis(mask))
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "a projection left out")
class OnlyTheOutputProjected(FourLayers):
    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.split(query, key, value), with_head_axis(mask))
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "one layer under several names")
class OneLayerFourTimes(FourLayers):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.W_q, self.W_k, self.W_v, self.W_o = [nn.Linear(d_model, d_model)] * 4

    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.project(query, key, value), with_head_axis(mask))
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "projections in a plain list", made="projections in a plain list")
class PlainList(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.projections = [nn.Linear(d_model, d_model) for _ in range(4)]

    def forward(self, query, key, value, mask=None):
        W_q, W_k, W_v, W_o = self.projections
        Q, K, V = (split_heads(x, self.num_heads) for x in (W_q(query), W_k(key), W_v(value)))
        heads, weights = attention(Q, K, V, with_head_axis(mask))
        return W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "projections in a plain list", made="projections in a plain list")
class PlainDictionaryAndOneLayer(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self._layers = {name: nn.Linear(d_model, d_model) for name in ("W_q", "W_k", "W_v")}
        self.W_o = nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask=None):
        Q, K, V = (
            split_heads(W(x), self.num_heads) for W, x in zip(self._layers.values(), (query, key, value), strict=True)
        )
        heads, weights = attention(Q, K, V, with_head_axis(mask))
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "no biases")
class NoBiases(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=False)
        self.W_k = nn.Linear(d_model, d_model, bias=False)
        self.W_v = nn.Linear(d_model, d_model, bias=False)
        self.W_o = nn.Linear(d_model, d_model, bias=False)

    def forward(self, query, key, value, mask=None):
        Q, K, V = (split_heads(x, self.num_heads) for x in (self.W_q(query), self.W_k(key), self.W_v(value)))
        heads, weights = attention(Q, K, V, with_head_axis(mask))
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "no biases")
class BiasOfTheOutputOnly(FourLayers):
    def __init__(self, d_model, num_heads, qkv_bias=False):
        super().__init__(d_model, num_heads)
        self.W_q = nn.Linear(d_model, d_model, bias=qkv_bias)
        self.W_k = nn.Linear(d_model, d_model, bias=qkv_bias)
        self.W_v = nn.Linear(d_model, d_model, bias=qkv_bias)

    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.project(query, key, value), with_head_axis(mask))
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "weights averaged over the heads")
class WeightsAveraged(FourLayers):
    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.project(query, key, value), with_head_axis(mask))
        return self.W_o(merge_heads(heads)), weights.mean(dim=1)


@wrong("multi_head_attention", "squeeze() without a dimension", made="squeeze() without a dimension")
class WeightsSqueezed(FourLayers):
    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.project(query, key, value), with_head_axis(mask))
        return self.W_o(merge_heads(heads)), weights.squeeze()


@wrong("multi_head_attention", "right for these sizes only", made="sizes hard-coded")
class FourFeaturesAHead(FourLayers):
    def forward(self, query, key, value, mask=None):
        heads, weights = by_hand(*self.project(query, key, value), with_head_axis(mask), scale=2.0)
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "gradient cut", made="gradient cut by detach")
class Detached(FourLayers):
    def forward(self, query, key, value, mask=None):
        with torch.no_grad():
            heads, weights = attention(*self.project(query, key, value), with_head_axis(mask))
            return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "an input changed in place", made="an input changed in place")
class QueryScaledInPlace(FourLayers):
    def forward(self, query, key, value, mask=None):
        query.data /= math.sqrt(self.d_k)
        heads, weights = attention(*self.project(query, key, value), with_head_axis(mask))
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "no output projection", "scale of d_model")
class NoOutputProjectionAndScaleOfTheModel(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = self.project(query, key, value)
        heads, weights = by_hand(Q, K, V, with_head_axis(mask), scale=query.size(-1) ** 0.5)
        return heads.transpose(1, 2).flatten(2), weights


@wrong("multi_head_attention", "no biases", "mask without a head axis")
class NoBiasesAndMaskAsItIs(NoBiases):
    def forward(self, query, key, value, mask=None):
        Q, K, V = (split_heads(x, self.num_heads) for x in (self.W_q(query), self.W_k(key), self.W_v(value)))
        heads, weights = attention(Q, K, V, mask)
        return self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "K or V from the query's sequence", "weights averaged over the heads")
class SelfAttentionWithMeanWeights(FourLayers):
    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.project(query, query, query), with_head_axis(mask))
        return self.W_o(merge_heads(heads)), weights.mean(1)


@wrong("multi_head_attention", "W_q, W_k or W_v swapped", "merged without a transpose")
class ValuesByTheKeysLayerMergedAtOnce(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = self.split(self.W_q(query), self.W_v(key), self.W_k(value))
        heads, weights = attention(Q, K, V, with_head_axis(mask))
        return self.W_o(heads.reshape(query.shape)), weights


@three("multi_head_attention", "no output projection", "mask inverted", "W_q, W_k or W_v swapped")
class InvertedSwappedAndUnmixed(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = self.split(self.W_k(query), self.W_q(key), self.W_v(value))
        heads, weights = attention(Q, K, V, None if mask is None else ~mask.unsqueeze(1))
        return merge_heads(heads), weights


@right("multi_head_attention")
class ProjectSplitAttendMergeProject(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q = split_heads(self.W_q(query), self.num_heads)
        K = split_heads(self.W_k(key), self.num_heads)
        V = split_heads(self.W_v(value), self.num_heads)
        if mask is not None:
            mask = mask.unsqueeze(1)
        heads, weights = attention(Q, K, V, mask)
        return self.W_o(merge_heads(heads)), weights


@right("multi_head_attention")
class LoopOverTheHeads(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = self.W_q(query), self.W_k(key), self.W_v(value)
        outputs, weights = [], []
        for h in range(self.num_heads):
            part = slice(h * self.d_k, (h + 1) * self.d_k)
            output, w = attention(Q[:, :, part], K[:, :, part], V[:, :, part], mask)
            outputs.append(output)
            weights.append(w)
        return self.W_o(torch.cat(outputs, dim=-1)), torch.stack(weights, dim=1)


@right("multi_head_attention")
class AllInEinsum(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = (x.unflatten(-1, (self.num_heads, -1)) for x in (self.W_q(query), self.W_k(key), self.W_v(value)))
        scores = torch.einsum("bqhd,bkhd->bhqk", Q, K) * self.d_k**-0.5
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None], torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)
        if mask is not None:
            weights = weights.masked_fill(~mask[:, None], 0.0)
        return self.W_o(torch.einsum("bhqk,bkhd->bqhd", weights, V).flatten(2)), weights


@right("multi_head_attention")
class FoldedIntoTheBatch(FourLayers):
    def forward(self, query, key, value, mask=None):
        B, H = query.size(0), self.num_heads
        Q, K, V = (x.reshape(B * H, -1, self.d_k) for x in self.project(query, key, value))
        if mask is not None:
            mask = mask.unsqueeze(1).expand(B, H, -1, -1).flatten(0, 1)
        heads, weights = attention(Q, K, V, mask)
        return self.W_o(merge_heads(heads.unflatten(0, (B, H)))), weights.unflatten(0, (B, H))


@right("multi_head_attention")
class FusedForTheOutput(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = self.project(query, key, value)
        mask = None if mask is None else mask.unsqueeze(1)
        _, weights = attention(Q, K, V, mask)
        heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask)
        if mask is not None:
            heads = torch.where(mask.any(-1, keepdim=True), heads, 0.0)
        return self.W_o(merge_heads(heads)), weights


@right("multi_head_attention")
class MinusInfinityAndNanReplaced(FourLayers):
    def forward(self, query, key, value, mask=None):
        Q, K, V = self.project(query, key, value)
        scores = Q @ K.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(1), float("-inf"))
        weights = torch.softmax(scores, dim=-1).nan_to_num(0.0)
        return self.W_o((weights @ V).transpose(1, 2).contiguous().view(*query.shape)), weights


@right("multi_head_attention")
class InheritedFromTheCourse(MultiHeadAttention):
    def forward(self, query, key, value, mask=None):
        return super().forward(query, key, value, mask)


@unnamed("multi_head_attention")
class ResidualAdded(FourLayers):
    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.project(query, key, value), with_head_axis(mask))
        return query + self.W_o(merge_heads(heads)), weights


@wrong("multi_head_attention", "another answer each time")
class DropoutThatNeverStops(FourLayers):
    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.project(query, key, value), with_head_axis(mask))
        return self.W_o(F.dropout(merge_heads(heads), 0.5)), weights


@unnamed("multi_head_attention")
class NormalisedHeads(FourLayers):
    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.project(query, key, value), with_head_axis(mask))
        return self.W_o(F.layer_norm(merge_heads(heads), [self.d_model])), weights


@unnamed("multi_head_attention")
class OutputProjectedTwice(FourLayers):
    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.project(query, key, value), with_head_axis(mask))
        return self.W_o(self.W_o(merge_heads(heads))), weights


# ---------------------------------------------------------------- find the bug in folded heads


class Folded(FourLayers):
    """The given code, with the mask's line left to the answers."""

    def fold(self, query, key, value, mask):
        B, H = query.size(0), self.num_heads
        heads, weights = attention(*(x.flatten(0, 1) for x in self.project(query, key, value)), mask)
        return self.W_o(merge_heads(heads.unflatten(0, (B, H)))), weights.unflatten(0, (B, H))


@given_bug("find_the_bug_in_multi_head", made="mask repeated in the wrong order")
class FoldedHeads(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        B, H = query.size(0), self.num_heads
        Q, K, V = (
            split_heads(x, H).flatten(0, 1)  # (B H, T, d_k): the heads are folded into the batch
            for x in (self.W_q(query), self.W_k(key), self.W_v(value))
        )
        if mask is not None:
            mask = mask.expand(B, -1, -1).repeat(H, 1, 1)  # (B H, T_q, T_k)
        heads, weights = attention(Q, K, V, mask)
        return self.W_o(merge_heads(heads.unflatten(0, (B, H)))), weights.unflatten(0, (B, H))


@given_bug("find_the_bug_in_multi_head", made="mask repeated in the wrong order")
class RepeatedAsItComes(Folded):
    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask.repeat(self.num_heads, 1, 1)
        return self.fold(query, key, value, mask)


@given_bug("find_the_bug_in_multi_head", made="mask repeated in the wrong order")
class JoinedHeadAfterHead(Folded):
    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = torch.cat([mask.expand(query.size(0), -1, -1)] * self.num_heads)
        return self.fold(query, key, value, mask)


@wrong("find_the_bug_in_multi_head", "a mask for all samples repeated as if for one")
class RepairedForMasksOfSamples(Folded):
    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask.repeat_interleave(self.num_heads, dim=0)
        return self.fold(query, key, value, mask)


@wrong("find_the_bug_in_multi_head", "the first sample's mask for all")
class FirstMaskRepeated(Folded):
    def forward(self, query, key, value, mask=None):
        return self.fold(query, key, value, None if mask is None else mask[0])


@wrong("find_the_bug_in_multi_head", "mask ignored", made="ignored")
class MaskTakenOut(Folded):
    def forward(self, query, key, value, mask=None):
        return self.fold(query, key, value, None)


@wrong("find_the_bug_in_multi_head", "mask repeated in the wrong order", "no output projection")
class RepeatedAndUnmixed(Folded):
    def forward(self, query, key, value, mask=None):
        B, H = query.size(0), self.num_heads
        if mask is not None:
            mask = mask.expand(B, -1, -1).repeat(H, 1, 1)
        Q, K, V = (x.flatten(0, 1) for x in self.project(query, key, value))
        heads, weights = attention(Q, K, V, mask)
        return merge_heads(heads.unflatten(0, (B, H))), weights.unflatten(0, (B, H))


@right("find_the_bug_in_multi_head")
class RepeatedInterleaved(Folded):
    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask.expand(query.size(0), -1, -1).repeat_interleave(self.num_heads, dim=0)
        return self.fold(query, key, value, mask)


@right("find_the_bug_in_multi_head")
class NotFoldedAnyMore(Folded):
    def forward(self, query, key, value, mask=None):
        heads, weights = attention(*self.project(query, key, value), with_head_axis(mask))
        return self.W_o(merge_heads(heads)), weights
