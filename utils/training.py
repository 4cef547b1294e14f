"""The one training loop of the course, and what a trained translator gets right."""

import contextlib
from collections import defaultdict
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Event

import torch
import torch.nn.functional as F
from tqdm.notebook import tqdm

from utils.page import publish
from utils.tasks import BOS, EOS, PAD, make_batch

CLIP_NORM = 1.0  # the largest norm of a gradient; recurrent models now and then make a far larger one
AT_ONCE = 2  # models trained at a time; free Colab machines have two cores
SECONDS_BETWEEN_REDRAWS = 1.0  # of the bars; a client that reads late, as nbval, loses messages beyond a thousand
WARM_UP = 0.1  # share of the steps in which the learning rate rises; afterwards it falls to nearly zero


def translation_loss(logits, labels):
    """Cross-entropy per token, in nats; padding does not count.

    Built in lesson 01.

    Args:
        logits: (B, T, target_size).
        labels: (B, T) token ids, PAD where nothing is to be answered.

    Returns:
        A scalar.
    """
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)


def translation_batch_loss(model, batch):
    """The `translation_loss` of a `Batch`, with the right target as the decoder's input."""
    return translation_loss(model(batch.source, batch.decoder_input), batch.labels)


def train(model, batches, steps, learning_rate, name, batch_loss=translation_batch_loss):
    """Train one model under a progress bar; see `train_all`, which trains several side by side.

    Args:
        model: the module; it is left in evaluation mode.
        batches, steps, learning_rate, batch_loss: as for `train_all`.
        name: what stands beside the bar.

    Returns:
        The loss of each step, a list of floats.
    """
    return train_all({name: model}, batches, steps, learning_rate, batch_loss)[name]


def train_all(models, batches, steps, learning_rate, batch_loss=translation_batch_loss):
    """Train models with Adam, clipped gradients and a learning rate that rises and falls, a progress bar for each.

    It draws no random numbers, so seeds are set where models and batches are made. Each model is trained on one
    thread, because results depend on the number of threads, and two are trained at a time, one a core; a model
    becomes the same alone and in company. The reader's number of threads is put back.

    Args:
        models: by name, the modules; they are left in evaluation mode.
        batches: what `batch_loss` takes, one a step, from the first again after the last.
        steps: number of steps.
        learning_rate: the highest one.
        batch_loss: function (model, batch) -> the loss, a scalar.

    Returns:
        By name, the loss of each step, a list of floats.

    Raises:
        ValueError: `steps` below 1, no batches, or no models.
    """
    if steps < 1 or not batches or not models:
        raise ValueError(
            f"steps={steps}, batches has {len(batches)} and models has {len(models)}; expected at least one of each"
        )
    bars = {name: tqdm(total=steps, desc=str(name), display=False) for name in models}
    for name, bar in bars.items():
        # The bar itself is for a live page only; on any other, and in a test, this sentence stands for it.
        publish(bar.container, {"text/plain": f"Training {name}: {steps} steps."})
    losses = {name: [] for name in models}
    stop = Event()
    with contextlib.ExitStack() as afterwards:  # what is put right when the reader interrupts it, too
        for name, model in models.items():
            afterwards.callback(model.eval)
            afterwards.enter_context(bars[name])
        afterwards.enter_context(one_thread())
        pool = afterwards.enter_context(ThreadPoolExecutor(AT_ONCE, initializer=torch.set_num_threads, initargs=(1,)))
        afterwards.callback(stop.set)
        running = {
            pool.submit(_fit, model, batches, steps, learning_rate, batch_loss, losses[name], stop): name
            for name, model in models.items()
        }
        while running:
            done, _ = wait(running, timeout=SECONDS_BETWEEN_REDRAWS, return_when=FIRST_COMPLETED)
            for name in running.values():  # here and not in `_fit`: widgets belong to the notebook's own thread
                _redraw(bars[name], losses[name])
            for one in done:
                name = running.pop(one)
                one.result()  # raises what training raised
                bars[name].close()
    return losses


def _fit(model, batches, steps, learning_rate, batch_loss, losses, stop):
    """Train one model, adding the loss of each step to `losses`, until it is done or `stop` is set."""
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, fused=True)
    # Ten steps or fewer have none to spare for warming up; with exactly ten, OneCycleLR would divide by zero.
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        learning_rate,
        total_steps=steps,
        pct_start=WARM_UP if steps > 1 / WARM_UP else 0.0,
        anneal_strategy="linear",
    )
    model.train()
    for step in range(steps):
        if stop.is_set():
            return
        loss = batch_loss(model, batches[step % len(batches)])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())


