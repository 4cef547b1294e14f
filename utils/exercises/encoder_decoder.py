"""Exercises of lesson 01: the target shifted by one, and the loss that leaves padding out."""

import math

import torch
import torch.nn.functional as F

from utils.exercises.exercise import Exercise, Mistake, Probe
from utils.tasks import BOS, EOS, PAD, shift_target
from utils.training import translation_loss


def shift_by_steps(changes, target):
    """`shift_target`, one step a name, with some of its steps changed."""
    step = {
        "input": lambda target: target[:, :-1],
        "labels": lambda target: target[:, 1:],
        "answer": lambda decoder_input, labels: (decoder_input, labels),
        **changes,
    }
    return step["answer"](step["input"](target), step["labels"](target))


def loss_by_steps(changes, logits, labels):
    """`translation_loss`, one step a name, with some of its steps changed."""
    step = {
        "place": lambda logits, labels: (logits, labels),
        "log": lambda logits: logits.log_softmax(dim=-1),
        "pick": lambda log_p, labels: -log_p.gather(-1, labels.unsqueeze(-1)).squeeze(-1),  # (B, T)
        "counted": lambda labels: labels != PAD,
        "average": lambda losses, counted: losses.sum() / counted.sum(),
        "answer": lambda loss: loss,
        **changes,
    }
    logits, labels = step["place"](logits, labels)
    counted = step["counted"](labels)
    losses = step["pick"](step["log"](logits), labels).masked_fill(~counted, 0.0)
    return step["answer"](step["average"](losses, counted))


def _both(cut):
    return {"input": cut, "labels": cut}


SHIFT_MISTAKES = (
    Mistake(
        "not shifted",
        "What the decoder is given and what it should answer are the same tokens, so it only has to copy. At the place "
        "where it is given BOS, which token should it answer?",
        (_both(lambda target: target[:, :-1]), _both(lambda target: target[:, 1:]), _both(lambda target: target)),
    ),
    Mistake(
        "shifted the wrong way",
        "Your labels are the past: at each place the decoder should answer the token that came before. Which of the "
        "two should be ahead of the other?",
        (
            {"input": lambda target: target[:, 1:], "labels": lambda target: target[:, :-1]},
            {"input": lambda target: target, "labels": lambda target: target.roll(1, dims=1)},
        ),
    ),
    Mistake(
        "BOS left in the labels",
        "Your labels begin with BOS and have one token more than the decoder is given. Does the decoder ever have to "
        "answer BOS?",
        ({"labels": lambda target: target},),
    ),
    Mistake(
        "the decoder is given the last token too",
        "What the decoder is given has one token more than the labels. After the last token of the target, what is "
        "left to be answered?",
        ({"input": lambda target: target},),
    ),
    Mistake(
        "BOS is not given",
        "The decoder is not given BOS, so nothing stands at the place where it should answer the first word. What is "
        "it given when it has not written anything yet?",
        (
            {"input": lambda target: target[:, 1:-1], "labels": lambda target: target[:, 2:]},
            {"input": lambda target: target[:, 1:-1]},
            {"input": lambda target: target[:, 1:-1], "labels": lambda target: target[:, 1:-1]},
        ),
    ),
    Mistake(
        "cut along the batch",
        "You leave out a sentence, not a token. In (B, T + 1), which axis do the tokens stand on, and how do you keep "
        "the other one whole?",
        (
            {"input": lambda target: target[:-1], "labels": lambda target: target[1:]},
            {"input": lambda target: target[:-1]},
            {"labels": lambda target: target[1:]},
        ),
    ),
    Mistake(
        "shifted by two",
        "At each place your label is the token after the next one. Take BOS, a, b, EOS: what is the answer to BOS?",
        (
            {"input": lambda target: target[:, :-2], "labels": lambda target: target[:, 2:]},
            {"labels": lambda target: target[:, 2:]},
            {"input": lambda target: target[:, :-2]},
        ),
    ),
    Mistake(
        "rolled round",
        "`torch.roll` puts what falls off one end back at the other, so your labels end with BOS. Should the last "
        "place have a label at all, and how long are the two then?",
        (
            {"input": lambda target: target, "labels": lambda target: target.roll(-1, dims=1)},
            {"labels": lambda target: target.roll(-1, dims=1)},
            {"input": lambda target: target, "labels": lambda target: target.roll(-1)},
        ),
    ),
    Mistake(
        "EOS taken out of the decoder's input",
        "You replaced EOS in what the decoder is given. The label at that place is padding, which the loss leaves out. "
        "Is there anyone whom that EOS disturbs?",
        ({"input": lambda target: target[:, :-1].masked_fill(target[:, :-1] == EOS, PAD)},),
    ),
    Mistake(
        "-100 for padding",
        "Your labels hold -100 at padding, which is what torch's losses leave out when they are told nothing. In this "
        "course padding keeps its id, 0. Which argument of `F.cross_entropy` says what is to be left out?",
        ({"labels": lambda target: target[:, 1:].masked_fill(target[:, 1:] == PAD, -100)},),
    ),
)


