"""What a cell writes on the page besides its figures: captions and tables, as Markdown that a test compares."""

import matplotlib.pyplot as plt
from IPython.display import Markdown, display


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
