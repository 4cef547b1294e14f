"""The recurrent encoder-decoder: padding, order, its two step orders, teacher forcing, greedy decoding, errors."""

import ast
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lessons import NOTEBOOKS, ROOT, code_cells, read
from torch import nn

from utils.attention import AdditiveAttention, LuongAttention
from utils.models import Encoder, Seq2Seq, bahdanau_step, luong_step
from utils.tasks import BOS, EOS, PAD
from utils.training import translation_loss

pytestmark = pytest.mark.usefixtures("one_thread")

# All different, so that a mix-up shows.
SOURCE_SIZE, TARGET_SIZE, EMBED, TARGET_EMBED, HIDDEN, DECODER, SCORE_HIDDEN = 14, 11, 3, 4, 5, 7, 6
ATTENTIONS = [None, "additive", "dot", "general", "concat"]
ASKS = ["current", "previous"]
EVERY_MODEL = list(itertools.product(ATTENTIONS, ASKS, [False, True]))
every_model = pytest.mark.parametrize(("attention", "asks", "bidirectional"), EVERY_MODEL)

SOURCE = torch.tensor([[5, 9, PAD, PAD, PAD], [4, 13, 7, 9, 6], [8, 10, 4, PAD, PAD]])  # lengths 2, 5, 3
DECODER_INPUT = torch.tensor([[BOS, 6, 10, 4], [BOS, 7, EOS, PAD], [BOS, 5, 9, EOS]])
LABELS = torch.tensor([[6, 10, 4, EOS], [7, EOS, PAD, PAD], [5, 9, EOS, PAD]])


def made(attention=None, asks="current", bidirectional=False):
    """A model whose parameters are large enough for its weights to be far from uniform."""
    torch.manual_seed(0)
    encoder = Encoder(SOURCE_SIZE, EMBED, HIDDEN, bidirectional)
    decoder_dim = encoder.state_dim if attention == "dot" else DECODER  # a dot product needs equal sizes
    if attention == "additive":
        module = AdditiveAttention(decoder_dim, encoder.state_dim, SCORE_HIDDEN)
    elif attention is not None:
        hidden = {"hidden_dim": SCORE_HIDDEN} if attention == "concat" else {}
        module = LuongAttention(decoder_dim, encoder.state_dim, attention, **hidden)
    else:
        module = None
    model = Seq2Seq(encoder, TARGET_SIZE, TARGET_EMBED, decoder_dim, module, asks)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 2
    return model


def step_by_step(model, source, decoder_input):
    """Logits and weights at every position, the target given, by `step` alone."""
    state, keys, mask = model.encode(source)
    logits, weights = [], []
    for t in range(decoder_input.size(1)):
        one, state, seen = model.step(decoder_input[:, t], state, keys, mask)
        logits.append(one)
        weights.append(seen)
    return torch.stack(logits, dim=1), None if weights[0] is None else torch.stack(weights, dim=1)


def greedy_by_hand(model, sentence, steps):
    """What `greedy` should write for one sentence (S,) without padding, and where it looks: EOS ends it."""
    with torch.no_grad():
        state, keys, mask = model.encode(sentence.unsqueeze(0))
        token_ids, written, weights = torch.tensor([BOS]), [], []
        while len(written) < steps and EOS not in written:
            logits, state, seen = model.step(token_ids, state, keys, mask)
            token_ids = logits.argmax(dim=-1)
            written.append(int(token_ids))
            weights.append(seen)
    return written, None if weights[0] is None else torch.cat(weights)


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def padded(rows, width):
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows])


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-6)


def equal_gradients(actual, expected):
    assert actual.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(
            actual[name], expected[name], rtol=1e-5, atol=2e-6, msg=lambda m, n=name: f"{n}: {m}"
        )


# Padding and order


