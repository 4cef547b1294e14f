"""Answers to the exercises of lessons 01 and 02, as readers type them; importing this enters them in `ANSWERS`."""

import math

import torch
import torch.nn.functional as F
from answers import given_bug, right, three, unnamed, wrong

from utils.tasks import BOS, EOS, PAD

# ---------------------------------------------------------------- shift target


@wrong("shift_target", "not shifted")
def the_same_twice(target):
    decoder_input = target[:, :-1]
    labels = target[:, :-1]
    return decoder_input, labels


@wrong("shift_target", "not shifted")
def target_and_a_copy(target):
    return target, target.clone()


@wrong("shift_target", "shifted the wrong way")
def labels_first(target):
    labels, decoder_input = target[:, :-1], target[:, 1:]
    return decoder_input, labels


@wrong("shift_target", "BOS left in the labels")
def input_cut_alone(target):
    T = target.size(1) - 1
    return target.narrow(1, 0, T), target


@wrong("shift_target", "the decoder is given the last token too")
def labels_cut_alone(target):
    return target, target[:, 1:]


@wrong("shift_target", "BOS is not given")
def bos_taken_off_both(target):
    words = target[:, 1:]
    return words[:, :-1], words[:, 1:]


@wrong("shift_target", "cut along the batch")
def first_and_last_row_cut(target):
    return target[:-1], target[1:]


@wrong("shift_target", "shifted by two")
def two_cut_off_each(target):
    return target[:, :-2], target[:, 2:]


@wrong("shift_target", "rolled round")
def labels_rolled(target):
    labels = torch.roll(target, shifts=-1, dims=1)
    return target, labels


@wrong("shift_target", "EOS taken out of the decoder's input")
def eos_replaced_by_padding(target):
    decoder_input = target[:, :-1].clone()
    decoder_input[decoder_input == EOS] = PAD
    return decoder_input, target[:, 1:]


@wrong("shift_target", "-100 for padding")
def labels_as_other_libraries_want_them(target):
    labels = target[:, 1:]
    labels = torch.where(labels == PAD, -100, labels)
    return target[:, :-1], labels


@wrong("shift_target", "an input changed in place", made="an input changed in place")
def eos_overwritten(target):
    decoder_input = target[:, :-1]
    decoder_input[decoder_input == EOS] = PAD
    return decoder_input, target[:, 1:]


@wrong("shift_target", "BOS left in the labels", "EOS taken out of the decoder's input")
def eos_replaced_and_labels_whole(target):
    decoder_input = target[:, :-1].masked_fill(target[:, :-1] == EOS, PAD)
    return decoder_input, target


@right("shift_target")
def all_but_the_last_and_all_but_the_first(target):
    decoder_input = target[:, :-1]
    labels = target[:, 1:]
    return decoder_input, labels


@right("shift_target")
def narrowed(target):
    T = target.size(1) - 1
    return target.narrow(1, 0, T), target.narrow(1, 1, T)


@right("shift_target")
def rolled_and_cut(target):
    return target[:, :-1], torch.roll(target, -1, dims=1)[:, :-1]


@right("shift_target")
def token_after_token(target):
    decoder_input, labels = torch.zeros_like(target[:, 1:]), torch.zeros_like(target[:, 1:])
    for t in range(target.size(1) - 1):
        decoder_input[:, t] = target[:, t]
        labels[:, t] = target[:, t + 1]
    return decoder_input, labels


@unnamed("shift_target")
def words_backwards(target):
    return target[:, :-1], target[:, 1:].flip(1)


@unnamed("shift_target")
def padding_becomes_eos(target):
    return target[:, :-1], target[:, 1:].masked_fill(target[:, 1:] == PAD, EOS)


# ---------------------------------------------------------------- find the bug in the translation loss


@given_bug("find_the_bug_in_translation_loss")
def cross_entropy_of_everything(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


@given_bug("find_the_bug_in_translation_loss")
def bos_ignored(logits, labels):
    return F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=BOS)


@given_bug("find_the_bug_in_translation_loss")
def mean_of_the_log_probabilities(logits, labels):
    log_p = torch.log_softmax(logits, dim=-1)
    return -log_p.gather(2, labels[..., None]).mean()


@wrong("find_the_bug_in_translation_loss", "divided by the number of all positions")
def masked_and_then_averaged(logits, labels):
    losses = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    losses = losses * (labels != PAD)
    return losses.mean()


@wrong("find_the_bug_in_translation_loss", "divided by the number of all positions")
def no_reduction_and_then_averaged(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD, reduction="none").mean()


@wrong("find_the_bug_in_translation_loss", "summed, not averaged")
def sum_over_the_tokens(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD, reduction="sum")


@wrong("find_the_bug_in_translation_loss", "summed, not averaged")
def step_by_step_and_added(logits, labels):
    loss = 0
    for t in range(labels.size(1)):
        loss = loss + F.cross_entropy(logits[:, t], labels[:, t], ignore_index=PAD)
    return loss


@wrong("find_the_bug_in_translation_loss", "averaged in two steps")
def step_by_step_and_averaged(logits, labels):
    T = labels.size(1)
    return sum(F.cross_entropy(logits[:, t], labels[:, t], ignore_index=PAD) for t in range(T)) / T


@wrong("find_the_bug_in_translation_loss", "averaged in two steps")
def sentence_by_sentence(logits, labels):
    losses = [F.cross_entropy(one, right, ignore_index=PAD) for one, right in zip(logits, labels, strict=True)]
    return torch.stack(losses).mean()


@wrong("find_the_bug_in_translation_loss", "softmax before cross_entropy")
def probabilities_for_logits(logits, labels):
    probabilities = F.softmax(logits, dim=-1)
    return F.cross_entropy(probabilities.flatten(0, 1), labels.flatten(), ignore_index=PAD)


@wrong("find_the_bug_in_translation_loss", "logarithm of a softmax")
def log_and_softmax_apart(logits, labels):
    log_p = torch.log(torch.softmax(logits, dim=-1))
    return F.nll_loss(log_p.flatten(0, 1), labels.flatten(), ignore_index=PAD)


@wrong("find_the_bug_in_translation_loss", "logarithm of a softmax")
def log_with_a_small_number(logits, labels):
    p = logits.softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    words = labels != PAD
    return -torch.log(p[words] + 1e-9).mean()


