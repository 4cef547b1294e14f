"""Exercises of lesson 06: attention to another sequence, its mask, and the layer of a decoder."""

from dataclasses import replace

import torch
import torch.nn.functional as F

from utils.cross_attention import cross_attention, decoder_layer, encode_then_look
from utils.exercises.exercise import Exercise, Mistake, Probe
from utils.exercises.multi_head import MULTI_HEAD_MISTAKES
from utils.exercises.self_attention import (
    SELF_ATTENTION_MISTAKES,
    first_tokens,
    fixed_attention,
    named,
    ones,
    random_tensor,
    zeros_for_padding,
)
from utils.exercises.steps import keep
from utils.masks import create_causal_mask


def cross_attention_by_steps(changes, x, memory, attend, is_target, is_source):
    """`cross_attention`, one step a name, with some of its steps changed."""
    step = {
        "memory": keep,
        "inputs": lambda x, memory: (x, memory, memory),
        "real": lambda is_target, is_source: is_source,
        "place": lambda real, is_target: real.unsqueeze(1),  # (B, 1, S)
        "causal": keep,
        "mask": keep,
        "output": lambda output, x, is_target: output,
        "weights": lambda weights, mask: weights,
        "returned": lambda output, weights: (output, weights),
        **changes,
    }
    mask = step["place"](step["real"](is_target, is_source), is_target)
    mask = step["causal"](mask, x.size(1), memory.size(1))
    inputs = step["inputs"](x, step["memory"](memory, is_source))
    output, weights = attend(*inputs, step["mask"](mask))
    return step["returned"](step["output"](output, x, is_target), step["weights"](weights, mask))


PARTS = {"self": "the self-attention", "cross": "the cross-attention", "feed": "the feed-forward layer"}