@every_model
def test_three_more_pads_change_nothing(attention, asks, bidirectional):  # FIELD_CASES 20
    model = made(attention, asks, bidirectional)
    longer = torch.cat([SOURCE, torch.full((3, 3), PAD)], dim=1)
    states, final = model.encoder(SOURCE)
    more_states, more_final = model.encoder(longer)
    close(more_final, final)
    close(more_states[:, :5], states)
    assert not more_states[longer == PAD].any()

    logits, weights = step_by_step(model, SOURCE, DECODER_INPUT)
    more_logits, more_weights = step_by_step(model, longer, DECODER_INPUT)
    close(more_logits, logits)
    if attention is not None:
        close(more_weights[..., :5], weights)
        at_pads = (longer == PAD).unsqueeze(1).expand_as(more_weights)
        assert (more_weights[at_pads] == 0).all()
        close(more_weights.sum(dim=-1), torch.ones(3, 4))
    loss = translation_loss(model(SOURCE, DECODER_INPUT), LABELS)
    more_loss = translation_loss(model(longer, DECODER_INPUT), LABELS)
    close(more_loss, loss)
    equal_gradients(gradients(model, more_loss), gradients(model, loss))


@every_model
def test_more_padding_in_the_target_changes_neither_loss_nor_gradients(attention, asks, bidirectional):
    model = made(attention, asks, bidirectional)
    pads = torch.full((3, 3), PAD)
    loss = translation_loss(model(SOURCE, DECODER_INPUT), LABELS)
    longer = torch.cat([DECODER_INPUT, pads], dim=1), torch.cat([LABELS, pads], dim=1)
    more_loss = translation_loss(model(SOURCE, longer[0]), longer[1])
    close(more_loss, loss)
    equal_gradients(gradients(model, more_loss), gradients(model, loss))


@every_model
def test_alone_or_in_a_batch_of_longer_ones_the_same(attention, asks, bidirectional):  # FIELD_CASES 20, 23
    model = made(attention, asks, bidirectional)
    states, final = model.encoder(SOURCE)
    logits, (token_ids, weights) = model(SOURCE, DECODER_INPUT), model.greedy(SOURCE, max_len=6)
    for at, length in enumerate([2, 5, 3]):
        alone = SOURCE[at : at + 1, :length]
        states_alone, final_alone = model.encoder(alone)
        close(states[at, :length], states_alone[0])
        close(final[at], final_alone[0])
        close(logits[at], model(alone, DECODER_INPUT[at : at + 1])[0])
        ids_alone, weights_alone = model.greedy(alone, max_len=6)
        written = ids_alone.size(1)
        assert token_ids[at, :written].tolist() == ids_alone[0].tolist()
        assert (token_ids[at, written:] == PAD).all()
        if attention is not None:
            close(weights[at, :written, :length], weights_alone[0])
            assert (weights[at, :written, length:] == 0).all()


@settings(deadline=None, max_examples=15)
@given(st.data())
def test_the_order_of_a_batch_does_not_matter(data):  # FIELD_CASES 23
    words = st.lists(st.integers(PAD + 1, SOURCE_SIZE - 1), min_size=1, max_size=7)
    rows = data.draw(st.lists(words, min_size=1, max_size=5))
    order = data.draw(st.permutations(range(len(rows))))
    more = data.draw(st.integers(0, 2))
    model = made(*data.draw(st.sampled_from(EVERY_MODEL)))
    width = max(map(len, rows))
    decoder_input = torch.tensor([[BOS, 4 + at, 5] for at in range(len(rows))])
    expected = model(padded(rows, width), decoder_input)
    close(model(padded([rows[at] for at in order], width + more), decoder_input[order]), expected[order])


def test_the_last_state_of_each_direction_is_that_of_its_last_word():
    """Forwards that is the last word of the sentence, backwards the first; padding is neither."""
    states, final = made(bidirectional=True).encoder(SOURCE)
    for at, length in enumerate([2, 5, 3]):
        close(final[at, :HIDDEN], states[at, length - 1, :HIDDEN])
        close(final[at, HIDDEN:], states[at, 0, HIDDEN:])


