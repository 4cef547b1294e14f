"""What the notebook tests share: where the notebooks are, their cells, and exercises with solutions put in."""

import ast
import inspect
import re
import shutil
from pathlib import Path

import nbformat

from utils.exercises.catalogue import find

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CHECK = re.compile(r"""^check\("(\w+)", (\w+)\)$""", re.MULTILINE)


# What the course consists of; a copy takes nothing else that a reader keeps in the folder.
PARTS = (
    *("README.md", "LICENSE", "requirements.txt", "environment.yml", "pyproject.toml", "attention-from-the-root.txt"),
    *("notebooks", "utils", "tests", "tools", ".ci", ".github"),
)


def copy_course(folder):
    """Copy the course as it is on disk to `folder`, and return that."""
    folder.mkdir(parents=True)
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_*"))
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def read(path):
    """The notebook at `path`."""
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    """Its code cells, in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags(cell):
    """The tags of a cell."""
    return cell.metadata.get("tags", [])


def solved(source):
    """The source of an exercise cell with the function or class in it replaced by the course's own."""
    exercise_id, name = CHECK.search(source).groups()
    reference = find(exercise_id).reference
    kinds = (ast.FunctionDef, ast.ClassDef)
    (written,) = (n for n in ast.parse(source).body if isinstance(n, kinds) and n.name == name)
    lines = source.split("\n")
    solution = inspect.getsource(reference)
    names = {node.id for node in ast.walk(ast.parse(solution)) if isinstance(node, ast.Name)}
    needed = sorted(names & vars(inspect.getmodule(reference)).keys())
    solution = re.sub(rf"^(def|class) {reference.__name__}\(", rf"\1 {name}(", solution, count=1)
    imports = [f"from {reference.__module__} import {', '.join(needed)}"] if needed else []
    lines[written.lineno - 1 : written.end_lineno] = [*imports, solution]
    return "\n".join(lines)
