"""Each notebook once more with solutions in its exercise cells: every check must then answer *correct*."""

import pytest
from lessons import CHECK, NOTEBOOKS, code_cells, read, solved, tags
from nbclient import NotebookClient


def exercise_cells(notebook):
    """The cells that its exercises need: the setup, imports, the exercises themselves, and what uses them."""
    return [cell for cell in code_cells(notebook) if {"setup", "exercise", "exercise-needs"} & set(tags(cell))]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_solutions_are_correct_and_are_what_the_cells_below_use(path):
    notebook = read(path)
    notebook.cells = exercise_cells(notebook)
    exercises = [cell for cell in notebook.cells if "exercise" in tags(cell)]
    assert exercises
    for cell in exercises:
        cell.source = solved(cell.source)
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute(cwd=str(path.parent))
    for cell in exercises:
        answers = [output.data["text/markdown"] for output in cell.outputs]
        assert len(answers) == len(CHECK.findall(cell.source))
        assert all(answer.startswith("**Correct.**") for answer in answers), answers
        assert not any("One thing is left" in answer for answer in answers), answers
    uses = [output.data["text/markdown"] for c in notebook.cells if " = use(" in c.source for output in c.outputs]
    assert uses
    assert all("your own" in text for text in uses), uses