def test_a_direction_has_read_what_comes_before_it_and_nothing_else():
    encoder = made(bidirectional=True).encoder
    changed = SOURCE.clone()
    changed[1, 2] = 12
    before, after = encoder(SOURCE)[0], encoder(changed)[0]
    differs = (before != after).view(3, 5, 2, HIDDEN).any(dim=-1)
    assert differs[1].tolist() == [[False, True], [False, True], [True, True], [True, False], [True, False]]
    assert not differs[[0, 2]].any()


@every_model
def test_a_changed_sample_changes_itself_alone(attention, asks, bidirectional):  # FIELD_CASES 15
    model = made(attention, asks, bidirectional)
    changed = SOURCE.clone()
    changed[1, 3] = 11
    before, after = model(SOURCE, DECODER_INPUT), model(changed, DECODER_INPUT)
    close(after[[0, 2]], before[[0, 2]])
    assert (after[1] - before[1]).abs().max() > 1e-4


def test_every_module_of_torch_that_reads_sequences_takes_samples_first():
    """FIELD_CASES 15, pytorch#122959: without `batch_first`, (B, T, d) is read as T samples and the real ones mix."""
    readers = {"RNN", "GRU", "LSTM", "MultiheadAttention", "Transformer"}
    readers |= {f"Transformer{side}Layer" for side in ("Encoder", "Decoder")}
    code = [path.read_text() for path in (ROOT / "utils").rglob("*.py")]
    code += [cell.source for path in NOTEBOOKS for cell in code_cells(read(path))]
    calls = [node for source in code for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    named = [(ast.unparse(call.func).rpartition(".")[2], call) for call in calls]
    made_here = [(name, call) for name, call in named if name in readers]
    assert {name for name, _ in made_here} >= {"GRU", "MultiheadAttention"}
    for name, call in made_here:
        options = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        assert options.get("batch_first") == "True", f"{name}: {ast.unparse(call)}"


def test_without_attention_only_the_last_state_passes():
    """The bottleneck: every sentence reaches the decoder as one vector, whatever its other states are."""
    model = made(None)
    state, keys, mask = model.encode(SOURCE)
    logits, after, weights = model.step(DECODER_INPUT[:, 0], state, keys, mask)
    again, after_again, _ = model.step(DECODER_INPUT[:, 0], state, torch.randn_like(keys), mask)
    assert torch.equal(again, logits)
    assert torch.equal(after_again, after)
    assert weights is None


# Sizes and errors


@every_model
def test_every_size_may_differ(attention, asks, bidirectional):
    model = made(attention, asks, bidirectional)
    state_dim = HIDDEN * (2 if bidirectional else 1)
    decoder_dim = state_dim if attention == "dot" else DECODER
    state, keys, mask = model.encode(SOURCE)
    assert state.shape == (3, decoder_dim)
    assert keys.shape == (3, 5, state_dim)
    assert mask.shape == (3, 1, 5)
    logits, state, weights = model.step(DECODER_INPUT[:, 0], state, keys, mask)
    assert logits.shape == (3, TARGET_SIZE)
    assert state.shape == (3, decoder_dim)
    assert weights is None if attention is None else weights.shape == (3, 5)
    assert model(SOURCE, DECODER_INPUT).shape == (3, 4, TARGET_SIZE)


@every_model
def test_every_parameter_learns(attention, asks, bidirectional):
    """A part that the loss does not reach is not used; the embedding of padding alone has no gradient."""
    model = made(attention, asks, bidirectional)
    found = gradients(model, translation_loss(model(SOURCE, DECODER_INPUT), LABELS))
    assert [name for name, gradient in found.items() if not gradient.any()] == []
    assert not found["embedding.weight"][PAD].any()
    assert not found["encoder.embedding.weight"][PAD].any()


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: made(None, "next"), "asks='next'; expected 'current' or 'previous'"),
        (lambda: made("dot", None), "asks=None"),
        (lambda: made().encoder(torch.tensor([[5, 4], [PAD, PAD]])), "source has no token in sentence 1"),
        (lambda: made().encoder(torch.empty(2, 0, dtype=torch.long)), "source has no token in sentence 0"),
        (lambda: made()(torch.tensor([[PAD, PAD]]), torch.tensor([[BOS]])), "source has no token in sentence 0"),
        (lambda: made().encoder(torch.tensor([[PAD, 5, 4]])), "source has padding before a token"),
        (lambda: made().greedy(torch.tensor([[7, 5], [5, 4]]).repeat(1, 2) * torch.tensor([1, 0, 1, 0])), "padding"),
        (lambda: made().encoder(torch.tensor([5, 4])), r"source has shape \(2,\); expected token ids \(B, S\)"),
        (lambda: made().encoder(torch.ones(2, 3, 4).long()), r"source has shape \(2, 3, 4\)"),
        (lambda: made().greedy(SOURCE, max_len=0), "max_len=0"),
    ],
)
def test_what_does_not_fit_is_named(call, named):
    with pytest.raises(ValueError, match=named):
        call()