@wrong("find_the_bug_in_translation_loss", "no logarithm")
def nll_of_probabilities(logits, labels):
    return F.nll_loss(logits.softmax(-1).flatten(0, 1), labels.flatten(), ignore_index=PAD)


@wrong("find_the_bug_in_translation_loss", "logits taken for log-probabilities")
def nll_of_logits(logits, labels):
    return F.nll_loss(logits.transpose(1, 2), labels, ignore_index=PAD)


@wrong("find_the_bug_in_translation_loss", "classes on the wrong axis")
def not_transposed(logits, labels):
    return F.cross_entropy(logits, labels, ignore_index=PAD)


@wrong("find_the_bug_in_translation_loss", "logits and labels of different places")
def viewed_for_transposed(logits, labels):
    B, T, V = logits.shape
    return F.cross_entropy(logits.view(B, V, T), labels, ignore_index=PAD)


@wrong("find_the_bug_in_translation_loss", "logits and labels of different places")
def transposed_and_flattened(logits, labels):
    V = logits.size(-1)
    return F.cross_entropy(logits.permute(0, 2, 1).reshape(-1, V), labels.reshape(-1), ignore_index=PAD)


@wrong("find_the_bug_in_translation_loss", "logits and labels of different places")
def time_first_for_the_logits_alone(logits, labels):
    return F.cross_entropy(logits.transpose(0, 1).flatten(0, 1), labels.flatten(), ignore_index=PAD)


@wrong("find_the_bug_in_translation_loss", "EOS is not counted")
def eos_ignored(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=EOS)


@wrong("find_the_bug_in_translation_loss", "EOS is not counted")
def only_words_counted(logits, labels):
    words = labels > EOS
    return F.cross_entropy(logits[words], labels[words])


@wrong("find_the_bug_in_translation_loss", "shifted a second time")
def shifted_once_more(logits, labels):
    logits, labels = logits[:, :-1], labels[:, 1:]
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)


@wrong("find_the_bug_in_translation_loss", "a place is left out")
def first_place_cut(logits, labels):
    V = logits.shape[-1]
    return F.cross_entropy(logits[:, 1:].reshape(-1, V), labels[:, 1:].reshape(-1), ignore_index=PAD)


@wrong("find_the_bug_in_translation_loss", "accuracy instead of a loss")
def share_of_right_tokens(logits, labels):
    words = labels != PAD
    return (logits.argmax(-1) == labels)[words].float().mean()


@wrong("find_the_bug_in_translation_loss", "perplexity instead of the loss")
def perplexity(logits, labels):
    return torch.exp(F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD))


@wrong("find_the_bug_in_translation_loss", "gradient cut", made="gradient cut by detach")
def loss_as_a_new_tensor(logits, labels):
    return torch.tensor(F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD).item())


@wrong("find_the_bug_in_translation_loss", "softmax before cross_entropy", "padding is counted")
def probabilities_and_padding(logits, labels):
    return F.cross_entropy(logits.softmax(dim=-1).transpose(1, 2), labels)


@wrong("find_the_bug_in_translation_loss", "summed, not averaged", "EOS is not counted")
def sum_without_eos(logits, labels):
    return F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=EOS, reduction="sum")


@right("find_the_bug_in_translation_loss")
def padding_ignored(logits, labels):
    return F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=0)


@right("find_the_bug_in_translation_loss")
def words_picked_first(logits, labels):
    words = labels != PAD
    return F.cross_entropy(logits[words], labels[words])


@right("find_the_bug_in_translation_loss")
def sum_over_the_count(logits, labels):
    mask = (labels != PAD).float()
    losses = F.cross_entropy(logits.permute(0, 2, 1), labels, reduction="none")
    return (losses * mask).sum() / mask.sum()


@right("find_the_bug_in_translation_loss")
def padding_weighs_nothing(logits, labels):
    weight = torch.ones(logits.size(-1))
    weight[PAD] = 0
    return torch.nn.CrossEntropyLoss(weight=weight)(logits.reshape(-1, logits.size(-1)), labels.reshape(-1))


@right("find_the_bug_in_translation_loss")
def token_by_token_with_logsumexp(logits, labels):
    losses = []
    for b in range(labels.size(0)):
        for t in range(labels.size(1)):
            if labels[b, t] != PAD:
                losses.append(torch.logsumexp(logits[b, t], dim=0) - logits[b, t, labels[b, t]])
    return torch.stack(losses).mean()


@unnamed("find_the_bug_in_translation_loss")
def smoothed_labels(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD, label_smoothing=0.1)


@unnamed("find_the_bug_in_translation_loss")
def squared_distance(logits, labels):
    words = labels != PAD
    return F.mse_loss(logits.softmax(-1)[words], F.one_hot(labels, logits.size(-1))[words].float())


# ---------------------------------------------------------------- additive attention


@wrong("additive_attention", "no tanh", made="no tanh")
def sum_without_tanh(query, keys, W_q, W_k, v):
    scores = ((query @ W_q.T).unsqueeze(1) + keys @ W_k.T) @ v
    weights = torch.softmax(scores, dim=1)
    return torch.bmm(weights.unsqueeze(1), keys).squeeze(1), weights


@wrong("additive_attention", "tanh outside v", made="tanh outside v")
def tanh_of_the_score(query, keys, W_q, W_k, v):
    summed = F.linear(query, W_q)[:, None, :] + F.linear(keys, W_k)
    weights = F.softmax(torch.tanh(summed @ v), dim=-1)
    return torch.einsum("bt,btd->bd", weights, keys), weights


@wrong("additive_attention", "tanh outside v", made="tanh outside v")
def tanh_inside_and_outside(query, keys, W_q, W_k, v):
    hidden = torch.tanh(torch.einsum("hq,bq->bh", W_q, query)[:, None] + torch.einsum("hk,btk->bth", W_k, keys))
    weights = (hidden @ v).tanh().softmax(-1)
    return (weights[..., None] * keys).sum(1), weights