def _classes_on_the_last_axis(logits, labels):
    """What torch takes (B, T, target_size) for: one position for each of T classes; it fits where the sizes agree."""
    F.cross_entropy(logits, labels)
    return logits.transpose(1, 2), labels


def _right_or_not(logits):
    return F.one_hot(logits.argmax(dim=-1), logits.size(-1)).to(logits.dtype)


LOSS_MISTAKES = (
    Mistake(
        "padding is counted",
        "Add three pads to a sentence: does its loss change? At a pad there is nothing to answer. Which positions "
        "should the average run over?",
        ({"counted": lambda labels: torch.ones_like(labels, dtype=torch.bool)},),
    ),
    Mistake(
        "divided by the number of all positions",
        "You leave the losses at padding out of the sum, but you divide by a number that has padding in it. How many "
        "losses did you add up?",
        ({"average": lambda losses, counted: losses.sum() / losses.numel()},),
    ),
    Mistake(
        "summed, not averaged",
        "Your loss grows with the number of tokens, so a long batch makes a longer step than a short one. What should "
        "the sum be divided by?",
        (
            {"average": lambda losses, counted: losses.sum()},
            {"average": lambda losses, counted: losses.sum() / len(losses)},
            {"average": lambda losses, counted: (losses.sum(0) / counted.sum(0)).sum()},
        ),
    ),
    Mistake(
        "averaged in two steps",
        "You average within each sentence (or at each position) first, and then average those. A word of a short "
        "sentence then counts for more than one of a long sentence. Which single average counts all words alike?",
        (
            {"average": lambda losses, counted: (losses.sum(1) / counted.sum(1)).mean()},
            {"average": lambda losses, counted: (losses.sum(0) / counted.sum(0)).mean()},
        ),
    ),
    Mistake(
        "softmax before cross_entropy",
        "`F.cross_entropy` expects logits and takes their softmax itself, so yours is taken twice. How large can the "
        "difference between two of its inputs still be?",
        ({"log": lambda logits: logits.softmax(dim=-1).log_softmax(dim=-1)},),
    ),
    Mistake(
        "logarithm of a softmax",
        "For large logits the softmax is rounded to 0, and the logarithm of 0 is minus infinity, or your small number "
        "stands in for it. What gives the logarithm without going through the softmax?",
        (
            {"log": lambda logits: logits.softmax(dim=-1).log()},
            *(
                {"log": lambda logits, small=small: (logits.softmax(dim=-1) + small).log()}
                for small in (1e-12, 1e-10, 1e-9, 1e-8)
            ),
        ),
    ),
    Mistake(
        "no logarithm",
        "You average probabilities, not their logarithms. `F.nll_loss` takes none itself. Which step is missing?",
        ({"log": lambda logits: logits.softmax(dim=-1)},),
    ),
    Mistake(
        "logits taken for log-probabilities",
        "You average the logits of the right tokens, which can rise without end when all logits rise together. What "
        "makes the tokens compete?",
        ({"log": lambda logits: logits},),
    ),
    Mistake(
        "classes on the wrong axis",
        "`F.cross_entropy` looks for the classes in dimension 1, and yours has the positions there. Which two axes "
        "must be exchanged, or which two joined?",
        ({"place": _classes_on_the_last_axis},),
    ),
    Mistake(
        "logits and labels of different places",
        "`view` and `reshape` only cut the same numbers anew, and a `transpose` before them changes their order, so a "
        "label meets the logits of another place. Which axes have to be exchanged, and which joined in the order in "
        "which they stand?",
        (
            {
                "place": lambda logits, labels: (
                    logits.reshape(logits.size(0), logits.size(2), logits.size(1)).transpose(1, 2),
                    labels,
                )
            },
            {"place": lambda logits, labels: (logits.transpose(1, 2).reshape(logits.shape), labels)},
            {"place": lambda logits, labels: (logits.transpose(0, 1).reshape(logits.shape), labels)},
            {"place": lambda logits, labels: (logits, labels.T.reshape(labels.shape))},
        ),
    ),
    Mistake(
        "EOS is not counted",
        "You leave out EOS (id 2). Then nothing teaches the decoder where to stop. Which id marks the places where "
        "nothing is to be answered?",
        (
            {"counted": lambda labels: labels != EOS},
            {"counted": lambda labels: (labels != EOS) & (labels != PAD)},
        ),
    ),
    Mistake(
        "shifted a second time",
        "Your logits meet the labels of the next place. What did `shift_target` do to these labels already?",
        (
            {"place": lambda logits, labels: (logits[:, :-1], labels[:, 1:])},
            {"place": lambda logits, labels: (logits[:, 1:], labels[:, :-1])},
        ),
    ),
    Mistake(
        "a place is left out",
        "You cut the first or the last place off both. The labels have no BOS any more, so the first one is the first "
        "word. Is there a place, padding aside, that should not count?",
        (
            {"place": lambda logits, labels: (logits[:, 1:], labels[:, 1:])},
            {"place": lambda logits, labels: (logits[:, :-1], labels[:, :-1])},
        ),
    ),
    Mistake(
        "accuracy instead of a loss",
        "You count how often the largest logit is the right one. A small change of the logits does not change that "
        "number, so where would a gradient come from?",
        (
            {"log": lambda logits: -_right_or_not(logits)},
            {"log": lambda logits: _right_or_not(logits) - 1},
        ),
    ),
    Mistake(
        "wrong sign",
        "Your loss falls when the right tokens become less likely. What is the sign of a logarithm of a probability?",
        ({"answer": lambda loss: -loss},),
    ),
    Mistake(
        "in bits",
        "Your logarithm has base 2. In which unit does the exercise want the loss?",
        ({"answer": lambda loss: loss / math.log(2)},),
    ),
    Mistake(
        "perplexity instead of the loss",
        "You return exp of the loss, which is the perplexity. Which of the two is asked for?",
        ({"answer": lambda loss: loss.exp()},),
    ),
)


