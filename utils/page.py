"""What a cell writes on the page besides its figures: captions and tables, as Markdown that a test compares."""

import os

import matplotlib.pyplot as plt
from IPython.display import Markdown, display


def publish(widget, without_kernel, metadata=None):
    """Show a widget, and what stands for it on a page that has no kernel.

    Args:
        widget: the widget.
        without_kernel: by MIME type, what such a page shows; "text/plain" is what the tests compare.
        metadata: by MIME type, what goes with it, such as the size of a picture.
    """
    if "COLAB_RELEASE_TAG" in os.environ:  # Colab shows a widget only if it comes alone
        display(widget)
        return
    view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    bundle = {"application/vnd.jupyter.widget-view+json": view, **without_kernel}
    display(bundle, metadata=metadata or {}, raw=True)


def caption(text):
    """Show the figures that are open, then `text` below them, as sentences that say what they show.

    A notebook page drops the alternative text of a picture, so the caption is what tells a reader who
    cannot see it. Numbers in it are computed by the cell, never typed.
    """
    for number in plt.get_fignums():
        figure = plt.figure(number)
        display(figure)
        plt.close(figure)
    display(Markdown(f"*Figure: {text}*"))


def table(columns, rows):
    """Show a table.

    Args:
        columns: the headings.
        rows: for each row, as many entries; what they are is shown as `str` shows it.

    Raises:
        ValueError: a row that is longer or shorter than `columns`.
    """
    lines = [columns, ["---"] * len(columns)]
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"row {row!r} has {len(row)} entries but columns has {len(columns)}")
        lines.append(row)
    cells = ([str(entry).replace("|", "\\|") for entry in line] for line in lines)
    display(Markdown("\n".join(f"| {' | '.join(line)} |" for line in cells)))