FIRST = DECODER_INPUT[:, 0]


@pytest.mark.parametrize(
    ("call", "argument", "number", "size"),
    [
        (lambda: made().encoder(SOURCE + 9), "source", 14, SOURCE_SIZE),
        (lambda: made().encoder(SOURCE - 9), "source", -4, SOURCE_SIZE),
        (lambda: made().greedy(SOURCE * 3), "source", 15, SOURCE_SIZE),
        (lambda: made()(SOURCE * 3, DECODER_INPUT), "source", 15, SOURCE_SIZE),
        # The source in the place of the target: 13 is an id of the one vocabulary and not of the other.
        (lambda: made()(SOURCE, SOURCE), "decoder_input", 13, TARGET_SIZE),
        (lambda: made("dot", "previous")(SOURCE, SOURCE), "decoder_input", 13, TARGET_SIZE),
        # What torch's loss leaves out by default is no token.
        (lambda: made()(SOURCE, LABELS - 100 * (LABELS == PAD)), "decoder_input", -100, TARGET_SIZE),
        (lambda: made().step(FIRST * 0 + TARGET_SIZE, *made().encode(SOURCE)), "token_ids", 11, TARGET_SIZE),
    ],
)
def test_an_id_outside_of_the_vocabulary_is_named(call, argument, number, size):  # FIELD_CASES 42
    """Torch says "index out of range in self"."""
    with pytest.raises(ValueError, match=rf"^{argument} holds the id {number}, .* {size} ids, 0 to {size - 1}$"):
        call()


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: made().encoder(SOURCE.float()), "source holds torch.float32; expected integer"),
        (lambda: made().encoder(SOURCE.byte()), "source holds torch.uint8; expected integer"),  # no embedding takes it
        (lambda: made().encoder(SOURCE > 4), "source holds torch.bool; expected integer"),
        (lambda: made().encoder(SOURCE.tolist()), "source is a list; expected a torch.Tensor"),
        (lambda: made()(SOURCE, DECODER_INPUT / 1), "decoder_input holds torch.float32; expected integer"),
        (lambda: made().step(FIRST / 1, *made().encode(SOURCE)), "token_ids holds torch.float32; expected integer"),
    ],
)
def test_token_ids_that_are_no_integers_are_a_type_error(call, named):  # FIELD_CASES 42
    with pytest.raises(TypeError, match=f"^{named}"):
        call()


def test_every_id_of_the_vocabulary_and_both_types_of_integers_are_taken():
    """The first and the last row of either embedding among them; int32 is what an embedding takes beside int64."""
    model = made()
    source, target = torch.arange(1, SOURCE_SIZE).view(1, -1), torch.arange(TARGET_SIZE).view(1, -1)
    assert torch.equal(model(source.int(), target.int()), model(source, target))


@pytest.mark.parametrize("asks", ASKS)
def test_an_attention_of_other_sizes_is_named_when_it_is_asked(asks):
    encoder = Encoder(SOURCE_SIZE, EMBED, HIDDEN)
    model = Seq2Seq(encoder, TARGET_SIZE, TARGET_EMBED, DECODER, AdditiveAttention(DECODER + 1, HIDDEN, 6), asks)
    with pytest.raises(ValueError, match=r"query has shape .*expected \(B, 8\)"):
        model(SOURCE, DECODER_INPUT)