def _redraw(bar, losses):
    """Move a bar to the number of losses, and show the last of them; its clock starts with the first."""
    if len(losses) > bar.n:
        if bar.n == 0:
            bar.reset()
        bar.set_postfix_str(f"loss {losses[-1]:.2f}", refresh=False)
        bar.update(len(losses) - bar.n)


@contextlib.contextmanager
def one_thread():
    """Run torch on one thread, then on as many as before."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True)
class Translation:
    """What a model made of one source.

    Attributes:
        tokens: the tokens that it wrote, without EOS.
        weights: (tokens, source tokens), what it looked at for each of them; None without attention.
    """

    tokens: list[str]
    weights: torch.Tensor | None


def translate(model, pairs, source_vocabulary, target_vocabulary, batch_size=100):
    """Translate the sources of pairs by greedy decoding; the targets are not looked at.

    Returns:
        A list of Translations, in the order of the pairs.
    """
    by_length = sorted(range(len(pairs)), key=lambda at: len(pairs[at].source))
    made = [None] * len(pairs)
    with one_thread():
        for start in range(0, len(pairs), batch_size):
            chosen = by_length[start : start + batch_size]
            source = make_batch([pairs[at] for at in chosen], source_vocabulary, target_vocabulary).source
            token_ids, weights = model.greedy(source)
            for row, at in enumerate(chosen):
                ids = token_ids[row].tolist()
                ids = ids[: ids.index(EOS)] if EOS in ids else ids
                # A token that decoding leaves out, as PAD may come before EOS, must not shift the weights.
                kept = [step for step, token_id in enumerate(ids) if token_id not in (PAD, BOS)]
                seen = None if weights is None else weights[row, kept, : len(pairs[at].source)]
                made[at] = Translation(target_vocabulary.decode(ids), seen)
    return made


@dataclass(frozen=True)
class Accuracy:
    """What is right among translations of one length.

    Attributes:
        sentences: share of the sentences in which every token is right.
        tokens: share of the target's tokens that stand, right, in their place.
        count: number of sentences.
    """

    sentences: float
    tokens: float
    count: int


def accuracy(translations, pairs):
    """The Accuracy of translations of pairs.

    Raises:
        ValueError: no pairs, or not as many translations.
    """
    if not pairs or len(translations) != len(pairs):
        raise ValueError(f"translations has {len(translations)} and pairs has {len(pairs)}; expected as many, not none")
    whole = sum(tuple(made.tokens) == pair.target for made, pair in zip(translations, pairs, strict=True))
    right = sum(
        one == other
        for made, pair in zip(translations, pairs, strict=True)
        for one, other in zip(made.tokens, pair.target, strict=False)
    )
    return Accuracy(whole / len(pairs), right / sum(len(pair.target) for pair in pairs), len(pairs))


def accuracy_by_length(translations, pairs):
    """The Accuracy for each number of source tokens, shortest first: a dict from length to Accuracy."""
    groups = defaultdict(lambda: ([], []))
    for made, pair in zip(translations, pairs, strict=True):
        for group, one in zip(groups[len(pair.source)], (made, pair), strict=True):
            group.append(one)
    return {length: accuracy(*groups[length]) for length in sorted(groups)}


@dataclass(frozen=True)
class Agreement:
    """How far the weights of a model go where the right alignment goes.

    Attributes:
        arg_max: share of the tokens whose largest weight lies on a source token that they translate.
        weight: average weight on the source tokens that a token translates.
        one_right: share of the tokens whose largest weight lies just right of those source tokens.
        count: number of tokens.
    """

    arg_max: float
    weight: float
    one_right: float
    count: int


def alignment_agreement(translations, pairs):
    """The Agreement of weights with the gold alignments, over the sentences that were translated right.

    Of a wrong sentence nobody knows the right alignment.

    Raises:
        ValueError: translations without weights, or none of them right.
    """
    rows = []
    for made, pair in zip(translations, pairs, strict=True):
        if made.weights is None:
            raise ValueError("translations has no weights; expected those of a model with attention")
        if tuple(made.tokens) == pair.target:
            rows += zip(made.weights, pair.alignment, strict=True)
    if not rows:
        raise ValueError("translations has none that is right, so there is no alignment to compare with")
    best = [int(weights.argmax()) for weights, _ in rows]
    return Agreement(
        arg_max=sum(at in links for at, (_, links) in zip(best, rows, strict=True)) / len(rows),
        weight=sum(float(weights[sorted(links)].sum()) for weights, links in rows) / len(rows),
        one_right=sum(at == max(links) + 1 for at, (_, links) in zip(best, rows, strict=True)) / len(rows),
        count=len(rows),
    )