def decoder_by_steps(changes, x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    """`decoder_layer`, one step a name, with some of its steps changed; `xs` is x after each part so far."""
    step = {
        "order": lambda: ("self", "cross", "feed"),
        "attentions": lambda self_attend, cross_attend: (self_attend, cross_attend),
        "memory": lambda norm, memory: memory,
        "self_inputs": lambda asks, xs: (asks, asks, asks),
        "causal_mask": lambda T, is_source: create_causal_mask(T),
        "cross_inputs": lambda asks, memory: (asks, memory, memory),
        "source_mask": lambda is_source: is_source.unsqueeze(1),  # (B, 1, S)
        "on_source": lambda mask, T, S: mask,
        **{f"{part}_norm": lambda norm, xs: norm(xs[-1]) for part in PARTS},
        **{f"{part}_added": lambda norm, xs, asks, found: xs[-1] + found for part in PARTS},
        "output": lambda norm, x: x,
        "returned": lambda output, causal, cross: (output, causal, cross),
        **changes,
    }
    T, S, xs, weights = x.size(1), memory.size(1), [x], {}
    self_attend, cross_attend = step["attentions"](self_attend, cross_attend)
    memory, causal_mask = step["memory"](norm, memory), step["causal_mask"](T, is_source)
    source_mask = step["on_source"](step["source_mask"](is_source), T, S)
    layers = {
        "self": lambda asks: self_attend(*step["self_inputs"](asks, xs), causal_mask),
        "cross": lambda asks: cross_attend(*step["cross_inputs"](asks, memory), source_mask),
        "feed": lambda asks: (feed_forward(asks), None),
    }
    for part in step["order"]():
        asks = step[f"{part}_norm"](norm, xs)
        found, weights[part] = layers[part](asks)
        xs.append(step[f"{part}_added"](norm, xs, asks, found))
    return step["returned"](step["output"](norm, xs[-1]), weights["self"], weights["cross"])


def encode_by_steps(changes, x, source, is_source, self_attend, cross_attend):
    """`encode_then_look`, one step a name, with some of its steps changed."""
    step = {
        "source": keep,
        "encoder_mask": lambda is_source: is_source.unsqueeze(1),  # (B, 1, S)
        "memory": lambda found, source: found,
        "inputs": lambda x, memory, source: (x, memory, memory),
        "cross_mask": lambda is_source, T: is_source.unsqueeze(1),
        "output": lambda output, x, is_source: output,
        "returned": lambda output, weights: (output, weights),
        "weights": lambda cross_weights, encoder_weights: cross_weights,
        **changes,
    }
    source = step["source"](source, is_source)
    found, encoder_weights = self_attend(source, source, source, step["encoder_mask"](is_source))
    inputs = step["inputs"](x, step["memory"](found, source), source)
    output, weights = cross_attend(*inputs, step["cross_mask"](is_source, x.size(1)))
    return step["returned"](step["output"](output, x, is_source), step["weights"](weights, encoder_weights))


def _all_allowed(real, *unused):
    return torch.ones_like(real).unsqueeze(1)


def _top_left(T, S):
    return torch.ones(T, S, dtype=torch.bool).tril()


def _target(is_target, is_source):
    return is_target


CROSS_ATTENTION_MISTAKES = (
    Mistake(
        "the source's padding not masked",
        "Padding of the source is looked at. Where does your function use `is_source`?",
        ({"mask": lambda mask: None}, {"place": _all_allowed}),
    ),
    Mistake(
        "the source asks, the target answers",
        "Your weights have a row for each token of the source. Which of the two sequences wants to know something, and "
        "how many rows must come out?",
        (
            {"inputs": lambda x, memory: (memory, x, x)},
            {"inputs": lambda x, memory: (memory, x, x), "real": _target},
        ),
    ),
    Mistake(
        "keys and values from x",
        "Queries, keys and values are all of the target: that is self-attention. Which two of them must come from the "
        "source?",
        (
            {"inputs": lambda x, memory: (x, x, x)},
            {"inputs": lambda x, memory: (x, x, x), "real": _target},
        ),
    ),
    Mistake(
        "keys from x",
        "Your values are of the source, but they are found by keys of the target. Which sequence must each key and its "
        "value come from?",
        ({"inputs": lambda x, memory: (x, x, memory)},),
    ),
    Mistake(
        "values from x",
        "You look for the right token of the source and bring back one of the target. Which sequence must each key and "
        "its value come from?",
        ({"inputs": lambda x, memory: (x, memory, x)},),
    ),
    Mistake(
        "the target's mask",
        "Your mask is made from `is_target`, and the keys are tokens of the source. Which of the two says where the "
        "source has padding?",
        ({"real": _target}, {"real": _target, "place": lambda real, is_target: real.unsqueeze(2)}),
    ),
    Mistake(
        "padding on the query axis",
        "The source has padding, and its tokens are the keys. Which axis of a mask (B, T, S) lists them, and where "
        "must an axis of size 1 stand in `is_source`?",
        ({"place": lambda real, is_target: real.unsqueeze(2)},),
    ),
    Mistake(
        "padding queries blocked too",
        "The keys are right, but the rows of the target's padding are blocked throughout. Does anyone read the output "
        "of a padding token?",
        ({"place": lambda real, is_target: real.unsqueeze(1) & is_target.unsqueeze(2)},),
    ),
    Mistake(
        "source OR target",
        "A key is allowed as soon as the query is a token, so padding of the source comes in. Must one of your masks "
        "allow it, or both, and is the target's needed at all?",
        ({"place": lambda real, is_target: real.unsqueeze(1) | is_target.unsqueeze(2)},),
    ),
    Mistake(
        "is_source without an axis for the queries",
        "A mask of two axes is read as (T, S), so your (B, S) puts the batch on the queries, or does not fit. Where "
        "must an axis of size 1 stand, so that it becomes (B, 1, S)?",
        ({"place": lambda real, is_target: real},),
    ),
    Mistake(
        "one sample's padding for all",
        "Every sample gets one and the same padding, that of one sample or of all together. Whose row of `is_source` "
        "does sample 1 need?",
        (
            {"real": lambda is_target, is_source: is_source[:1]},
            {"real": lambda is_target, is_source: is_source.all(dim=0, keepdim=True)},
            {"real": lambda is_target, is_source: is_source.any(dim=0, keepdim=True)},
        ),
    ),
    Mistake(
        "a causal mask on the source",
        "The later a token of the source stands, the fewer tokens of the target may look at it. The whole source is "
        "there before the first word is written: is any of it the future?",
        (
            {"causal": lambda mask, T, S: mask & create_causal_mask(T, S)},
            {"causal": lambda mask, T, S: mask & _top_left(T, S)},
            {"causal": lambda mask, T, S: mask & create_causal_mask(T)},
        ),
    ),
    Mistake(
        "mask inverted",
        "Your True marks what must not be attended to. In this course True means 'may attend'; "
        "`nn.MultiheadAttention` means the opposite. Which does `attend` take, and what is True in `is_source`?",
        ({"mask": lambda mask: ~mask},),
    ),
    Mistake(
        "padding set to zero, not masked",
        "You set the source's padding to 0 before, but a key of zeros still has a score, and exp of any score is more "
        "than 0. What gives a key the weight 0?",
        ({"memory": zeros_for_padding, "mask": lambda mask: None},),
    ),
    Mistake(
        "the weights masked afterwards",
        "You blank the weights that `attend` returned; its output was averaged with all of them. When must a mask be "
        "there, so that the output knows of it?",
        ({"mask": lambda mask: None, "weights": lambda weights, mask: weights * mask.unsqueeze(1)},),
    ),
    Mistake(
        "weights of one head",
        "The weights that you return are those of one head. Which axis of (B, H, T, S) did your index take away?",
        (
            {"returned": lambda output, weights: (output, weights[:, 0])},
            {"returned": lambda output, weights: (output, weights[:, -1])},
        ),
    ),
    *named(SELF_ATTENTION_MISTAKES, "the output at padding set to zero", "the input added"),
    *named(MULTI_HEAD_MISTAKES, "weights averaged over the heads", "squeeze() without a dimension"),
)


def _in_each_part(name, lead, everywhere, *steps):
    """A mistake for each part of the layer, and one for all three; each of `steps` changes some by their last word."""

    def variants(parts):
        return tuple({f"{part}_{end}": made for part in parts for end, made in changed.items()} for changed in steps)

    one = [Mistake(f"{name} {place}", lead.format(place), variants([part])) for part, place in PARTS.items()]
    return (*one, Mistake(everywhere, lead.format("each of the three parts"), variants(PARTS)))


def _as_it_is(norm, xs):
    return xs[-1]


def _asks_of(at):
    """What a part is asked when it sees x as it was earlier: 0 is the x that was given, -2 that of the part before."""
    return lambda norm, xs: norm(xs[at:][0])


def _added_to(at):
    """As `_asks_of`, for the x to which a part adds."""
    return lambda norm, xs, asks, found: xs[at:][0] + found


DECODER_MISTAKES = (
    *_in_each_part(
        "no residual around",
        "What {} finds takes the place of x. What does a part of a layer do with x?",
        "no residual at all",
        {"added": lambda norm, xs, asks, found: found},
    ),
    *_in_each_part(
        "the residual is of the normed x around",
        "What {} finds is added to the normed x, not to x. Which of the two goes on to the next part?",
        "every residual is of the normed x",
        {"added": lambda norm, xs, asks, found: asks + found},
    ),
    *_in_each_part(
        "no norm before",
        "x goes into {} as it is. What must happen to it before, and to the residual not?",
        "no norm at all",
        {"norm": _as_it_is},
    ),
    *_in_each_part(
        "norm after, not before,",
        "The norm of {} stands behind it, as in the paper of 2017 (post-norm). This layer is pre-norm: what goes into "
        "a part, and what is added to x?",
        "norm after every part, not before",
        {"norm": _as_it_is, "added": lambda norm, xs, asks, found: norm(xs[-1] + found)},
        {"norm": _as_it_is, "added": lambda norm, xs, asks, found: xs[-1] + norm(found)},
    ),
    Mistake(
        "normed at the end",
        "You norm what the layer returns. In a pre-norm model x goes on as it is, and one norm stands behind the last "
        "layer. Who calls that one?",
        ({"output": lambda norm, x: norm(x)},),
    ),
    Mistake(
        "memory normed again",
        "The encoder has normed its output already, and your layer norms it once more. To what does the norm before "
        "the cross-attention belong, to those that ask or to those that answer?",
        ({"memory": lambda norm, memory: norm(memory)},),
    ),
    Mistake(
        "only the queries normed",
        "In the self-attention your queries are normed, and keys or values are not. Are they not the same tokens?",
        (
            {"self_inputs": lambda asks, xs: (asks, xs[-1], xs[-1])},
            {"self_inputs": lambda asks, xs: (asks, asks, xs[-1])},
        ),
    ),
    Mistake(
        "one normed x for several parts",
        "Two of the parts see the same normed x, as if they stood beside each other. What has been added to x between "
        "them, and does the second part know of it?",
        (
            {"cross_norm": _asks_of(0)},
            {"feed_norm": _asks_of(-2)},
            {"cross_norm": _asks_of(0), "feed_norm": _asks_of(0)},
        ),
    ),
    Mistake(
        "added to an earlier x",
        "What a part finds is added to an x of before, and what another part found is lost. To which x is each part "
        "to add?",
        ({"cross_added": _added_to(0)}, {"feed_added": _added_to(0)}, {"feed_added": _added_to(-2)}),
    ),
    Mistake(
        "cross-attention before self-attention",
        "Your tokens look at the source before they have looked at each other. What does a token need to know before "
        "it can ask the source for the next word?",
        ({"order": lambda: ("cross", "self", "feed")},),
    ),
    Mistake(
        "the feed-forward layer left out",
        "Both attentions are there, and then nothing more. Where does your function use `feed_forward`?",
        ({"order": lambda: ("self", "cross")},),
    ),
    Mistake(
        "the feed-forward layer in another place",
        "The feed-forward layer stands once, behind both attentions. Where is it in yours, and how often?",
        (
            {"order": lambda: ("feed", "self", "cross")},
            {"order": lambda: ("self", "feed", "cross")},
            {"order": lambda: ("self", "feed", "cross", "feed")},
        ),
    ),
    Mistake(
        "one attention for both",
        "`self_attend` and `cross_attend` have weights of their own. Which of them looks along the target, and which "
        "at the source?",
        (
            {"attentions": lambda self_attend, cross_attend: (self_attend, self_attend)},
            {"attentions": lambda self_attend, cross_attend: (cross_attend, cross_attend)},
            {"attentions": lambda self_attend, cross_attend: (cross_attend, self_attend)},
        ),
    ),
    Mistake(
        "keys and values from x",
        "Your cross-attention gets queries, keys and values of the target, so it is a second self-attention. Where "
        "does the source come in?",
        (
            {"cross_inputs": lambda asks, memory: (asks, asks, asks)},
            {"cross_inputs": lambda asks, memory: (asks, asks, asks), "on_source": lambda mask, T, S: ones(T).tril()},
        ),
    ),
    Mistake(
        "keys from x",
        "In your cross-attention the values are of the source, but they are found by keys of the target. Which "
        "sequence must each key and its value come from?",
        ({"cross_inputs": lambda asks, memory: (asks, asks, memory)},),
    ),
    Mistake(
        "values from x",
        "In your cross-attention the right token of the source is found, and one of the target brought back. Which "
        "sequence must each key and its value come from?",
        ({"cross_inputs": lambda asks, memory: (asks, memory, asks)},),
    ),
    Mistake(
        "the source asks, the target answers",
        "In your cross-attention memory is the query. Which of the two sequences wants to know something, and how many "
        "rows must come out?",
        ({"cross_inputs": lambda asks, memory: (memory, asks, asks)},),
    ),
    Mistake(
        "no causal mask",
        "In the self-attention every token looks at those after it too. Change the last token: does the first output "
        "move, and may it?",
        ({"causal_mask": lambda T, is_source: None},),
    ),
    Mistake(
        "upper triangle for lower",
        "In the self-attention each token sees itself and the future only. With rows as queries, on which side of the "
        "diagonal is the past?",
        ({"causal_mask": lambda T, is_source: create_causal_mask(T).T},),
    ),
    Mistake(
        "causal mask inverted",
        "In the self-attention your True marks what must not be attended to. What does True mean in this course?",
        ({"causal_mask": lambda T, is_source: ~create_causal_mask(T)},),
    ),
    Mistake(
        "diagonal left out",
        "May a token see itself? Look at the first row of your causal mask: what is left for its softmax?",
        ({"causal_mask": lambda T, is_source: ones(T).tril(-1)},),
    ),
    Mistake(
        "one too far",
        "Change token t+1: whose output moves? With your causal mask output t does, so it has seen the future.",
        ({"causal_mask": lambda T, is_source: ones(T).tril(1)},),
    ),
    Mistake(
        "the source's mask in the self-attention",
        "The self-attention has T keys, all of the target, and you mask them by `is_source`. Which sequence is that "
        "about?",
        (
            {"causal_mask": lambda T, is_source: is_source.unsqueeze(1)},
            {"causal_mask": lambda T, is_source: create_causal_mask(T) & is_source.unsqueeze(1)},
        ),
    ),
    Mistake(
        "the two masks exchanged",
        "The self-attention gets the source's padding and the cross-attention the causal mask. Which of the two looks "
        "along the target, where there is a future?",
        (
            {
                "causal_mask": lambda T, is_source: is_source.unsqueeze(1),
                "on_source": lambda mask, T, S: create_causal_mask(T),
            },
            {
                "causal_mask": lambda T, is_source: is_source.unsqueeze(1),
                "on_source": lambda mask, T, S: create_causal_mask(T, S),
            },
        ),
    ),
    Mistake(
        "the source's padding not masked",
        "In the cross-attention padding of the source is looked at. Where does your function use `is_source`?",
        ({"source_mask": _all_allowed}, {"on_source": lambda mask, T, S: None}),
    ),
    Mistake(
        "source mask inverted",
        "In the cross-attention your True marks what must not be attended to. What is True in `is_source`, and what "
        "does True mean in a mask of this course?",
        ({"source_mask": lambda is_source: ~is_source.unsqueeze(1)},),
    ),
    Mistake(
        "padding on the query axis",
        "In the cross-attention the source's tokens are the keys. Which axis of a mask (B, T, S) lists them, and where "
        "must an axis of size 1 stand in `is_source`?",
        ({"source_mask": lambda is_source: is_source.unsqueeze(2)},),
    ),
    Mistake(
        "is_source without an axis for the queries",
        "A mask of two axes is read as (T, S), so your (B, S) puts the batch on the queries, or does not fit. Where "
        "must an axis of size 1 stand, so that it becomes (B, 1, S)?",
        ({"source_mask": keep},),
    ),
    Mistake(
        "one sample's padding for all",
        "Every sample gets one and the same padding of the source. Whose row of `is_source` does sample 1 need?",
        (
            {"source_mask": lambda is_source: is_source[:1]},
            {"source_mask": lambda is_source: is_source.all(dim=0, keepdim=True)},
            {"source_mask": lambda is_source: is_source.any(dim=0, keepdim=True)},
        ),
    ),
    Mistake(
        "a causal mask on the source",
        "In the cross-attention the first tokens of the target see few tokens of the source. The whole source is there "
        "before the first word is written: is any of it the future?",
        (
            {"on_source": lambda mask, T, S: mask & create_causal_mask(T, S)},
            {"on_source": lambda mask, T, S: mask & _top_left(T, S)},
            {"on_source": lambda mask, T, S: mask & create_causal_mask(T)},
        ),
    ),
    Mistake(
        "weights in the other order",
        "You return the weights of the cross-attention first. Which of the two maps is (B, H, T, T)?",
        ({"returned": lambda output, causal, cross: (output, cross, causal)},),
    ),
    replace(
        named(MULTI_HEAD_MISTAKES, "weights averaged over the heads")[0],
        variants=(
            {"returned": lambda output, causal, cross: (output, causal.mean(dim=1), cross.mean(dim=1))},
            {"returned": lambda output, causal, cross: (output, causal, cross.mean(dim=1))},
            {"returned": lambda output, causal, cross: (output, causal.mean(dim=1), cross)},
        ),
    ),
)


def _of_one_sample(step):
    """`is_source` of the first sample for all, of what all have, of what any has, as the mask that `step` gives."""
    of_one = (lambda real: real[:1], lambda real: real.all(dim=0, keepdim=True), lambda real: real.any(0, keepdim=True))
    return tuple({step: lambda is_source, *T, of=of: of(is_source)} for of in of_one)


PADDING_BUG_MISTAKES = (
    Mistake(
        "real tokens look at padding in the encoder",
        "In the encoder no key is blocked: with its mask on the query axis as little as without one. Which axis of a "
        "mask (B, S, S) lists those that are looked at?",
        ({"encoder_mask": lambda is_source: is_source.unsqueeze(2)}, {"encoder_mask": lambda is_source: None}),
    ),
    Mistake(
        "the encoder's mask inverted",
        "In the encoder only padding is looked at. What does True mean in a mask of this course?",
        ({"encoder_mask": lambda is_source: ~is_source.unsqueeze(1)},),
    ),
    Mistake(
        "the encoder's mask without an axis for the queries",
        "A mask of two axes is read as (T_q, T_k), so in the encoder your (B, S) puts the batch on the queries, or "
        "does not fit. Where must an axis of size 1 stand?",
        ({"encoder_mask": keep},),
    ),
    Mistake(
        "a causal mask in the encoder",
        "In the encoder each token looks at those before it alone. Is anything of the source the future, when all of "
        "it is there from the start?",
        (
            {"encoder_mask": lambda is_source: is_source.unsqueeze(1) & ones(is_source.size(1)).tril()},
            {"encoder_mask": lambda is_source: ones(is_source.size(1)).tril()},
        ),
    ),
    Mistake(
        "one sample's padding for all",
        "In one of the two attentions every sample gets one and the same padding. Whose row of `is_source` does sample "
        "1 need?",
        (*_of_one_sample("encoder_mask"), *_of_one_sample("cross_mask")),
    ),
    Mistake(
        "padding set to zero, not masked",
        "You set the source's padding to 0 before, but a key of zeros still has a score, and exp of any score is more "
        "than 0. What gives a key the weight 0?",
        ({"source": zeros_for_padding, "encoder_mask": lambda is_source: None},),
    ),
    Mistake(
        "no mask in the cross-attention",
        "The target looks at padding now. Was anything wrong with the mask of the cross-attention?",
        ({"cross_mask": lambda is_source, T: None},),
    ),
    Mistake(
        "the cross-attention's mask on the query axis",
        "In the cross-attention your mask is about the rows, and those are the target's. Was anything wrong with it as "
        "it was given?",
        ({"cross_mask": lambda is_source, T: is_source.unsqueeze(2)},),
    ),
    Mistake(
        "the cross-attention's mask inverted",
        "The target looks at padding alone. What does True mean in a mask of this course?",
        ({"cross_mask": lambda is_source, T: ~is_source.unsqueeze(1)},),
    ),
    Mistake(
        "the cross-attention's mask without an axis for the queries",
        "A mask of two axes is read as (T_q, T_k), so in the cross-attention your (B, S) puts the batch on the "
        "queries, or does not fit. Was anything wrong with the mask as it was given?",
        ({"cross_mask": lambda is_source, T: is_source},),
    ),
    Mistake(
        "a causal mask in the cross-attention",
        "The first tokens of the target see few tokens of the source. Is any of the source the future?",
        (
            {"cross_mask": lambda is_source, T: is_source.unsqueeze(1) & create_causal_mask(T, is_source.size(1))},
            {"cross_mask": lambda is_source, T: is_source.unsqueeze(1) & _top_left(T, is_source.size(1))},
        ),
    ),
    Mistake(
        "the encoder passed by",
        "The target looks at the source as it came, so for the output or the weights the encoder need not have run. "
        "What was memory for?",
        (
            {"inputs": lambda x, memory, source: (x, source, source)},
            {"inputs": lambda x, memory, source: (x, source, memory)},
            {"inputs": lambda x, memory, source: (x, memory, source)},
        ),
    ),
    Mistake(
        "keys and values from x",
        "Your cross-attention gets queries, keys and values of the target. Where does the source come in?",
        ({"inputs": lambda x, memory, source: (x, x, x)},),
    ),
    Mistake(
        "the source asks, the target answers",
        "Memory is the query of your cross-attention. Which of the two sequences wants to know something?",
        ({"inputs": lambda x, memory, source: (memory, x, x)},),
    ),
    Mistake(
        "the source added",
        "You add the source to what the encoder found, as a block does. This encoder has no residual, and the bug is "
        "in its mask. Which one change is enough?",
        ({"memory": lambda found, source: source + found},),
    ),
    Mistake(
        "weights of the encoder",
        "The weights that you return are those of the encoder, (B, H, S, S). Which attention are they asked of?",
        ({"weights": lambda cross_weights, encoder_weights: encoder_weights},),
    ),
    *named(SELF_ATTENTION_MISTAKES, "the input added"),
    *named(MULTI_HEAD_MISTAKES, "weights averaged over the heads", "squeeze() without a dimension"),
)


def _cross_probe(name, seed, H, d_k, is_target, is_source, gradients=False):
    (B, T), S, d_model = is_target.shape, is_source.size(1), H * d_k
    arguments = {
        "x": random_tensor(seed, B, T, d_model),
        "memory": random_tensor(seed + 100, B, S, d_model),
        "attend": fixed_attention(seed, H, d_model),
        "is_target": is_target,
        "is_source": is_source,
    }
    return Probe(name, arguments, {"B": B, "T": T, "S": S, "H": H, "d_model": d_model}, gradients)


def _small_cross(x, memory, is_target, is_source):
    x, memory = (torch.tensor(one).unsqueeze(-1) for one in (x, memory))  # one feature
    arguments = {
        "x": x,
        "memory": memory,
        "attend": fixed_attention(None, 1, 1),
        "is_target": torch.tensor(is_target).bool(),
        "is_source": torch.tensor(is_source).bool(),
    }
    return Probe("", arguments, {"B": x.size(0), "T": x.size(1), "S": memory.size(1), "H": 1, "d_model": 1})


CROSS_ATTENTION = (
    _cross_probe("all sizes different", 1, 4, 2, first_tokens(3, [3, 2]), first_tokens(5, [5, 3]), gradients=True),
    _cross_probe("other sizes", 2, 2, 5, first_tokens(6, [6, 3, 5]), first_tokens(4, [2, 4, 3])),
    _cross_probe("as many target tokens as source tokens", 3, 3, 2, first_tokens(4, [4, 2]), first_tokens(4, [3, 4])),
    _cross_probe("as many samples as tokens", 4, 2, 4, first_tokens(3, [2, 3, 1]), first_tokens(3, [3, 1, 2])),
    _cross_probe("as many samples as target tokens", 5, 3, 4, first_tokens(2, [1, 2]), first_tokens(4, [4, 2])),
    _cross_probe("padding on the left", 6, 3, 4, first_tokens(4, [2, 4]).flip(1), first_tokens(5, [4, 2]).flip(1)),
    _cross_probe("no padding", 7, 3, 4, first_tokens(2, [2, 2]), first_tokens(4, [4, 4])),
    _cross_probe("a batch of one", 8, 3, 4, first_tokens(4, [3]), first_tokens(5, [4])),
    _cross_probe("one head", 9, 1, 4, first_tokens(3, [2, 3]), first_tokens(5, [5, 3])),
    _cross_probe("one target token", 10, 3, 4, first_tokens(1, [1, 1]), first_tokens(4, [2, 3])),
    _cross_probe("one source token", 11, 3, 4, first_tokens(3, [2, 3]), first_tokens(1, [1, 1])),
)
SMALL_CROSS = (
    _small_cross([[1.0]], [[2.0]], [[1]], [[1]]),
    _small_cross([[1.0]], [[2.0, 3.0]], [[1]], [[1, 1]]),
    _small_cross([[1.0]], [[2.0, 3.0]], [[1]], [[1, 0]]),
    _small_cross([[1.0, 0.0]], [[2.0, 3.0]], [[1, 1]], [[1, 1]]),
    _small_cross([[1.0, 0.0]], [[2.0, 3.0, 4.0]], [[1, 0]], [[1, 1, 0]]),
    _small_cross([[1.0], [2.0]], [[2.0, 3.0], [4.0, 5.0]], [[1], [1]], [[1, 1], [1, 0]]),
)


def _told(told, function):
    """A function with that docstring."""

    def call(x):
        return function(x)

    call.__doc__ = told
    return call


def _layer_probe(name, seed, T, H, d_k, is_source, gradients=False):
    (B, S), d_model = is_source.shape, H * d_k
    wide, narrow = random_tensor(seed + 1, 2 * d_model, d_model), random_tensor(seed + 2, d_model, 2 * d_model)
    scale, shift = 1.0 + 0.5 * random_tensor(seed + 3, d_model), random_tensor(seed + 4, d_model)
    arguments = {
        "x": 2.0 * random_tensor(seed, B, T, d_model),
        "memory": random_tensor(seed + 5, B, S, d_model),
        "is_source": is_source,
        "self_attend": fixed_attention(seed, H, d_model),
        "cross_attend": fixed_attention(seed + 1, H, d_model),
        "feed_forward": _told("two layers, W fixed", lambda x: F.relu(x @ wide.T) @ narrow.T / d_model),
        "norm": _told("layer norm, scale and shift fixed", lambda x: F.layer_norm(x, (d_model,), scale, shift)),
    }
    return Probe(name, arguments, {"B": B, "T": T, "S": S, "H": H, "d_model": d_model}, gradients)


def _small_layer(x, memory, is_source):
    x, memory = (torch.tensor(one).unsqueeze(-1) for one in (x, memory))  # one feature
    arguments = {
        "x": x,
        "memory": memory,
        "is_source": torch.tensor(is_source).bool(),
        "self_attend": fixed_attention(None, 1, 1),
        "cross_attend": fixed_attention(None, 1, 1),
        "feed_forward": _told("(x) -> 10 x", lambda x: 10.0 * x),
        "norm": _told("(x) -> x / 2", lambda x: x / 2.0),
    }
    return Probe("", arguments, {"B": x.size(0), "T": x.size(1), "S": memory.size(1), "H": 1, "d_model": 1})


DECODER_LAYER = (
    _layer_probe("all sizes different", 1, 3, 4, 2, first_tokens(5, [5, 3]), gradients=True),
    _layer_probe("other sizes", 2, 6, 2, 5, first_tokens(4, [2, 4, 3])),
    _layer_probe("as many target tokens as source tokens", 3, 4, 3, 2, first_tokens(4, [3, 4])),
    _layer_probe("as many samples as tokens", 4, 3, 2, 4, first_tokens(3, [3, 1, 2])),
    _layer_probe("as many samples as target tokens", 5, 2, 3, 4, first_tokens(4, [4, 2])),
    _layer_probe("padding on the left", 6, 4, 3, 4, first_tokens(5, [4, 2]).flip(1)),
    _layer_probe("no padding", 7, 2, 3, 4, first_tokens(4, [4, 4])),
    _layer_probe("a batch of one", 8, 4, 3, 4, first_tokens(5, [4])),
    _layer_probe("one head", 9, 3, 1, 4, first_tokens(5, [5, 3])),
    _layer_probe("one target token", 10, 1, 3, 4, first_tokens(4, [2, 3])),
    _layer_probe("one source token", 11, 3, 3, 4, first_tokens(1, [1, 1])),
)
SMALL_LAYER = (
    _small_layer([[2.0]], [[3.0]], [[1]]),
    _small_layer([[2.0]], [[3.0, 5.0]], [[1, 1]]),
    _small_layer([[2.0]], [[3.0, 5.0]], [[1, 0]]),
    _small_layer([[2.0, 4.0]], [[3.0]], [[1]]),
    _small_layer([[2.0, 4.0]], [[3.0, 5.0]], [[1, 1]]),
    _small_layer([[2.0, 4.0]], [[3.0, 5.0, 7.0]], [[1, 1, 0]]),
    _small_layer([[2.0], [4.0]], [[3.0, 5.0], [7.0, 9.0]], [[1, 1], [1, 0]]),
)


def _padding_probe(name, seed, T, H, d_k, is_source, gradients=False):
    (B, S), d_model = is_source.shape, H * d_k
    arguments = {
        "x": random_tensor(seed, B, T, d_model),
        "source": random_tensor(seed + 5, B, S, d_model),
        "is_source": is_source,
        "self_attend": fixed_attention(seed, H, d_model),
        "cross_attend": fixed_attention(seed + 1, H, d_model),
    }
    return Probe(name, arguments, {"B": B, "T": T, "S": S, "H": H, "d_model": d_model}, gradients)


def _small_padding(x, source, is_source):
    x, source = (torch.tensor(one).unsqueeze(-1) for one in (x, source))  # one feature
    arguments = {
        "x": x,
        "source": source,
        "is_source": torch.tensor(is_source).bool(),
        "self_attend": fixed_attention(None, 1, 1),
        "cross_attend": fixed_attention(None, 1, 1),
    }
    return Probe("", arguments, {"B": x.size(0), "T": x.size(1), "S": source.size(1), "H": 1, "d_model": 1})


PADDING_BUG = (
    _padding_probe("all sizes different", 1, 3, 4, 2, first_tokens(5, [5, 3]), gradients=True),
    _padding_probe("other sizes", 2, 6, 2, 5, first_tokens(4, [2, 4, 3])),
    _padding_probe("as many target tokens as source tokens", 3, 4, 3, 2, first_tokens(4, [3, 4])),
    _padding_probe("as many samples as tokens", 4, 3, 2, 4, first_tokens(3, [3, 1, 2])),
    _padding_probe("as many samples as source tokens", 5, 2, 3, 4, first_tokens(3, [2, 3, 1])),
    _padding_probe("as many samples as target tokens", 6, 2, 3, 4, first_tokens(4, [4, 2])),
    _padding_probe("padding on the left", 7, 4, 3, 4, first_tokens(5, [4, 2]).flip(1)),
    _padding_probe("no padding", 8, 2, 3, 4, first_tokens(4, [4, 4])),
    _padding_probe("a batch of one", 9, 4, 3, 4, first_tokens(5, [4])),
    _padding_probe("one head", 10, 3, 1, 4, first_tokens(5, [5, 3])),
    _padding_probe("one target token", 11, 1, 3, 4, first_tokens(4, [2, 3])),
    _padding_probe("one source token", 12, 3, 3, 4, first_tokens(1, [1, 1])),
)
SMALL_PADDING = (
    _small_padding([[1.0]], [[2.0]], [[1]]),
    _small_padding([[1.0]], [[2.0, 3.0]], [[1, 1]]),
    _small_padding([[1.0]], [[2.0, 3.0]], [[1, 0]]),
    _small_padding([[1.0, 0.0]], [[2.0, 3.0]], [[1, 1]]),
    _small_padding([[1.0, 0.0]], [[2.0, 3.0, 5.0]], [[1, 1, 0]]),
    _small_padding([[1.0], [2.0]], [[2.0, 3.0], [5.0, 7.0]], [[1, 1], [1, 0]]),
)

EXERCISES = (
    Exercise(
        id="cross_attention",
        reference=cross_attention,
        returns={"output": "B T d_model", "weights": "B H T S"},
        by_steps=cross_attention_by_steps,
        probes=CROSS_ATTENTION,
        resized="other sizes",
        small=SMALL_CROSS,
        mistakes=CROSS_ATTENTION_MISTAKES,
        hints=(
            "One sequence asks and another answers. From which of the two come the queries, and from which the keys "
            "and the values?",
            "The weights are (B, H, T, S). Padding is blocked as a key, so which of the two lengths is it about? Give "
            "that mask an axis of size 1 for the queries.",
            "`attend(x, memory, memory, mask)`, with a mask (B, 1, S) made from `is_source`.",
        ),
        why="The target asks and the source answers, so the mask is about the source's tokens alone: all are there "
        "from the start, but padding says nothing.",
        stretch="Exchange two tokens of memory and their entries in `is_source`. What changes in the output?",
    ),
    Exercise(
        id="decoder_layer",
        reference=decoder_layer,
        returns={"output": "B T d_model", "causal_weights": "B H T T", "cross_weights": "B H T S"},
        by_steps=decoder_by_steps,
        probes=DECODER_LAYER,
        resized="other sizes",
        small=SMALL_LAYER,
        mistakes=DECODER_MISTAKES,
        hints=(
            "Three parts, one after the other: with what does each begin, and with what does it end? Which of the "
            "three looks at the future unless it is kept from it, and which at padding?",
            "Each part sees `norm(x)`, and what it finds is added to x itself. The self-attention gets three times the "
            "same and a causal mask; the cross-attention gets queries of the target only, and memory as it is.",
            "`normed = norm(x)`, `found, causal_weights = self_attend(normed, normed, normed, create_causal_mask(T))`, "
            "`x = x + found`; then the same with `cross_attend(norm(x), memory, memory, is_source.unsqueeze(1))`; then "
            "`x + feed_forward(norm(x))`.",
        ),
        why="Each part sees x with all that was added before it, normed, and adds to x itself; the future is blocked "
        "in the target, padding in the source.",
        stretch="Of which attention could the keys and values be computed once, before the first word is written, and "
        "those of which grow with every word?",
    ),
    Exercise(
        id="find_the_bug_in_padding",
        reference=encode_then_look,
        returns={"output": "B T d_model", "weights": "B H T S"},
        by_steps=encode_by_steps,
        probes=PADDING_BUG,
        resized="other sizes",
        small=SMALL_PADDING,
        mistakes=PADDING_BUG_MISTAKES,
        hints=(
            "The target gives padding the weight 0. Which other way could padding take into the output? Change a "
            "source token that is padding, and see what moves.",
            "What the target looks at is not the source but memory. Write the shape of the encoder's mask beside that "
            "of its weights (B, H, S, S): which axis lists the tokens that are looked at?",
            "Padding is blocked as a key in both: `is_source.unsqueeze(1)`, in the encoder too.",
        ),
        why="Padding is blocked as a key in both attentions, so no real token has read it, and the output depends on "
        "real tokens alone.",
        stretch="The map of the cross-attention gave padding the weight 0 all along. What does such a map say of the "
        "tokens that memory was made from?",
        given="real tokens look at padding in the encoder",
    ),
)