# The two orders of a step


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("attention", ATTENTIONS[1:])
def test_bahdanau_asks_with_the_state_as_it_was(attention, bidirectional):
    model = made(attention, "previous", bidirectional)
    given = model.encode(SOURCE)
    _, state, weights = model.step(torch.tensor([4, 5, 6]), *given)
    _, other_state, other_weights = model.step(torch.tensor([7, 8, 9]), *given)
    assert torch.equal(weights, other_weights)
    assert ((state - other_state).abs().amax(dim=-1) > 1e-4).all()


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("attention", ATTENTIONS[1:])
def test_luong_asks_with_the_new_state(attention, bidirectional):
    model = made(attention, "current", bidirectional)
    given = model.encode(SOURCE)
    _, _, weights = model.step(torch.tensor([4, 5, 6]), *given)
    _, _, other_weights = model.step(torch.tensor([7, 8, 9]), *given)
    assert ((weights - other_weights).abs().amax(dim=-1) > 1e-5).all()


@pytest.mark.parametrize("attention", ATTENTIONS[1:])
@pytest.mark.parametrize(("asks", "enters"), [("previous", True), ("current", False)])
def test_what_was_found_enters_the_state_in_one_order_and_the_output_in_both(attention, asks, enters):
    model = made(attention, asks)
    state, keys, mask = model.encode(SOURCE)
    other = torch.randn(keys.shape, generator=torch.Generator().manual_seed(1))
    logits, after, _ = model.step(DECODER_INPUT[:, 1], state, keys, mask)
    other_logits, other_after, _ = model.step(DECODER_INPUT[:, 1], state, other, mask)
    assert torch.equal(after, other_after) != enters
    assert ((logits - other_logits).abs().amax(dim=-1) > 1e-4).all()


@pytest.mark.parametrize(("step", "looks_first"), [(bahdanau_step, True), (luong_step, False)])
def test_a_step_calls_its_two_parts_in_the_order_of_its_paper(step, looks_first):
    embedded, state, new_state = torch.randn(3, TARGET_EMBED), torch.randn(3, DECODER), torch.randn(3, DECODER)
    keys, found, weights = torch.randn(3, 5, HIDDEN), torch.randn(3, HIDDEN), torch.rand(3, 5)
    calls = []

    def cell(inputs, before):
        calls.append("cell")
        assert torch.equal(inputs, torch.cat([embedded, found], dim=-1) if looks_first else embedded)
        assert before is state
        return new_state

    def attention(query, among):
        calls.append("attention")
        assert query is (state if looks_first else new_state)
        assert among is keys
        return found, weights

    returned = step(embedded, state, keys, cell, attention)
    assert returned[0] is new_state
    assert returned[1] is found
    assert returned[2] is weights
    assert calls == (["attention", "cell"] if looks_first else ["cell", "attention"])


def test_a_step_takes_any_cell():
    """As the lesson uses it: a GRUCell, and the attention written out there."""
    torch.manual_seed(0)
    embedded, state, keys = torch.randn(3, TARGET_EMBED), torch.randn(3, HIDDEN), torch.randn(3, 5, HIDDEN)
    attention = LuongAttention(HIDDEN, HIDDEN)
    cell = nn.GRUCell(TARGET_EMBED, HIDDEN)
    new_state, context, weights = luong_step(embedded, state, keys, cell, attention)
    close(new_state, cell(embedded, state))
    close(context, attention(new_state, keys)[0])
    close(weights, attention(new_state, keys)[1])
    cell = nn.GRUCell(TARGET_EMBED + HIDDEN, HIDDEN)
    new_state, context, weights = bahdanau_step(embedded, state, keys, cell, attention)
    close(context, attention(state, keys)[0])
    close(weights, attention(state, keys)[1])
    close(new_state, cell(torch.cat([embedded, context], dim=-1), state))


# Teacher forcing and greedy decoding


