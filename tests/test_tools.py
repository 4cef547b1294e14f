"""The commands in tools/: stamping an address, executing and normalising notebooks, running them with other seeds."""

import shutil
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


def lesson_with_a_seed(folder, *sources, seed="seed = 0"):
    path = written(folder, seed, *sources)
    notebook = read(path)
    notebook.cells[0].metadata["tags"] = ["parameters"]
    for at, cell in enumerate(notebook.cells):
        cell.id = f"code-{at}"
    nbformat.write(notebook, path)
    return path


def test_another_seed_takes_the_place_of_the_lessons_own(tmp_path):
    path = lesson_with_a_seed(tmp_path, "print(f'seed {seed}, from {10 * seed} to 99')\nassert seed < 2", "print('on')")
    before = path.read_bytes()
    failed, shown = tool("seeds").run(path, 3)
    assert failed == [("code-1", "assert seed < 2")]
    assert shown == {("code-1", 0): "seed 3, from 30 to 99", ("code-2", 0): "on"}  # it goes on after a failure
    assert path.read_bytes() == before


def test_an_error_that_is_no_assertion_is_told_by_its_message(tmp_path):
    failed, _ = tool("seeds").run(lesson_with_a_seed(tmp_path, "{}['lost']"), 0)
    assert failed == [("code-1", "KeyError: 'lost'")]


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["0.95 (two), layer 2", "0.90 (two), layer 2", "0.97 (two), layer 2"], "0.90 to 0.97 (two), layer 2"),
        (["it is -1.5 or 12,345", "it is 0.5 or 9,345"], "it is -1.5 to 0.5 or 9,345 to 12,345"),
        (["cat 0.5", "dog 0.5"], None),
        (["W_q2 is 1", "W_q2 is 2"], "W_q2 is 1 to 2"),
    ],
)
def test_texts_that_differ_in_numbers_are_told_as_ranges(texts, told):
    assert tool("seeds").ranges(texts) == told


def test_the_command_fails_where_a_seed_does_and_names_it(course_copy):
    shutil.rmtree(course_copy / "notebooks")
    (course_copy / "notebooks").mkdir()
    lesson_with_a_seed(course_copy / "notebooks", "print('right:', 7 - seed)\nassert seed != 1").rename(
        course_copy / "notebooks" / "09_small.ipynb"
    )

    def seeds(*arguments):
        command = [sys.executable, "tools/seeds.py", *arguments]
        return subprocess.run(command, cwd=course_copy, capture_output=True, text=True, check=False)

    done = seeds("09", "--seeds", "2")
    assert done.returncode == 1
    assert "FAILED with seed 1, cell code-1: assert seed != 1" in done.stdout
    assert "code-1: right: 6 to 7" in done.stdout
    assert seeds("--seeds", "1").returncode == 0
    assert "no such lesson: 10" in seeds("10").stderr
