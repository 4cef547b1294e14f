"""Measure what the budgets speak of: `python tests/benchmark.py`. Medians of repeats, in one run, as one table.

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
from lessons import NOTEBOOKS, copy_course


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


def redraws(make, rounds=3):
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


if __name__ == "__main__":
    row("median of repeats", "measured", "budget")
    row("import utils.attention, beyond import torch", f"{import_time('utils.attention'):.0f} ms", "100 ms")
    for make in shown.MAKERS:
        title, took = redraws(make)
        row(f"redraw in the kernel: {title} ({len(took)} moves)", f"{statistics.median(took):.0f} ms", "50 ms")
    if lab.why_not():
        print(lab.why_not())
    else:
        for path in NOTEBOOKS:
            for title, took in latencies(path):
                row(
                    f"move to picture in JupyterLab: {title} ({len(took)})",
                    f"{statistics.median(took):.0f} ms",
                    "200 ms",
                )