@every_model
def test_all_positions_at_once_are_the_same_as_step_by_step(attention, asks, bidirectional):
    model = made(attention, asks, bidirectional)
    at_once, (by_steps, _) = model(SOURCE, DECODER_INPUT), step_by_step(model, SOURCE, DECODER_INPUT)
    close(at_once, by_steps)
    equal_gradients(
        gradients(model, translation_loss(at_once, LABELS)), gradients(model, translation_loss(by_steps, LABELS))
    )


@every_model
def test_no_position_sees_the_tokens_after_it(attention, asks, bidirectional):  # the leak of FIELD_CASES 3
    model = made(attention, asks, bidirectional)
    changed = DECODER_INPUT.clone()
    changed[:, 2] = 8
    before, after = model(SOURCE, DECODER_INPUT), model(SOURCE, changed)
    assert torch.equal(after[:, :2], before[:, :2])
    assert ((after - before)[:, 2].abs().amax(dim=-1) > 1e-4).all()


@every_model
def test_greedy_is_a_loop_over_step_with_the_largest_logit(attention, asks, bidirectional):
    model = made(attention, asks, bidirectional)
    with torch.no_grad():  # some sentences end before the others and some at the limit
        model.output.bias[EOS] += 0.5
    source = torch.randint(PAD + 1, SOURCE_SIZE, (12, 4), generator=torch.Generator().manual_seed(2))
    token_ids, weights = model.greedy(source, max_len=7)
    by_hand = [greedy_by_hand(model, sentence, 7) for sentence in source]
    width = max(len(written) for written, _ in by_hand)
    assert token_ids.tolist() == padded([written for written, _ in by_hand], width).tolist()
    if attention is None:
        assert weights is None
        return
    assert weights.shape == (12, width, 4)
    assert not weights.requires_grad
    for row, (written, expected) in zip(weights, by_hand, strict=True):
        close(row[: len(written)], expected)


def scripted(monkeypatch, script):
    """A model whose `step` answers what stands in the script (B, steps), and the tokens it was called with."""
    model, asked = made("general"), []

    def step(token_ids, state, keys, mask):
        answers = torch.tensor([row[len(asked)] for row in script])
        asked.append(token_ids.tolist())
        return nn.functional.one_hot(answers, TARGET_SIZE).float(), state, torch.full(mask.shape, 0.2).squeeze(1)

    monkeypatch.setattr(model, "step", step)
    return model, asked


def test_a_sentence_ends_with_eos_and_the_batch_with_its_last_sentence(monkeypatch):
    model, asked = scripted(monkeypatch, [[EOS, 7, 7, 7, 7], [5, 6, EOS, 7, 7], [8, EOS, 9, 7, 7]])
    token_ids, weights = model.greedy(SOURCE)
    assert token_ids.tolist() == [[EOS, PAD, PAD], [5, 6, EOS], [8, EOS, PAD]]
    assert asked == [[BOS, BOS, BOS], [EOS, 5, 8], [PAD, 6, EOS]]
    assert weights.shape == (3, 3, 5)


@pytest.mark.parametrize("max_len", [1, 2, 5])
def test_no_more_than_max_len_tokens_are_made(monkeypatch, max_len):
    model, asked = scripted(monkeypatch, [[4] * 9, [5, EOS, *[6] * 7], [7] * 9])
    token_ids, weights = model.greedy(SOURCE, max_len=max_len)
    assert token_ids.tolist() == [[4] * max_len, [5, EOS, PAD, PAD, PAD][:max_len], [7] * max_len]
    assert weights.shape == (3, max_len, 5)
    assert len(asked) == max_len


def test_eos_counts_towards_max_len(monkeypatch):
    model, _ = scripted(monkeypatch, [[4, 4, EOS]] * 3)
    assert model.greedy(SOURCE, max_len=3)[0].tolist() == [[4, 4, EOS]] * 3


def test_greedy_keeps_no_graph_and_leaves_the_model_as_it_was():
    model = made("additive", "previous")
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    _, weights = model.greedy(SOURCE, max_len=3)
    assert weights.grad_fn is None
    assert torch.is_grad_enabled()
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
