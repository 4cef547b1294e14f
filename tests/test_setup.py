"""The setup cell: inside the course, alone in an empty folder, off-line, beside another `utils`, run twice."""

import os
import subprocess
import sys

import nbformat
import pytest
from lessons import NOTEBOOKS, ROOT, code_cells, copy_course, read
from nbclient import NotebookClient

from utils import course

SETUP = code_cells(read(NOTEBOOKS[0]))[0].source


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A git repository of the course as it is on disk now, to clone from."""
    folder = copy_course(tmp_path_factory.mktemp("origin") / "course")
    settings = ["user.name=test", "user.email=test@localhost", "init.defaultBranch=main", "commit.gpgsign=false"]
    git = ["git", *(part for setting in settings for part in ("-c", setting))]
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
    assert "The course is not around this notebook and could not be fetched from " in sentence
    assert "no-such-repository' does not exist" in sentence
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


def without(monkeypatch, missing, after_pip=()):
    """Let `missing` packages seem not to be there, and `after_pip` still after pip ran; returns the calls of pip."""
    calls, gone = [], set(missing)

    def distribution(name):
        if name in gone:
            raise course.PackageNotFoundError

    def run(command, **options):
        calls.append(command)
        gone.intersection_update(after_pip)
        return subprocess.CompletedProcess(command, 1, "", "WARNING: something\nERROR: no connection\n")

    monkeypatch.setattr(course, "distribution", distribution)
    monkeypatch.setattr(course.subprocess, "run", run)
    return calls


def test_nothing_is_installed_where_the_packages_are_there(monkeypatch):
    calls = without(monkeypatch, [])
    assert course.install_missing_packages() is None
    assert calls == []


def test_what_is_missing_is_installed_and_nothing_else(monkeypatch):
    calls = without(monkeypatch, ["seaborn"])
    assert course.install_missing_packages() is None
    (command,) = calls
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    assert [part.split("==")[0] for part in command[5:]] == ["seaborn"]


def test_off_line_what_is_still_missing_is_named_with_the_reason(monkeypatch):
    without(monkeypatch, ["seaborn", "tqdm"], after_pip=["seaborn"])
    sentence = course.install_missing_packages()
    assert "could not be installed: seaborn==" in sentence
    assert "tqdm" not in sentence
    assert sentence.endswith("pip says: ERROR: no connection")


def test_a_lesson_never_asks_for_what_only_tests_need(monkeypatch):
    every = [line.split("==")[0] for line in (ROOT / "requirements.txt").read_text().splitlines() if "==" in line]
    without(monkeypatch, every)
    wanted = {line.split("==")[0] for line in course.missing_packages()}
    assert {"torch", "seaborn", "ipywidgets"} <= wanted
    assert not wanted & {"jupyterlab", "nbval", "pytest", "hypothesis"}
