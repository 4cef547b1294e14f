"""The setup cell: inside the course, alone in an empty folder, off-line, beside another `utils`, run twice."""

import os
import subprocess
import sys

import nbformat
import pytest
from lessons import NOTEBOOKS, ROOT, code_cells, read
from nbclient import NotebookClient

from utils import course
from utils.course import MARKER, address

SETUP = code_cells(read(NOTEBOOKS[0]))[0].source


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A git repository of the course as it is on disk now, to clone from."""
    folder = tmp_path_factory.mktemp("origin") / "course"
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if tracked.returncode:
        pytest.skip("this copy of the course is no git checkout, so there is nothing to clone")
    for name in tracked.stdout.split("\n"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "init.defaultBranch=main"]
    for step in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "the course"]):
        subprocess.run([*git, *step], cwd=folder, check=True)
    return folder


def run_setup(folder, repo="", before="", after="", times=1):
    """Run the setup cell as a script in `folder`; returns the finished process."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "COURSE_REPO")}
    if repo:
        environment["COURSE_REPO"] = str(repo)
    script = "\n".join([before, *[SETUP] * times, after])
    return subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_inside_the_course_it_finds_it_from_any_folder_below(tmp_path):
    for folder in (ROOT, ROOT / "notebooks", ROOT / "utils" / "exercises"):
        done = run_setup(folder, after="import utils; print(utils.__file__)")
        assert done.stdout.split() == ["The", "course", "is", "ready.", str(ROOT / "utils" / "__init__.py")], (
            done.stderr
        )


def test_alone_in_an_empty_folder_it_fetches_the_course(tmp_path, repository):
    done = run_setup(tmp_path, repository, after="import utils; print(utils.__file__)")
    clone = tmp_path / "attention-from-the-root"
    assert done.stdout.splitlines() == ["The course is ready.", str(clone / "utils" / "__init__.py")], done.stderr


def test_a_second_run_changes_nothing(tmp_path, repository):
    first = run_setup(tmp_path, repository)
    before = files(tmp_path)
    again = run_setup(tmp_path, "/nowhere", times=2, after="import sys; print(len(sys.path) == len(set(sys.path)))")
    assert first.returncode == 0
    assert again.stdout.splitlines() == ["The course is ready.", "The course is ready.", "True"], again.stderr
    assert [name for name in files(tmp_path) if "__pycache__" not in name] == [
        n for n in before if "__pycache__" not in n
    ]


def test_off_line_it_ends_in_one_plain_sentence_and_leaves_nothing(tmp_path):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(SETUP)])
    environment = {**os.environ, "COURSE_REPO": str(tmp_path / "no-such-repository")}
    work = tmp_path / "work"
    work.mkdir()
    NotebookClient(notebook, allow_errors=True, kernel_name="python3").execute(cwd=str(work), env=environment)
    (output,) = notebook.cells[0].outputs
    (sentence,) = output.traceback
    assert sentence.startswith("The course is not around this notebook and could not be fetched from ")
    assert files(work) == []


def test_a_folder_of_that_name_that_is_not_the_course_is_left_alone(tmp_path, repository):
    (tmp_path / "attention-from-the-root").mkdir()
    (tmp_path / "attention-from-the-root" / "mine.txt").write_text("mine")
    done = run_setup(tmp_path, repository)
    assert "is there but does not hold the course" in done.stderr
    assert files(tmp_path) == ["attention-from-the-root", "attention-from-the-root/mine.txt"]


@pytest.mark.parametrize("kind", ["package", "module", "namespace"])
def test_another_utils_on_the_path_or_imported_before_gives_way(tmp_path, repository, kind):  # FIELD_CASES 32
    other = tmp_path / "other"
    (other / "utils").mkdir(parents=True)
    if kind == "package":
        (other / "utils" / "__init__.py").write_text("from utils import masks")
        (other / "utils" / "masks.py").write_text("WHOSE = 'theirs'")
    elif kind == "module":
        (other / "utils").rmdir()
        (other / "utils.py").write_text("WHOSE = 'theirs'")
    before = f"import sys; sys.path.insert(0, {str(other)!r}); import utils"
    done = run_setup(
        tmp_path, repository, before=before, after="from utils.masks import create_causal_mask; print('ours')"
    )
    assert done.stdout.splitlines() == ["The course is ready.", "ours"], done.stderr


def test_a_lone_notebook_runs_in_an_empty_folder(tmp_path, repository):
    """The whole notebook, as it comes when somebody downloads one file."""
    for path in NOTEBOOKS:
        notebook = read(path)
        environment = {**os.environ, "COURSE_REPO": str(repository)}
        NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(tmp_path), env=environment)


def test_nothing_is_installed_where_the_packages_are_there(monkeypatch):
    monkeypatch.setattr(course.subprocess, "run", lambda *args, **kwargs: pytest.fail("pip was called"))
    assert course.install_missing_packages() == []


def test_what_is_missing_is_installed_and_nothing_else(monkeypatch):
    present, called = set(), []

    def distribution(name):
        if name == "seaborn" and name not in present:
            raise course.PackageNotFoundError

    def run(command, **options):
        called.append(command)
        present.add("seaborn")

    monkeypatch.setattr(course, "distribution", distribution)
    monkeypatch.setattr(course.subprocess, "run", run)
    assert course.install_missing_packages() == []
    (command,) = called
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    assert [part.split("==")[0] for part in command[5:]] == ["seaborn"]


def test_off_line_what_is_still_missing_is_named(monkeypatch):
    def distribution(name):
        if name == "seaborn":
            raise course.PackageNotFoundError

    monkeypatch.setattr(course, "distribution", distribution)
    monkeypatch.setattr(course.subprocess, "run", lambda *args, **kwargs: None)
    (missing,) = course.install_missing_packages()
    assert missing.startswith("seaborn==")


def test_the_address_stands_in_the_file_that_marks_the_course():
    assert address() == (ROOT / MARKER).read_text().strip()
    assert address().startswith("https://github.com/")
