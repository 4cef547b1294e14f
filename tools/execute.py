"""Execute notebooks in fresh kernels and store them normalised: `python tools/execute.py [NOTEBOOK ...]`.

Without arguments, all notebooks, in order. What is stored is what a reader without a kernel sees and
what the tests compare: outputs, but no widget state, no timings, nothing of this machine.
"""

import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent
LIVE_ONLY = "application/vnd.jupyter.widget-view+json"  # without its state, a page would say "model not found"
KEPT_METADATA = ("tags", "jupyter", "cellView")  # the last two fold a cell's source away, in JupyterLab and in Colab
BUDGET = 700_000  # bytes of one stored notebook


def execute(path):
    """Run the notebook at `path` in a fresh kernel, in its own folder, and write it back normalised.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raised an exception.
        ValueError: a cell wrote to stderr, or the notebook is over its budget.
    """
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=600, kernel_name="python3", store_widget_state=False, coalesce_streams=True
    ).execute(cwd=str(path.parent))
    normalise(notebook)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr":
                raise ValueError(f"{path.name}, cell {cell.id} writes to stderr: {output.text}")
    text = nbformat.writes(notebook) + "\n"
    if len(text.encode()) > BUDGET:
        raise ValueError(f"{path.name} has {len(text.encode())} bytes; expected {BUDGET} or fewer")
    path.write_text(text, encoding="utf-8")


def normalise(notebook):
    """Take out of an executed notebook what belongs to this run and this machine alone."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        cell.metadata = {key: value for key, value in cell.metadata.items() if key in KEPT_METADATA}
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(LIVE_ONLY, None)
    for count, cell in enumerate((c for c in notebook.cells if c.cell_type == "code"), start=1):
        cell.execution_count = count
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = count


if __name__ == "__main__":
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or sorted((ROOT / "notebooks").glob("*.ipynb"))
    for path in chosen:
        start = time.perf_counter()
        execute(path)
        print(f"{path.name}: {time.perf_counter() - start:.0f} s, {path.stat().st_size // 1000} KB")
