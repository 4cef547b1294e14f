"""Measure what the budgets speak of: `python tests/benchmark.py`. Medians of repeats, in one run, as one table.

`python tests/benchmark.py multi_head` measures that part only; the parts are imports, multi_head, redraws and browser.
Not a test: wall time on a shared machine is never asserted.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import lab
import shown
import torch
from lessons import NOTEBOOKS, copy_course
from torch import nn

from utils.attention import MultiHeadAttention, scaled_dot_product_attention
from utils.masks import create_causal_mask


def milliseconds(call, repeats):
    """The median time of a call, after one that does not count."""
    call()
    took = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        took.append(1000 * (time.perf_counter() - start))
    return statistics.median(took)


def import_time(module, repeats=7):
    """Milliseconds that `import module` takes beyond `import torch`, each time in a fresh interpreter."""
    script = f"import time, torch; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    command = [sys.executable, "-c", script]
    return 1000 * statistics.median(
        float(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
        for _ in range(repeats)
    )


def interleaved(calls, rounds):
    """The median seconds of each call by name; a round makes each one once, forth and back, so all meet one load."""
    took = {name: [] for name in calls}
    for at in range(rounds + 1):
        for name, call in list(calls.items())[:: 1 if at % 2 else -1]:
            start = time.perf_counter()
            call()
            if at > 0:  # the first round is to warm up
                took[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in took.items()}


def multi_head_ratios(B, T, d_model, H, rounds):
    """Forward and backward with a causal mask, against `nn.MultiheadAttention`, as ratios of medians.

    Returns:
        A dictionary from what is compared to the ratio: with weights by head, the same by the function of lesson 03,
        which the reader is taught, and without weights.
    """
    ours, theirs = MultiHeadAttention(d_model, H), nn.MultiheadAttention(d_model, H, batch_first=True)
    x = torch.randn(B, T, d_model, requires_grad=True)
    mask = create_causal_mask(T)
    blocked = ~mask

    def taught(x):
        heads = [ours.split_heads(project(x)) for project in (ours.W_q, ours.W_k, ours.W_v)]
        return ours.W_o(ours.merge_heads(scaled_dot_product_attention(*heads, mask)[0]))

    def there_and_back(module, attention):
        return lambda: torch.autograd.grad(attention(x).sum(), [x, *module.parameters()])

    def of_torch(need_weights):
        options = {"attn_mask": blocked, "need_weights": need_weights, "average_attn_weights": False}
        return there_and_back(theirs, lambda x: theirs(x, x, x, **options)[0])

    took = interleaved(
        {
            "torch, weights": of_torch(True),
            "weights": there_and_back(ours, lambda x: ours(x, x, x, mask)[0]),
            "taught": there_and_back(ours, taught),
            "torch, no weights": of_torch(False),
            "no weights": there_and_back(ours, lambda x: ours(x, x, x, mask, need_weights=False)[0]),
        },
        rounds,
    )
    return {
        "weights": took["weights"] / took["torch, weights"],
        "weights, as taught": took["taught"] / took["torch, weights"],
        "no weights": took["no weights"] / took["torch, no weights"],
    }


def moves(make, rounds=3):
    """Milliseconds of each redraw, when every control is moved through its values."""
    explorer = make()
    took = []
    for _ in range(rounds):
        for control in explorer.controls.values():
            for value in shown.values_of(control)[:12]:
                if value != control.value and not hasattr(control, "buttons"):
                    start = time.perf_counter()
                    control.value = value
                    took.append(1000 * (time.perf_counter() - start))
        for grid in (c for c in explorer.controls.values() if hasattr(c, "buttons")):
            for button in grid.buttons[2]:
                start = time.perf_counter()
                button.value = not button.value
                took.append(1000 * (time.perf_counter() - start))
    return explorer.title, took


def latencies(path, rounds=5):
    """Milliseconds from a move to a new picture in JupyterLab, for each explorer of a notebook."""
    with (
        tempfile.TemporaryDirectory() as folder,
        lab.server(copy_course(Path(folder) / "course")) as address,
        lab.browser_page() as (page, _),
    ):
        notebook = lab.OpenNotebook(page, address, f"notebooks/{path.name}")
        notebook.run_all()
        for title in lab.explorers(page):
            on_page = lab.ShownExplorer(page, title)
            yield title, [on_page.latency(move) for _ in range(rounds) for move in on_page.moves().values()]


def row(what, measured, budget):
    print(f"{what:<62}{measured:>10}{budget:>12}", flush=True)


def imports():
    row("import utils.attention, beyond import torch", f"{import_time('utils.attention'):.0f} ms", "100 ms")


def multi_head():
    budgets = {"weights": "1.15 x", "weights, as taught": "", "no weights": "1.00 x"}
    for sizes, rounds in (((8, 128, 256, 8), 60), ((2, 512, 512, 8), 40), ((1, 2048, 512, 8), 15)):
        for what, ratio in multi_head_ratios(*sizes, rounds).items():
            row(f"MultiHeadAttention {sizes}: {what}", f"{ratio:.2f} x", budgets[what])


def redraws():
    for make in shown.MAKERS:
        title, took = moves(make)
        row(f"redraw in the kernel: {title} ({len(took)} moves)", f"{statistics.median(took):.0f} ms", "50 ms")


def browser():
    if lab.why_not():
        print(lab.why_not())
        return
    for path in NOTEBOOKS:
        for title, took in latencies(path):
            row(f"move to picture in JupyterLab: {title} ({len(took)})", f"{statistics.median(took):.0f} ms", "200 ms")


PARTS = {part.__name__: part for part in (imports, multi_head, redraws, browser)}

if __name__ == "__main__":
    unknown = set(sys.argv[1:]) - set(PARTS)
    if unknown:
        sys.exit(f"no such part: {', '.join(sorted(unknown))}; the parts are {', '.join(PARTS)}")
    row("median of repeats", "measured", "budget")
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()
