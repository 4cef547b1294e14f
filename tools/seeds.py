"""Run lessons with other seeds, and say what does not hold: `python tools/seeds.py [LESSON ...] [--seeds N]`.

A lesson is named by its number, such as 05; without one, every lesson that has a seed is run. Copies are executed, with
the seeds 0 to N - 1 (5 when left out) in the place of the lesson's own; nothing is stored. Each assertion that fails is
listed, and each computed caption and table is shown with the range of its numbers over the seeds. It ends with 1 if
anything failed. It takes as long as the lessons do, N times, two at a time.
"""

import argparse
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent
TAG = "parameters"  # of the one cell that holds the seed, by papermill's convention
AT_ONCE = 2  # a lesson trains on one thread, or on two of which each has a core
NUMBER = re.compile(r"(?<![\w.])[-−]?\d[\d,]*(?:\.\d+)?(?!\w)")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
ARROW = re.compile(r"^-+> *\d+ +(.*)$", re.MULTILINE)  # how a traceback marks a line


def has_seed(notebook):
    """Whether a cell of the notebook is tagged `parameters`."""
    return any(TAG in cell.metadata.get("tags", []) for cell in notebook.cells)


def with_seed(notebook, seed):
    """The notebook with one more cell, right behind its parameters, that sets another seed."""
    (at,) = (i for i, cell in enumerate(notebook.cells) if TAG in cell.metadata.get("tags", []))
    notebook.cells.insert(at + 1, nbformat.v4.new_code_cell(f"seed = {seed}", id=f"seed-{seed}"))
    return notebook


def run(path, seed):
    """Run a copy of the notebook at `path` to its end, whatever fails on the way.

    Returns:
        What failed, as (cell id, line or message), and what each cell showed in words, as {(cell id, place): text}.
    """
    notebook = with_seed(nbformat.read(path, as_version=4), seed)
    NotebookClient(
        notebook, timeout=900, kernel_name="python3", allow_errors=True, store_widget_state=False, coalesce_streams=True
    ).execute(cwd=str(path.parent))
    failed, shown = [], {}
    for cell in notebook.cells:
        for place, output in enumerate(cell.get("outputs", [])):
            if output.output_type == "error":
                failed.append((cell.id, what_failed(output)))
            elif text := output.get("text") or output.get("data", {}).get("text/markdown"):
                shown[cell.id, place] = text.strip()
    return failed, shown


def what_failed(error):
    """The line of an assertion that failed; of another error, its name and message."""
    lines = ARROW.findall(COLOUR.sub("", "\n".join(error.traceback)))
    if error.ename == "AssertionError" and lines:
        return lines[-1]
    return f"{error.ename}: {error.evalue}"


def ranges(texts):
    """Texts that differ in numbers alone as one, each number as "lowest to highest"; None where they differ in more."""
    pieces = [NUMBER.split(text) for text in texts]
    if any(piece != pieces[0] for piece in pieces):
        return None
    columns = zip(*(NUMBER.findall(text) for text in texts), strict=True)
    return "".join(
        word + number for word, number in zip(pieces[0], [*(_spread(column) for column in columns), ""], strict=True)
    )


def _spread(column):
    in_order = sorted(column, key=lambda number: float(number.replace(",", "").replace("−", "-")))
    return in_order[0] if in_order[0] == in_order[-1] else f"{in_order[0]} to {in_order[-1]}"


def report(name, seeds, results):
    """Print what failed and what was shown over the seeds; return the number of failures."""
    print(f"\n## {name}\n")
    failures = [(seed, *one) for seed, (failed, _) in zip(seeds, results, strict=True) for one in failed]
    for seed, cell, line in failures:
        print(f"FAILED with seed {seed}, cell {cell}: {line}")
    if not failures:
        print(f"All assertions hold with the seeds {', '.join(map(str, seeds))}.")
    for key in results[0][1]:
        texts = {seed: shown[key] for seed, (_, shown) in zip(seeds, results, strict=True) if key in shown}
        if len(set(texts.values())) > 1:
            common = ranges(list(texts.values()))
            print(f"\n{key[0]}: {common or 'differs in more than numbers:'}")
            if common is None:
                print("\n".join(f"  seed {seed}: {text}" for seed, text in texts.items()))
    return len(failures)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lessons", nargs="*", metavar="LESSON")
    parser.add_argument("--seeds", type=int, default=5, metavar="N")
    chosen = parser.parse_args(arguments)
    paths = sorted((ROOT / "notebooks").glob("*.ipynb"))
    if unknown := [name for name in chosen.lessons if not any(path.name.startswith(f"{name}_") for path in paths)]:
        parser.error(f"no such lesson: {', '.join(unknown)}; expected numbers as in {', '.join(p.stem for p in paths)}")
    if chosen.seeds < 1:
        parser.error(f"--seeds {chosen.seeds}; expected 1 or more")
    wanted = [path for path in paths if not chosen.lessons or path.name.split("_")[0] in chosen.lessons]
    seeded = [path for path in wanted if has_seed(nbformat.read(path, as_version=4))]
    for path in wanted:
        if path not in seeded:
            print(f"{path.stem} has no cell tagged {TAG}: nothing in it depends on a seed.")
    seeds, failures = range(chosen.seeds), 0
    with ProcessPoolExecutor(AT_ONCE) as pool:
        futures = {path: [pool.submit(run, path, seed) for seed in seeds] for path in seeded}
        for path, of_path in futures.items():
            failures += report(path.stem, seeds, [future.result() for future in of_path])
            sys.stdout.flush()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