def _targets(name, *sentences, length=None):
    """Targets from the ids of their words: BOS, the words, EOS, padding."""
    rows = [torch.tensor([BOS, *words, EOS]) for words in sentences]
    target = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
    T = target.size(1) - 1
    return Probe(name, {"target": target}, {"B": len(rows), "T": T, "T + 1": T + 1})


TARGETS = (
    _targets("three sentences of different lengths", (5, 9, 4, 7), (8,), (6, 11)),
    _targets("another size", (4, 6), (9, 5)),
    _targets("one sentence", (5, 9, 4)),
    _targets("as many sentences as tokens", (5, 9), (8,), (6, 11), (4,)),
    _targets("sentences of one length", (5, 9, 4), (8, 7, 6)),
    _targets("sentences of one word", (5,), (9,), (4,)),
)


def _logits(name, *rows, seed, target_size, scale=1.0, gradients=False):
    labels = torch.tensor(rows)
    B, T = labels.shape
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(B, T, target_size, generator=generator) * scale
    sizes = {"B": B, "T": T, "target_size": target_size}
    return Probe(name, {"logits": logits, "labels": labels}, sizes, gradients)


RAGGED = ([5, 8, 4, 7, EOS], [6, EOS, PAD, PAD, PAD], [4, 9, EOS, PAD, PAD])
LOGITS = (
    _logits("three sentences of different lengths", *RAGGED, seed=1, target_size=10, gradients=True),
    _logits("another size", [5, 4, 6, EOS], [6, EOS, PAD, PAD], seed=2, target_size=7),
    _logits("sentences without padding", [5, 8, EOS], [6, 7, EOS], seed=3, target_size=9),
    _logits("one sentence", [5, 8, 4, EOS], seed=4, target_size=9),
    _logits("as many positions as token ids", [5, 4, 3, 5, EOS, PAD], [3, EOS, 0, 0, 0, 0], seed=5, target_size=6),
    _logits("large logits", *RAGGED, seed=6, target_size=10, scale=200.0),
)