@wrong("additive_attention", "no v", made="no v")
def features_of_the_tanh_added(query, keys, W_q, W_k, v):
    hidden = torch.tanh((query @ W_q.T).unsqueeze(1) + keys @ W_k.T)
    weights = hidden.sum(dim=-1).softmax(dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("additive_attention", "query tiled in the wrong order", made="query tiled in the wrong order")
def repeated_and_viewed(query, keys, W_q, W_k, v):
    B, T_k, _ = keys.shape
    tiled = query.repeat(T_k, 1).view(B, T_k, -1)
    scores = torch.tanh(tiled @ W_q.T + keys @ W_k.T) @ v
    weights = scores.softmax(dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("additive_attention", "query tiled in the wrong order", made="query tiled in the wrong order")
def expanded_in_front_and_reshaped(query, keys, W_q, W_k, v):
    B, T_k, _ = keys.shape
    pairs = query.unsqueeze(0).expand(T_k, B, -1).reshape(B * T_k, -1)
    hidden = torch.tanh(F.linear(pairs, W_q) + F.linear(keys.reshape(B * T_k, -1), W_k))
    weights = torch.softmax((hidden @ v).view(B, T_k), dim=1)
    return torch.einsum("bt,btd->bd", weights, keys), weights


@wrong("additive_attention", "query without an axis for the keys")
def query_not_unsqueezed(query, keys, W_q, W_k, v):
    hidden = torch.tanh(query @ W_q.T + keys @ W_k.T)
    weights = torch.softmax(hidden @ v, dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("additive_attention", "context from the projected states", made="context from the projected states")
def context_of_projections(query, keys, W_q, W_k, v):
    keys = keys @ W_k.T
    hidden = torch.tanh((query @ W_q.T).unsqueeze(1) + keys)
    weights = torch.softmax(hidden @ v, dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("additive_attention", "W_q and W_k swapped", made="W_q and W_k swapped")
def matrices_exchanged(query, keys, W_q, W_k, v):
    hidden = torch.tanh((query @ W_k.T).unsqueeze(1) + keys @ W_q.T)
    weights = torch.softmax(hidden @ v, dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("additive_attention", "W_q and W_k swapped", made="W_q and W_k swapped")
def matrices_exchanged_with_einsum(query, keys, W_q, W_k, v):
    hidden = torch.tanh(torch.einsum("bi,hi->bh", query, W_k)[:, None] + torch.einsum("bti,hi->bth", keys, W_q))
    weights = torch.einsum("bth,h->bt", hidden, v).softmax(dim=-1)
    return torch.einsum("bt,btd->bd", weights, keys), weights


@wrong("additive_attention", "a matrix not transposed")
def no_transposes(query, keys, W_q, W_k, v):
    hidden = torch.tanh((query @ W_q).unsqueeze(1) + keys @ W_k)
    weights = torch.softmax(hidden @ v, dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong(
    "additive_attention",
    "a dot product instead of the additive score",
    made="a dot product where the additive score was asked",
)
def dot_product_of_the_projections(query, keys, W_q, W_k, v):
    q, k = query @ W_q.T, keys @ W_k.T
    weights = torch.softmax(torch.bmm(k, q.unsqueeze(2)).squeeze(2), dim=1)
    return torch.bmm(weights.unsqueeze(1), keys).squeeze(1), weights


@wrong(
    "additive_attention",
    "a dot product instead of the additive score",
    made="a dot product where the additive score was asked",
)
def plain_dot_product(query, keys, W_q, W_k, v):
    weights = torch.softmax((keys @ query.unsqueeze(-1)).squeeze(-1), dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("additive_attention", "the query is left out")
def keys_alone(query, keys, W_q, W_k, v):
    weights = torch.softmax(torch.tanh(keys @ W_k.T) @ v, dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("additive_attention", "scaled by a root")
def divided_by_the_root_of_hidden_dim(query, keys, W_q, W_k, v):
    scores = torch.tanh((query @ W_q.T).unsqueeze(1) + keys @ W_k.T) @ v
    weights = torch.softmax(scores / math.sqrt(v.numel()), dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("additive_attention", "uniform average", made="uniform average")
def mean_of_the_keys(query, keys, W_q, W_k, v):
    B, T_k, _ = keys.shape
    return keys.mean(dim=1), torch.ones(B, T_k) / T_k


@wrong("additive_attention", "last state only", made="last state only")
def the_last_key(query, keys, W_q, W_k, v):
    scores = torch.tanh((query @ W_q.T).unsqueeze(1) + keys @ W_k.T) @ v
    return keys[:, -1], scores.softmax(-1)


@wrong("additive_attention", "softmax over the batch")
def softmax_down_the_samples(query, keys, W_q, W_k, v):
    scores = torch.tanh((query @ W_q.T).unsqueeze(1) + keys @ W_k.T) @ v
    weights = torch.softmax(scores, dim=0)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("additive_attention", "exp without subtracting the maximum", made="exp without subtracting the maximum")
def softmax_by_hand(query, keys, W_q, W_k, v):
    exps = torch.exp(torch.tanh((query @ W_q.T).unsqueeze(1) + keys @ W_k.T) @ v)
    weights = exps / exps.sum(1, keepdim=True)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("additive_attention", "squeeze() without a dimension", made="squeeze() without a dimension")
def context_squeezed(query, keys, W_q, W_k, v):
    weights = torch.softmax(torch.tanh((query @ W_q.T).unsqueeze(1) + keys @ W_k.T) @ v, dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(), weights


@wrong("additive_attention", "squeeze() without a dimension", made="squeeze() without a dimension")
def scores_squeezed(query, keys, W_q, W_k, v):
    hidden = torch.tanh((query @ W_q.T).unsqueeze(1) + keys @ W_k.T)
    scores = (hidden @ v.unsqueeze(1)).squeeze()
    weights = F.softmax(scores, dim=-1)
    return torch.bmm(weights.unsqueeze(1), keys).squeeze(1), weights


@wrong("additive_attention", "no tanh", "context from the projected states")
def without_tanh_and_projected(query, keys, W_q, W_k, v):
    projected = keys @ W_k.T
    weights = torch.softmax(((query @ W_q.T)[:, None] + projected) @ v, dim=-1)
    return (weights.unsqueeze(1) @ projected).squeeze(1), weights


@wrong("additive_attention", "no v", "query tiled in the wrong order")
def tiled_wrongly_and_without_v(query, keys, W_q, W_k, v):
    B, T_k, _ = keys.shape
    tiled = query.repeat(T_k, 1).reshape(B, T_k, -1)
    weights = torch.tanh(tiled @ W_q.T + keys @ W_k.T).sum(-1).softmax(-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("additive_attention", "batch mixed")
def queries_averaged(query, keys, W_q, W_k, v):
    weights = torch.softmax(torch.tanh((query.mean(0) @ W_q.T) + keys @ W_k.T) @ v, dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@right("additive_attention")
def in_the_words_of_the_formula(query, keys, W_q, W_k, v):
    hidden = torch.tanh((query @ W_q.T).unsqueeze(1) + keys @ W_k.T)
    weights = torch.softmax(hidden @ v, dim=-1)
    context = (weights.unsqueeze(1) @ keys).squeeze(1)
    return context, weights


@right("additive_attention")
def with_einsum(query, keys, W_q, W_k, v):
    summed = torch.einsum("hq,bq->bh", W_q, query)[:, None] + torch.einsum("hk,btk->bth", W_k, keys)
    weights = torch.einsum("bth,h->bt", summed.tanh(), v).softmax(-1)
    return torch.einsum("bt,btk->bk", weights, keys), weights


@right("additive_attention")
def one_sample_and_one_key_at_a_time(query, keys, W_q, W_k, v):
    contexts, rows = [], []
    for q, sample in zip(query, keys, strict=True):
        row = torch.stack([v @ torch.tanh(W_q @ q + W_k @ k) for k in sample]).softmax(dim=0)
        rows.append(row)
        contexts.append(sum(weight * k for weight, k in zip(row, sample, strict=True)))
    return torch.stack(contexts), torch.stack(rows)


@right("additive_attention")
def tiled_by_repeat_interleave(query, keys, W_q, W_k, v):
    B, T_k, key_dim = keys.shape
    tiled = query.repeat_interleave(T_k, dim=0)
    hidden = torch.tanh(F.linear(tiled, W_q) + F.linear(keys.reshape(-1, key_dim), W_k))
    weights = F.softmax((hidden @ v).view(B, T_k), dim=1)
    return torch.bmm(weights.unsqueeze(1), keys).squeeze(1), weights


@right("additive_attention")
def one_matrix_for_both(query, keys, W_q, W_k, v):
    pairs = torch.cat([query.unsqueeze(1).repeat(1, keys.size(1), 1), keys], dim=-1)
    scores = torch.tanh(pairs @ torch.cat([W_q, W_k], dim=1).T) @ v
    weights = scores.softmax(dim=-1)
    return (weights.unsqueeze(-1) * keys).sum(dim=1), weights


@unnamed("additive_attention")
def relu_for_tanh(query, keys, W_q, W_k, v):
    weights = torch.softmax(torch.relu((query @ W_q.T).unsqueeze(1) + keys @ W_k.T) @ v, dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@unnamed("additive_attention")
def query_taken_off(query, keys, W_q, W_k, v):
    weights = torch.softmax(torch.tanh(keys @ W_k.T - (query @ W_q.T).unsqueeze(1)) @ v, dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


# ---------------------------------------------------------------- Luong's scores


def concat_score(query, keys, W, v):
    pairs = torch.cat([query.unsqueeze(1).expand(-1, keys.size(1), -1), keys], dim=-1)
    return torch.tanh(pairs @ W.T) @ v


@wrong("luong_score", "divided by a root")
def dot_and_general_scaled(query, keys, score, W=None, v=None):
    if score == "concat":
        return concat_score(query, keys, W, v)
    keys = keys @ W.T if score == "general" else keys
    return torch.einsum("bd,btd->bt", query, keys) / math.sqrt(query.size(-1))


@wrong("luong_score", "W transposed")
def matrix_on_the_wrong_side(query, keys, score, W=None, v=None):
    if score == "dot":
        return torch.bmm(keys, query.unsqueeze(2)).squeeze(2)
    if score == "general":
        return torch.bmm(keys @ W, query.unsqueeze(2)).squeeze(2)
    return concat_score(query, keys, W, v)


@wrong("luong_score", "W transposed")
def query_times_the_transpose(query, keys, score, W=None, v=None):
    if score == "concat":
        return concat_score(query, keys, W, v)
    if score == "general":
        query = query @ W.T
    return torch.einsum("bd,btd->bt", query, keys)


@wrong("luong_score", "W left out of general")
def dot_for_general_too(query, keys, score, W=None, v=None):
    if score == "concat":
        return concat_score(query, keys, W, v)
    return (keys @ query.unsqueeze(-1)).squeeze(-1)


@wrong("luong_score", "general instead of dot")
def matrix_wherever_there_is_one(query, keys, score, W=None, v=None):
    if score == "concat":
        return concat_score(query, keys, W, v)
    if W is not None:
        keys = keys @ W.T
    return (keys @ query.unsqueeze(-1)).squeeze(-1)


@wrong("luong_score", "general instead of dot")
def general_unless_concat(query, keys, score, W=None, v=None):
    if score == "concat":
        return concat_score(query, keys, W, v)
    return torch.einsum("bq,qk,btk->bt", query, W, keys)


@wrong("luong_score", "concat in the order [k; q]")
def key_before_query(query, keys, score, W=None, v=None):
    if score == "dot":
        return (query.unsqueeze(1) * keys).sum(-1)
    if score == "general":
        return (query.unsqueeze(1) * F.linear(keys, W)).sum(-1)
    tiled = query[:, None].expand(query.size(0), keys.size(1), query.size(1))
    return F.linear(torch.cat((keys, tiled), dim=2), W).tanh() @ v


@wrong("luong_score", "no tanh", made="no tanh")
def concat_without_tanh(query, keys, score, W=None, v=None):
    if score != "concat":
        return ((keys if score == "dot" else keys @ W.T) @ query.unsqueeze(-1)).squeeze(-1)
    pairs = torch.cat([query.unsqueeze(1).repeat(1, keys.size(1), 1), keys], dim=-1)
    return pairs @ W.T @ v


@wrong("luong_score", "tanh outside v", made="tanh outside v")
def concat_with_tanh_of_the_score(query, keys, score, W=None, v=None):
    if score != "concat":
        return ((keys if score == "dot" else keys @ W.T) @ query.unsqueeze(-1)).squeeze(-1)
    pairs = torch.cat([query.unsqueeze(1).repeat(1, keys.size(1), 1), keys], dim=-1)
    return torch.tanh(pairs @ W.T @ v)


@wrong("luong_score", "no v", made="no v")
def concat_added_up(query, keys, score, W=None, v=None):
    if score != "concat":
        return ((keys if score == "dot" else keys @ W.T) @ query.unsqueeze(-1)).squeeze(-1)
    pairs = torch.cat([query.unsqueeze(1).repeat(1, keys.size(1), 1), keys], dim=-1)
    return torch.tanh(pairs @ W.T).sum(dim=-1)


@wrong("luong_score", "query tiled in the wrong order", made="query tiled in the wrong order")
def concat_repeated_and_viewed(query, keys, score, W=None, v=None):
    B, T_k, key_dim = keys.shape
    if score != "concat":
        return ((keys if score == "dot" else keys @ W.T) @ query.unsqueeze(-1)).squeeze(-1)
    pairs = torch.cat([query.repeat(T_k, 1), keys.reshape(B * T_k, key_dim)], dim=1)
    return (torch.tanh(F.linear(pairs, W)) @ v).view(B, T_k)


@wrong("luong_score", "a dot product instead of concat", made="a dot product where the additive score was asked")
def dot_for_concat(query, keys, score, W=None, v=None):
    projected = keys @ W.T if score == "general" else keys
    return torch.einsum("bd,btd->bt", query, projected)


@wrong("luong_score", "concat instead of a dot product", made="the additive score where a dot product was asked")
def added_in_general(query, keys, score, W=None, v=None):
    if score == "dot":
        return (keys @ query.unsqueeze(-1)).squeeze(-1)
    if score == "general":
        return torch.tanh(query[:, None, :] + keys @ W.T).sum(dim=-1)
    return concat_score(query, keys, W, v)


@wrong("luong_score", "concat instead of a dot product", made="the additive score where a dot product was asked")
def added_in_dot_and_general(query, keys, score, W=None, v=None):
    if score == "concat":
        return concat_score(query, keys, W, v)
    projected = keys if score == "dot" else torch.einsum("qk,btk->btq", W, keys)
    return (query.unsqueeze(1) + projected).tanh().sum(2)


@wrong("luong_score", "query without an axis for the keys")
def every_query_with_all_keys(query, keys, score, W=None, v=None):
    if score == "dot":
        return query @ keys.transpose(1, 2)
    if score == "general":
        return query @ (keys @ W.T).transpose(1, 2)
    return concat_score(query, keys, W, v)


@wrong("luong_score", "query without an axis for the keys")
def multiplied_without_an_axis(query, keys, score, W=None, v=None):
    if score == "dot":
        return (query * keys).sum(dim=-1)
    if score == "general":
        return torch.sum(query * F.linear(keys, W), dim=-1)
    return concat_score(query, keys, W, v)


@wrong("luong_score", "softmax taken already")
def weights_for_scores(query, keys, score, W=None, v=None):
    if score == "concat":
        scores = concat_score(query, keys, W, v)
    else:
        scores = ((keys if score == "dot" else keys @ W.T) @ query.unsqueeze(-1)).squeeze(-1)
    return torch.softmax(scores, dim=-1)


@wrong("luong_score", "squeeze() without a dimension", made="squeeze() without a dimension")
def products_squeezed(query, keys, score, W=None, v=None):
    if score == "concat":
        return concat_score(query, keys, W, v)
    return torch.bmm(keys if score == "dot" else keys @ W.T, query.unsqueeze(2)).squeeze()


@wrong("luong_score", "no tanh", "W left out of general")
def concat_without_tanh_and_general_without_w(query, keys, score, W=None, v=None):
    if score == "concat":
        pairs = torch.cat([query.unsqueeze(1).expand(-1, keys.size(1), -1), keys], dim=-1)
        return (pairs @ W.T) @ v
    return torch.einsum("bd,btd->bt", query, keys)


@wrong("luong_score", "concat in the order [k; q]", "no v")
def key_before_query_added_up(query, keys, score, W=None, v=None):
    if score != "concat":
        return torch.einsum("bd,btd->bt", query, keys if score == "dot" else keys @ W.T)
    pairs = torch.cat([keys, query.unsqueeze(1).expand(-1, keys.size(1), -1)], dim=-1)
    return torch.tanh(pairs @ W.T).sum(-1)


@right("luong_score")
def all_three_with_matmul(query, keys, score, W=None, v=None):
    if score == "dot":
        return (keys @ query.unsqueeze(-1)).squeeze(-1)
    if score == "general":
        return (keys @ W.T @ query.unsqueeze(-1)).squeeze(-1)
    return concat_score(query, keys, W, v)


@right("luong_score")
def all_three_with_einsum(query, keys, score, W=None, v=None):
    if score == "dot":
        return torch.einsum("bd,btd->bt", query, keys)
    if score == "general":
        return torch.einsum("bq,qk,btk->bt", query, W, keys)
    W_q, W_k = W.split([query.size(-1), keys.size(-1)], dim=1)
    return torch.tanh((query @ W_q.T)[:, None] + keys @ W_k.T) @ v


@right("luong_score")
def one_pair_at_a_time(query, keys, score, W=None, v=None):
    formula = {
        "dot": lambda q, k: q.dot(k),
        "general": lambda q, k: q @ (W @ k),
        "concat": lambda q, k: v @ torch.tanh(W @ torch.cat([q, k])),
    }[score]
    return torch.stack([torch.stack([formula(q, k) for k in sample]) for q, sample in zip(query, keys, strict=True)])


@right("luong_score")
def query_brought_to_the_keys(query, keys, score, W=None, v=None):
    if score == "concat":
        return torch.tanh(F.linear(torch.cat([query[:, None].repeat(1, keys.shape[1], 1), keys], -1), W)).matmul(v)
    query = query @ W if score == "general" else query
    return torch.bmm(query.unsqueeze(1), keys.transpose(1, 2)).squeeze(1)


@unnamed("luong_score")
def cosine_of_the_angle(query, keys, score, W=None, v=None):
    if score == "concat":
        return concat_score(query, keys, W, v)
    keys = keys if score == "dot" else keys @ W.T
    return F.cosine_similarity(query.unsqueeze(1), keys, dim=-1)


@unnamed("luong_score")
def concat_with_a_sigmoid(query, keys, score, W=None, v=None):
    if score != "concat":
        return torch.einsum("bd,btd->bt", query, keys if score == "dot" else keys @ W.T)
    pairs = torch.cat([query.unsqueeze(1).expand(-1, keys.size(1), -1), keys], dim=-1)
    return torch.sigmoid(pairs @ W.T) @ v


# ---------------------------------------------------------------- align


@wrong("align", "padding attended", made="padding attended")
def lengths_not_used(scores, keys, lengths):
    weights = torch.softmax(scores, dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("align", "padding attended", made="padding attended")
def filled_and_thrown_away(scores, keys, lengths):
    mask = torch.arange(scores.size(1))[None, :] >= lengths[:, None]
    scores.masked_fill(mask, float("-inf"))
    weights = F.softmax(scores, dim=1)
    return torch.einsum("bt,btd->bd", weights, keys), weights


@wrong("align", "zeroed after the softmax, not renormalised", made="applied after the softmax")
def padding_zeroed_late(scores, keys, lengths):
    is_word = torch.arange(scores.size(1)) < lengths.unsqueeze(1)
    weights = torch.softmax(scores, dim=-1) * is_word
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("align", "zeroed after the softmax, then renormalised")
def padding_zeroed_late_and_divided(scores, keys, lengths):
    is_word = torch.arange(scores.size(1)) < lengths.unsqueeze(1)
    weights = torch.softmax(scores, dim=-1) * is_word
    weights = weights / weights.sum(dim=1, keepdim=True)
    return torch.bmm(weights.unsqueeze(1), keys).squeeze(1), weights


@wrong("align", "scores at padding set to 0", made="filled with 0")
def filled_with_zero(scores, keys, lengths):
    is_word = torch.arange(scores.size(1)) < lengths.unsqueeze(1)
    weights = torch.softmax(torch.where(is_word, scores, 0.0), dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("align", "scores at padding set to 0", made="multiplied")
def scores_times_the_mask(scores, keys, lengths):
    mask = (torch.arange(scores.size(1)) < lengths[:, None]).float()
    weights = (scores * mask).softmax(-1)
    return (weights.unsqueeze(-1) * keys).sum(1), weights


@wrong("align", "inverted", made="inverted")
def words_filled(scores, keys, lengths):
    is_word = torch.arange(scores.size(1)) < lengths.unsqueeze(1)
    weights = torch.softmax(scores.masked_fill(is_word, float("-inf")), dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("align", "inverted", made="inverted")
def words_filled_with_a_billion_below(scores, keys, lengths):
    mask = torch.arange(scores.size(1)) < lengths.unsqueeze(1)
    weights = torch.softmax(torch.where(mask, -1e9, scores), dim=-1)
    return torch.einsum("bt,btd->bd", weights, keys), weights


@wrong("align", "one word too many")
def up_to_and_with_the_length(scores, keys, lengths):
    is_word = torch.arange(scores.size(1)) <= lengths.unsqueeze(1)
    weights = torch.softmax(scores.masked_fill(~is_word, -1e9), dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("align", "one word too few")
def last_word_cut(scores, keys, lengths):
    scores = scores.clone()
    for b, length in enumerate(lengths.tolist()):
        scores[b, length - 1 :] = float("-inf")
    weights = torch.softmax(scores, dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("align", "fill not low enough", made="a fill of -10")
def ten_below_zero(scores, keys, lengths):
    is_word = torch.arange(scores.size(1)) < lengths.unsqueeze(1)
    weights = torch.softmax(scores.masked_fill(~is_word, -10.0), dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("align", "fill not low enough", made="a fill of -1e4")
def ten_thousand_taken_off(scores, keys, lengths):
    mask = (torch.arange(scores.size(1)) >= lengths[:, None]).float()
    weights = F.softmax(scores - 1e4 * mask, dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("align", "lengths along the wrong axis", made="(B, T_k) broadcast by accident")
def lengths_as_they_are(scores, keys, lengths):
    is_word = torch.arange(scores.size(1)) < lengths
    weights = torch.softmax(scores.masked_fill(~is_word, float("-inf")), dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("align", "lengths along the wrong axis")
def positions_down_and_samples_across(scores, keys, lengths):
    is_word = torch.arange(scores.size(1)).unsqueeze(1) < lengths
    weights = torch.softmax(torch.where(is_word, scores, float("-inf")), dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("align", "one length for all")
def cut_at_the_first_length(scores, keys, lengths):
    scores = scores.clone()
    scores[:, lengths[0] :] = float("-inf")
    weights = torch.softmax(scores, dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("align", "one length for all")
def cut_at_the_longest(scores, keys, lengths):
    blocked = torch.arange(scores.size(1)) >= lengths.max()
    weights = torch.softmax(scores.masked_fill(blocked, -1e9), dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("align", "the keys are masked, not the scores", made="padding attended")
def keys_at_padding_zeroed(scores, keys, lengths):
    is_word = torch.arange(scores.size(1)) < lengths.unsqueeze(1)
    weights = torch.softmax(scores, dim=-1)
    keys = keys.masked_fill(~is_word.unsqueeze(2), 0.0)
    return torch.bmm(weights.unsqueeze(1), keys).squeeze(1), weights


@wrong("align", "0 times -inf", made="0 times -inf")
def infinity_times_the_mask(scores, keys, lengths):
    padding = (torch.arange(scores.size(1)) >= lengths.unsqueeze(1)).float()
    weights = torch.softmax(scores + padding * -math.inf, dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("align", "uniform average", made="uniform average")
def mean_over_the_words(scores, keys, lengths):
    is_word = torch.arange(scores.size(1)) < lengths.unsqueeze(1)
    weights = torch.softmax(scores.masked_fill(~is_word, float("-inf")), dim=-1)
    context = (keys * is_word[..., None]).sum(1) / is_word.sum(1, keepdim=True)
    return context, weights


@wrong("align", "uniform average", made="uniform average")
def equal_weights_for_the_words(scores, keys, lengths):
    is_word = (torch.arange(scores.size(1)) < lengths.unsqueeze(1)).float()
    weights = is_word / lengths.unsqueeze(1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("align", "last state only", made="last state only")
def key_of_the_last_word(scores, keys, lengths):
    is_word = torch.arange(scores.size(1)) < lengths.unsqueeze(1)
    weights = torch.softmax(scores.masked_fill(~is_word, float("-inf")), dim=-1)
    return keys[range(len(keys)), lengths - 1], weights


@wrong("align", "softmax over the batch", made="softmax over the batch")
def softmax_along_the_samples(scores, keys, lengths):
    is_word = torch.arange(scores.size(1)) < lengths.unsqueeze(1)
    weights = torch.softmax(scores.masked_fill(~is_word, -1e9), dim=0)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("align", "exp without subtracting the maximum", made="exp without subtracting the maximum")
def exps_of_the_words_shared_out(scores, keys, lengths):
    is_word = torch.arange(scores.size(1)) < lengths.unsqueeze(1)
    exps = scores.exp() * is_word
    weights = exps / exps.sum(dim=-1, keepdim=True)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("align", "an input changed in place", made="an input changed in place")
def scores_filled_in_place(scores, keys, lengths):
    is_word = torch.arange(scores.size(1)) < lengths.unsqueeze(1)
    scores.data[~is_word] = float("-inf")
    weights = torch.softmax(scores, dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("align", "one word too many", "scores at padding set to 0")
def one_too_many_and_zero(scores, keys, lengths):
    is_word = torch.arange(scores.size(1)) <= lengths.unsqueeze(1)
    weights = torch.softmax(scores * is_word, dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("align", "one length for all", "zeroed after the softmax, not renormalised")
def first_length_after_the_softmax(scores, keys, lengths):
    weights = torch.softmax(scores, dim=-1) * (torch.arange(scores.size(1)) < lengths[0])
    return torch.einsum("bt,btd->bd", weights, keys), weights


@right("align")
def minus_infinity_at_padding_of_the_scores(scores, keys, lengths):
    is_word = torch.arange(scores.size(1)) < lengths.unsqueeze(1)
    weights = torch.softmax(scores.masked_fill(~is_word, float("-inf")), dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@right("align")
def a_billion_below(scores, keys, lengths):
    mask = torch.arange(scores.shape[1]).expand(len(scores), -1) < lengths.view(-1, 1)
    weights = F.softmax(torch.where(mask, scores, -1e9), dim=1)
    return torch.einsum("bt,btd->bd", weights, keys), weights


@right("align")
def one_sentence_after_the_other(scores, keys, lengths):
    weights = torch.zeros_like(scores)
    for b, length in enumerate(lengths.tolist()):
        weights[b, :length] = scores[b, :length].softmax(dim=0)
    return torch.stack([weights[b] @ keys[b] for b in range(len(keys))]), weights


@right("align")
def boolean_triangle(scores, keys, lengths):
    T_k = scores.size(1)
    is_word = torch.ones(T_k, T_k).tril().bool()[lengths - 1]
    weights = torch.softmax(scores + torch.zeros_like(scores).masked_fill(~is_word, -torch.inf), dim=-1)
    return (weights[:, :, None] * keys).sum(dim=1), weights


@unnamed("align")
def at_twice_the_temperature(scores, keys, lengths):
    is_word = torch.arange(scores.size(1)) < lengths.unsqueeze(1)
    weights = torch.softmax((scores / 2).masked_fill(~is_word, float("-inf")), dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@unnamed("align")
def first_word_left_out(scores, keys, lengths):
    positions = torch.arange(scores.size(1))
    is_word = (positions > 0) & (positions < lengths.unsqueeze(1))
    weights = torch.softmax(scores.masked_fill(~is_word, float("-inf")), dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


# ---------------------------------------------------------------- find the bug in Bahdanau's step


@given_bug("find_the_bug_in_bahdanau_step", made="current state where Bahdanau uses the previous one")
def moves_and_then_looks(embedded, state, keys, cell, attention):
    nothing = torch.zeros_like(keys[:, 0])
    new_state = cell(torch.cat([embedded, nothing], dim=-1), state)
    context, weights = attention(new_state, keys)
    new_state = cell(torch.cat([embedded, context], dim=-1), state)
    return new_state, context, weights


@given_bug("find_the_bug_in_bahdanau_step", made="current state where Bahdanau uses the previous one")
def moves_looks_and_moves_on(embedded, state, keys, cell, attention):
    state = cell(torch.cat([embedded, torch.zeros(len(keys), keys.size(2))], dim=1), state)
    context, weights = attention(state, keys)
    state = cell(torch.cat([embedded, context], dim=1), state)
    return state, context, weights


@given_bug("find_the_bug_in_bahdanau_step", made="current state where Bahdanau uses the previous one")
def looks_once_more_at_the_end(embedded, state, keys, cell, attention):
    context, _ = attention(state, keys)
    state = cell(torch.cat([embedded, context], dim=-1), state)
    context, weights = attention(state, keys)
    return state, context, weights


@wrong("find_the_bug_in_bahdanau_step", "the token asks")
def embedding_asks(embedded, state, keys, cell, attention):
    context, weights = attention(embedded, keys)
    return cell(torch.cat([embedded, context], dim=-1), state), context, weights


@wrong("find_the_bug_in_bahdanau_step", "only one of the two goes into the cell")
def context_not_fed(embedded, state, keys, cell, attention):
    context, weights = attention(state, keys)
    state = cell(embedded, state)
    return state, context, weights


@wrong("find_the_bug_in_bahdanau_step", "only one of the two goes into the cell")
def zeros_fed_for_the_context(embedded, state, keys, cell, attention):
    context, weights = attention(state, keys)
    state = cell(F.pad(embedded, (0, keys.size(-1))), state)
    return state, context, weights


@wrong("find_the_bug_in_bahdanau_step", "only one of the two goes into the cell")
def embedding_not_fed(embedded, state, keys, cell, attention):
    context, weights = attention(state, keys)
    return cell(context, state), context, weights


@wrong("find_the_bug_in_bahdanau_step", "context before embedding")
def context_put_first(embedded, state, keys, cell, attention):
    context, weights = attention(state, keys)
    state = cell(torch.hstack([context, embedded]), state)
    return state, context, weights


@wrong("find_the_bug_in_bahdanau_step", "the old state is returned")
def new_state_forgotten(embedded, state, keys, cell, attention):
    context, weights = attention(state, keys)
    new_state = cell(torch.cat([embedded, context], dim=-1), state)  # noqa: F841
    return state, context, weights


@wrong("find_the_bug_in_bahdanau_step", "uniform average", made="uniform average")
def keys_averaged(embedded, state, keys, cell, attention):
    _, weights = attention(state, keys)
    context = keys.mean(1)
    return cell(torch.cat([embedded, context], dim=-1), state), context, weights


@wrong("find_the_bug_in_bahdanau_step", "last state only", made="last state only")
def last_key_taken(embedded, state, keys, cell, attention):
    context, weights = attention(state, keys)
    context = keys[:, -1, :]
    state = cell(torch.cat([embedded, context], dim=-1), state)
    return state, context, weights


@wrong("find_the_bug_in_bahdanau_step", "context before embedding", "the token asks")
def embedding_asks_and_comes_last(embedded, state, keys, cell, attention):
    context, weights = attention(embedded, keys)
    return cell(torch.cat([context, embedded], dim=-1), state), context, weights


@wrong("find_the_bug_in_bahdanau_step", "the current state asks", "context before embedding")
def looks_once_more_and_context_first(embedded, state, keys, cell, attention):
    context, _ = attention(state, keys)
    state = cell(torch.cat([context, embedded], dim=-1), state)
    return state, *attention(state, keys)


@right("find_the_bug_in_bahdanau_step")
def looks_and_then_moves(embedded, state, keys, cell, attention):
    context, weights = attention(state, keys)
    new_state = cell(torch.cat([embedded, context], dim=-1), state)
    return new_state, context, weights


@right("find_the_bug_in_bahdanau_step")
def looks_and_then_moves_in_few_words(embedded, state, keys, cell, attention):
    found = attention(state, keys)
    return [cell(torch.hstack((embedded, found[0])), state), *found]


@right("find_the_bug_in_bahdanau_step")
def room_made_first(embedded, state, keys, cell, attention):
    inputs = torch.empty(len(embedded), embedded.size(1) + keys.size(2))
    context, weights = attention(query=state, keys=keys)
    inputs[:, : embedded.size(1)] = embedded
    inputs[:, embedded.size(1) :] = context
    return cell(inputs, state), context, weights


@unnamed("find_the_bug_in_bahdanau_step")
def moved_twice_with_the_same_context(embedded, state, keys, cell, attention):
    context, weights = attention(state, keys)
    inputs = torch.cat([embedded, context], dim=-1)
    return cell(inputs, cell(inputs, state)), context, weights


@unnamed("find_the_bug_in_bahdanau_step")
def state_added_to_the_old_one(embedded, state, keys, cell, attention):
    context, weights = attention(state, keys)
    return state + cell(torch.cat([embedded, context], dim=-1), state), context, weights


# ---------------------------------------------------------------- Luong's step


@wrong("luong_step", "the previous state asks", made="previous state where Luong uses the current one")
def looks_before_it_moves(embedded, state, keys, cell, attention):
    context, weights = attention(state, keys)
    state = cell(embedded, state)
    return state, context, weights


@wrong("luong_step", "the previous state asks", made="previous state where Luong uses the current one")
def asks_with_the_old_name(embedded, state, keys, cell, attention):
    new_state = cell(embedded, state)
    context, weights = attention(state, keys)
    return new_state, context, weights


@wrong("luong_step", "the context goes into the cell", made="previous state where Luong uses the current one")
def as_bahdanau(embedded, state, keys, cell, attention):
    context, weights = attention(state, keys)
    state = cell(torch.cat([embedded, context], dim=-1), state)
    return state, context, weights


@wrong("luong_step", "the token asks")
def word_asks(embedded, state, keys, cell, attention):
    state = cell(embedded, state)
    return state, *attention(embedded, keys)


@wrong("luong_step", "the old state is returned")
def moved_state_thrown_away(embedded, state, keys, cell, attention):
    context, weights = attention(cell(embedded, state), keys)
    return state, context, weights


@wrong("luong_step", "moved twice")
def cell_called_once_too_often(embedded, state, keys, cell, attention):
    state = cell(embedded, state)
    state = cell(embedded, state)
    context, weights = attention(state, keys)
    return state, context, weights


@wrong("luong_step", "uniform average", made="uniform average")
def weights_shown_but_not_used(embedded, state, keys, cell, attention):
    state = cell(embedded, state)
    _, weights = attention(state, keys)
    return state, keys.mean(dim=1), weights


@wrong("luong_step", "last state only", made="last state only")
def no_attention_at_all(embedded, state, keys, cell, attention):
    state = cell(embedded, state)
    weights = F.one_hot(torch.full((len(keys),), keys.size(1) - 1), keys.size(1)).float()
    return state, keys[:, -1], weights


@wrong("luong_step", "the previous state asks", "moved twice")
def looks_first_and_moves_twice(embedded, state, keys, cell, attention):
    context, weights = attention(state, keys)
    return cell(embedded, cell(embedded, state)), context, weights


@right("luong_step")
def moves_first(embedded, state, keys, cell, attention):
    state = cell(embedded, state)
    context, weights = attention(state, keys)
    return state, context, weights


@right("luong_step")
def moves_first_in_few_words(embedded, state, keys, cell, attention):
    return (new := cell(embedded, state), *attention(new, keys))


@unnamed("luong_step")
def half_of_the_new_state_asks(embedded, state, keys, cell, attention):
    new = cell(embedded, state)
    return new, *attention((state + new) / 2, keys)


@unnamed("luong_step")
def cell_not_used(embedded, state, keys, cell, attention):
    new = torch.tanh(state)
    return new, *attention(new, keys)


# ---------------------------------------------------------------- three mistakes at once


@three("additive_attention", "no tanh", "no v", "context from the projected states")
def without_tanh_and_v_and_projected(query, keys, W_q, W_k, v):
    projected = keys @ W_k.T
    weights = ((query @ W_q.T)[:, None] + projected).sum(-1).softmax(-1)
    return (weights.unsqueeze(1) @ projected).squeeze(1), weights


@three("align", "one word too few", "scores at padding set to 0", "last state only")
def too_few_zeros_and_the_last(scores, keys, lengths):
    is_word = torch.arange(scores.size(1)) < lengths.unsqueeze(1) - 1
    return keys[:, -1], torch.softmax(scores * is_word, dim=-1)


@three("find_the_bug_in_translation_loss", "summed, not averaged", "softmax before cross_entropy", "in bits")
def bits_of_probabilities_added_up(logits, labels):
    return F.cross_entropy(logits.softmax(-1).mT, labels, ignore_index=PAD, reduction="sum") / math.log(2)


@three("luong_step", "moved twice", "the old state is returned", "uniform average")
def stands_still_after_two_moves(embedded, state, keys, cell, attention):
    _, weights = attention(cell(embedded, cell(embedded, state)), keys)
    return state, keys.mean(1), weights
