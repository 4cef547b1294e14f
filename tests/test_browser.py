"""The notebooks in JupyterLab in a real browser: run, moved, answered and solved as a reader does it."""

import os

import lab
import pytest
from lessons import CHECK, NOTEBOOKS, code_cells, copy_course, read, solved, tags

if lab.why_not():
    if os.environ.get("COURSE_BROWSER") == "required":  # where these tests must not be skipped, as in CI
        raise RuntimeError(lab.why_not())
    pytest.skip(lab.why_not(), allow_module_level=True)

# For each exercise, a known mistake as a reader would type it, and its name.
MISTAKES = {
    "attention": (
        """
def attention(Q, K, V):
    scores = Q @ K.transpose(-2, -1)
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights
""",
        "No scaling.",
    ),
    "causal_mask": (
        """
def causal_mask(query_len, key_len=None):
    key_len = key_len or query_len
    return torch.ones(query_len, key_len, dtype=torch.bool).tril()
""",
        "Aligned at the top left.",
    ),
    "padding_mask": (
        """
def padding_mask(token_ids, pad_id=0):
    return (token_ids == pad_id).unsqueeze(1)
""",
        "Mask inverted.",
    ),
    "masked_attention": (
        """
def masked_attention(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights
""",
        "NaN where a query may attend to nothing.",
    ),
    "find_the_bug_in_attention": (
        """
def buggy_attention(Q, K, V):
    scores = Q @ K.transpose(-2, -1)
    scores = scores / Q.size(-1)
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights
""",
        "Divided by d_k, not by its root.",
    ),
    "find_the_bug_in_decoder_mask": (
        """
def decoder_mask(token_ids, pad_id=0):
    return causal_mask(token_ids.size(1)).expand(len(token_ids), -1, -1)
""",
        "Causal only.",
    ),
    "shift_target": (
        """
def shift_target(target):
    return target[:, :-1], target[:, :-1]
""",
        "Not shifted.",
    ),
    "find_the_bug_in_translation_loss": (
        """
def buggy_loss(logits, labels):
    log_p = torch.log_softmax(logits, dim=-1)
    losses = -log_p.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    return (losses * (labels != 0)).mean()
""",
        "Divided by the number of all positions.",
    ),
    "additive_attention": (
        """
def additive_attention(query, keys, W_q, W_k, v):
    scores = ((query @ W_q.T).unsqueeze(1) + keys @ W_k.T) @ v
    weights = torch.softmax(scores, dim=-1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights
""",
        "No tanh.",
    ),
    "luong_score": (
        """
def luong_score(query, keys, score, W=None, v=None):
    if score == "concat":
        pairs = torch.cat([keys, query.unsqueeze(1).expand(-1, keys.size(1), -1)], dim=-1)
        return torch.tanh(pairs @ W.T) @ v
    projected = keys if score == "dot" else keys @ W.T
    return (projected @ query.unsqueeze(-1)).squeeze(-1)
""",
        "Concat in the order [k; q].",
    ),
    "align": (
        """
def align(scores, keys, lengths):
    is_word = torch.arange(scores.size(1)) < lengths.unsqueeze(1)
    weights = torch.softmax(scores, dim=-1) * is_word
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights
""",
        "Zeroed after the softmax, not renormalised.",
    ),
    "find_the_bug_in_bahdanau_step": (
        """
def buggy_step(embedded, state, keys, cell, attention):
    context, weights = attention(state, keys)
    state = cell(torch.cat([context, embedded], dim=-1), state)
    return state, context, weights
""",
        "Context before embedding.",
    ),
    "luong_step": (
        """
def luong_step(embedded, state, keys, cell, attention):
    context, weights = attention(state, keys)
    state = cell(embedded, state)
    return state, context, weights
""",
        "The previous state asks.",
    ),
    "split_heads": (
        """
def split_heads(x, num_heads):
    B, T, d_model = x.shape
    return x.view(B, num_heads, T, d_model // num_heads)
""",
        "Split by view without a transpose.",
    ),
    "merge_heads": (
        """
def merge_heads(heads):
    B, H, T, d_k = heads.shape
    return heads.transpose(1, 2).view(B, T, H * d_k)
""",
        "View after transpose.",
    ),
    "multi_head_attention": (
        """
class MultiHead(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.projections = [nn.Linear(d_model, d_model) for _ in range(4)]

    def forward(self, query, key, value, mask=None):
        Q, K, V = (split_heads(W(x), self.num_heads) for W, x in zip(self.projections, (query, key, value)))
        heads, weights = scaled_dot_product_attention(Q, K, V, None if mask is None else mask.unsqueeze(1))
        return self.projections[3](merge_heads(heads)), weights
""",
        "Projections in a plain list.",
    ),
    "find_the_bug_in_multi_head": (
        """
class FoldedHeads(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        Q, K, V = (split_heads(x, self.num_heads) for x in (self.W_q(query), self.W_k(key), self.W_v(value)))
        heads, weights = scaled_dot_product_attention(Q, K, V)
        return self.W_o(merge_heads(heads)), weights
""",
        "Mask ignored.",
    ),
    "self_attention": (
        """
def self_attention(x, attend, is_token):
    return attend(x, x, x, is_token.unsqueeze(1))
""",
        "No causal mask.",
    ),
    "cached_causal_mask": (
        """
def cached_causal_mask(new, cached):
    return torch.ones(new, new, dtype=torch.bool).tril()
""",
        "The cache left out.",
    ),
    "outputs_that_move": (
        """
def outputs_that_move(model, x):
    before, changed, columns = model(x), x.clone(), []
    for i in range(x.size(1)):
        changed[:, i] += torch.randn(x.size(-1))
        columns.append((model(changed) != before)[0].any(dim=-1))
    return torch.stack(columns, dim=1)
""",
        "Changes add up.",
    ),
    "find_the_bug_in_causal_block": (
        """
def causal_block(x, attend):
    mean, std = x.mean(dim=-1, keepdim=True), x.std(dim=(1, 2), keepdim=True)
    normed = (x - mean) / (std + 1e-5)
    mask = create_causal_mask(x.size(1))
    return x + attend(normed, mask)
""",
        "Only one of the two repaired.",
    ),
    "cross_attention": (
        """
def cross_attention(x, memory, attend, is_target, is_source):
    return attend(x, memory, x, is_source.unsqueeze(1))
""",
        "Values from x.",
    ),
    "decoder_layer": (
        """
def decoder_layer(x, memory, is_source, self_attend, cross_attend, feed_forward, norm):
    normed = norm(x)
    found, causal_weights = self_attend(normed, normed, normed, create_causal_mask(x.size(1)))
    x = x + found
    found, cross_weights = cross_attend(norm(x), memory, memory, None)
    x = x + found
    return x + feed_forward(norm(x)), causal_weights, cross_weights
""",
        "The source's padding not masked.",
    ),
    "find_the_bug_in_padding": (
        """
def encode_then_look(x, source, is_source, self_attend, cross_attend):
    memory, _ = self_attend(source, source, source, is_source.unsqueeze(1))
    return cross_attend(x, memory, source, is_source.unsqueeze(1))
""",
        "The encoder passed by.",
    ),
}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A JupyterLab that serves a copy of the course, so that nothing of the real one is saved over."""
    with lab.server(copy_course(tmp_path_factory.mktemp("lab") / "course")) as found:
        yield found


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: path.stem)
def opened(request, address):
    """A notebook, opened and run; with the page's errors and its path."""
    with lab.browser_page() as (page, errors):
        notebook = lab.OpenNotebook(page, address, f"notebooks/{request.param.name}")
        notebook.run_all()
        yield notebook, errors, request.param