def _small_logits(logits, labels):
    arguments = {"logits": torch.tensor(logits), "labels": torch.tensor(labels)}
    B, T, target_size = arguments["logits"].shape
    return Probe("", arguments, {"B": B, "T": T, "target_size": target_size})


_SMALL = [[[0.0, 0.0, 0.0, 2.0], [0.0, 1.0, 3.0, 0.0], [1.0, 0.0, 0.0, 0.0]]]
SMALL_LOGITS = (
    _small_logits([_SMALL[0][:1]], [[3]]),
    _small_logits([_SMALL[0][:2]], [[3, EOS]]),
    _small_logits([_SMALL[0][1:]], [[EOS, PAD]]),
    _small_logits(_SMALL, [[3, EOS, PAD]]),
    _small_logits([[*_SMALL[0][:2]], [*_SMALL[0][1:]]], [[3, EOS], [EOS, PAD]]),
)

EXERCISES = (
    Exercise(
        id="shift_target",
        reference=shift_target,
        returns={"decoder_input": "B T", "labels": "B T"},
        by_steps=shift_by_steps,
        probes=TARGETS,
        resized="another size",
        small=(_targets("", (5,)), _targets("", (5, 9)), _targets("", (5, 9), (8,))),
        mistakes=SHIFT_MISTAKES,
        hints=(
            "Write BOS, a, b, EOS on paper. What is the decoder given first, and what should it answer to that?",
            "Both are the target without one token: one of them has no use for the last token, the other none for the "
            "first.",
            "`target[:, :-1]` is what the decoder is given, `target[:, 1:]` what it should answer.",
        ),
        why="At each place the label is the token that comes next, so the decoder answers from what came before, "
        "beginning with BOS.",
        stretch="In the longest sentence of a batch the decoder is never given EOS, in the others it is. Why does that "
        "do no harm?",
    ),
    Exercise(
        id="find_the_bug_in_translation_loss",
        reference=translation_loss,
        returns={"loss": ""},
        by_steps=loss_by_steps,
        probes=LOGITS,
        resized="another size",
        small=SMALL_LOGITS,
        mistakes=LOSS_MISTAKES,
        hints=(
            "Take a sentence and the same sentence with three pads after it. Should their losses differ, and do they?",
            "Look at what the labels hold where a sentence has ended, and at what the loss does with that place.",
            "`F.cross_entropy` has an argument `ignore_index`: the id whose places are left out of the sum and of "
            "the count.",
        ),
        why="Padding is left out of the sum and of what it is divided by, so a sentence has the same loss however much "
        "padding stands after it.",
        stretch="What does the loss of an untrained model come to, if it gives each of `target_size` tokens the same "
        "probability?",
        given="padding is counted",
    ),
)
