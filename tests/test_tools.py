"""The commands in tools/: stamping an address, executing and normalising notebooks."""

import subprocess
import sys

import nbformat
import pytest
from lessons import NOTEBOOKS, ROOT, copy_course, read
from test_notebooks import tool

FORK = "https://github.com/someone/their-fork"
STAMPED = ["README.md", "attention-from-the-root.txt", *(f"notebooks/{path.name}" for path in NOTEBOOKS)]


@pytest.fixture
def course_copy(tmp_path):
    return copy_course(tmp_path / "copy")


def stamp(folder, *address):
    return subprocess.run(
        [sys.executable, "tools/stamp.py", *address], cwd=folder, capture_output=True, text=True, check=False
    )


def test_one_command_stamps_a_forks_address_everywhere(course_copy):
    old = (course_copy / "attention-from-the-root.txt").read_text().strip().removeprefix("https://github.com/")
    assert stamp(course_copy, FORK).returncode == 0
    for name in STAMPED:
        text = (course_copy / name).read_text(encoding="utf-8")
        assert "someone/their-fork" in text, name
        assert old not in text, name


def test_stamping_back_gives_the_same_files(course_copy):
    old = (course_copy / "attention-from-the-root.txt").read_text().strip()
    stamp(course_copy, FORK + ".git/")
    assert stamp(course_copy, old).returncode == 0
    for name in STAMPED:
        assert (course_copy / name).read_bytes() == (ROOT / name).read_bytes(), name


def test_without_an_address_the_setup_cells_are_brought_up_to_date(course_copy):
    path = course_copy / "notebooks" / NOTEBOOKS[0].name
    notebook = nbformat.read(path, as_version=4)
    next(c for c in notebook.cells if "setup" in c.metadata.get("tags", [])).source = "print('old')"
    nbformat.write(notebook, path)
    assert stamp(course_copy).returncode == 0
    assert path.read_bytes() == NOTEBOOKS[0].read_bytes()


@pytest.mark.parametrize("address", ["someone/fork", "https://example.org/a/b", "https://github.com/someone", ""])
def test_an_address_that_colab_cannot_open_is_refused(course_copy, address):
    done = stamp(course_copy, address)
    assert done.returncode != 0
    assert f"address={address!r}; expected https://github.com/OWNER/REPO" in done.stderr
    assert (course_copy / "README.md").read_bytes() == (ROOT / "README.md").read_bytes()


def written(folder, *sources):
    path = folder / "small.ipynb"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {}}
    nbformat.write(notebook, path)
    return path


def test_executing_stores_outputs_and_nothing_of_this_machine(tmp_path):
    path = written(tmp_path, "import ipywidgets\nipywidgets.VBox([])", "1 + 1")
    tool("execute").execute(path)
    notebook = read(path)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert notebook.metadata.language_info == {"name": "python"}
    widget, number = notebook.cells
    assert "application/vnd.jupyter.widget-view+json" not in widget.outputs[0].data
    assert number.outputs[0].data["text/plain"] == "2"
    assert (widget.execution_count, number.execution_count, number.outputs[0].execution_count) == (1, 2, 2)
    assert widget.metadata == {}


def test_executing_twice_gives_the_same_bytes(tmp_path):
    slow = "import sys, time\nprint('a'); sys.stdout.flush(); time.sleep(0.5); print('b')"
    path = written(tmp_path, "import ipywidgets\nipywidgets.VBox([])", slow)
    tool("execute").execute(path)
    first = path.read_bytes()
    assert len(read(path).cells[1].outputs) == 1  # one stream, however slowly it was written
    tool("execute").execute(path)
    assert path.read_bytes() == first


def test_a_cell_that_writes_to_stderr_is_refused_and_the_file_kept(tmp_path):
    path = written(tmp_path, "import sys\nprint('oops', file=sys.stderr)")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="writes to stderr: oops"):
        tool("execute").execute(path)
    assert path.read_bytes() == before