def test_it_runs_without_errors(opened):
    notebook, errors, _ = opened
    assert notebook.errors() == []
    assert errors == []


def test_every_picture_changes_when_a_control_moves(opened):
    notebook, errors, path = opened
    titles = lab.explorers(notebook.page)
    stored = [
        output for cell in code_cells(read(path)) for output in cell.outputs if "image/png" in output.get("data", {})
    ]
    assert len(titles) == len([o for o in stored if not o.data["text/plain"].startswith("<Figure")])
    for title in titles:
        shown = lab.ShownExplorer(notebook.page, title)
        moves = shown.moves()
        assert moves
        for name, move in moves.items():
            before, sentence = shown.source(), shown.sentence()
            took = shown.latency(move)
            print(f"{title}, {name}: {took:.0f} ms")
            assert shown.source() != before, (title, name)
            assert shown.sentence() != sentence, (title, name)
            assert not shown.sentence().startswith("Not drawn"), (title, name)
    assert errors == []


def test_no_picture_is_cut_on_a_narrow_page(opened):
    notebook, _, _ = opened
    size = notebook.page.viewport_size
    notebook.page.set_viewport_size({"width": 900, "height": size["height"]})
    try:
        notebook.page.wait_for_timeout(500)
        for title in lab.explorers(notebook.page):
            picture = lab.ShownExplorer(notebook.page, title).picture
            room, width = picture.evaluate("p => [p.closest('.jp-OutputArea-output').clientWidth, p.clientWidth]")
            assert width <= room, title
    finally:
        notebook.page.set_viewport_size(size)


def test_a_prediction_answers(opened):
    notebook, _, _ = opened
    asked = notebook.page.locator(".widget-vbox", has_text="Predict.")
    assert asked.count() > 0
    for at in range(asked.count()):
        buttons = asked.nth(at).locator("button")
        verdicts = []
        for option in range(buttons.count()):
            buttons.nth(option).click()
            said = asked.nth(at).locator("p[role=status]", has_text=buttons.nth(option).inner_text())
            said.wait_for(timeout=10_000)
            verdicts.append(said.inner_text().split(":")[0])
        assert sorted(set(verdicts)) == ["No", "Yes"]
        assert verdicts.count("Yes") == 1


def test_a_known_mistake_is_named_and_the_solution_is_praised(opened):
    notebook, errors, path = opened
    exercises = [cell.source for cell in code_cells(read(path)) if "exercise" in tags(cell)]
    assert exercises
    for source in exercises:
        exercise_id, name = CHECK.search(source).groups()
        mistake, said = MISTAKES[exercise_id]
        call = f'check("{exercise_id}", {name})'
        assert said in notebook.run_cell(call, f"{mistake}\n\n{call}")
        assert notebook.run_cell(call, solved(source)).startswith("Correct.")
    assert errors == []
