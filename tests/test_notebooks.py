"""What every stored notebook must be, seen without running it."""

import copy
import importlib.util
import itertools
import re

import pytest
from lessons import CHECK, NOTEBOOKS, ROOT, code_cells, read, tags

from utils.course import address
from utils.exercises.catalogue import EXERCISES

EXCUSED = {"nbval-ignore-output", "nbval-skip", "nbval-raises-exception"}
MOST_EXCUSED = 8  # cells of one notebook whose output may differ from machine to machine, as what training gives
EMOJI = re.compile("[\U0001f300-\U0001faff\u2600-\u27bf\ufe0f]")
VAGUE_LINKS = {"here", "link", "this", "click here"}


def tool(name):
    """A module of tools/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request):
    return request.param


@pytest.fixture
def notebook(path):
    return read(path)


def prose(notebook):
    """The text cells without what is code in them."""
    texts = (cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return re.sub(r"```.*?```", "", "\n\n".join(texts), flags=re.DOTALL)


def test_there_are_notebooks():
    assert NOTEBOOKS


def test_it_is_stored_executed_from_top_to_bottom(notebook):
    assert [cell.execution_count for cell in code_cells(notebook)] == list(range(1, len(code_cells(notebook)) + 1))


def test_it_is_stored_as_the_command_normalises_it(notebook):
    again = copy.deepcopy(notebook)
    tool("execute").normalise(again)
    assert again == notebook


def test_no_widget_state_is_stored(notebook):  # FIELD_CASES 34: GitHub says "Invalid Notebook"
    assert "widgets" not in notebook.metadata


def test_no_error_and_no_stderr_is_stored(notebook):
    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    assert [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"] == []


def test_cell_ids_are_present_and_unique(notebook):  # FIELD_CASES 36
    ids = [cell.get("id") for cell in notebook.cells]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    assert notebook.metadata.kernelspec.name == "python3"


def test_no_magics_and_no_shell(notebook):  # FIELD_CASES 35: nbval passes them when they fail
    magics = [line for cell in code_cells(notebook) for line in cell.source.split("\n") if re.match(r"\s*[%!]", line)]
    assert magics == []


def test_it_is_within_its_size(path):
    assert path.stat().st_size <= tool("execute").BUDGET


def test_few_cells_are_excused_from_comparison_and_those_assert(notebook):
    excused = [cell for cell in code_cells(notebook) if EXCUSED & set(tags(cell))]
    assert len(excused) <= MOST_EXCUSED
    assert [cell.source for cell in excused if "assert " not in cell.source] == []


def test_the_setup_cell_comes_first_and_is_the_same_everywhere(notebook):
    first, *others = code_cells(notebook)
    assert tags(first) == ["setup"]
    assert first.source == tool("stamp").setup_cell(address())
    assert not any("setup" in tags(cell) for cell in others)


def test_the_badge_opens_this_notebook_in_colab(path, notebook):
    owner_and_repo = address().removeprefix("https://github.com/")
    link = f"https://colab.research.google.com/github/{owner_and_repo}/blob/main/notebooks/{path.name}"
    assert link in notebook.cells[0].source


def test_one_title_and_no_level_skipped(notebook):
    levels = [len(hashes) for hashes in re.findall(r"^(#+) ", prose(notebook), flags=re.MULTILINE)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(deeper - level <= 1 for level, deeper in itertools.pairwise(levels))


def test_links_say_where_they_lead_and_pictures_have_a_text(path, notebook):
    for picture, text, target in re.findall(
        r"(!?)\[((?:[^\[\]]|\[[^\]]*\]\([^)]*\))*)\]\(([^)\s]+)\)", prose(notebook)
    ):
        assert text.strip()
        assert picture or (text.lower() not in VAGUE_LINKS and not text.startswith("http")), text
        if not target.startswith(("http", "#")):
            assert (path.parent / target).exists(), target


def test_every_figure_has_a_caption(notebook):
    """A picture on the page is followed by a sentence, in its own bundle (explorers) or below it (figures)."""
    for cell in code_cells(notebook):
        pictures = [output.data for output in cell.outputs if "image/png" in output.get("data", {})]
        figures = [data for data in pictures if data["text/plain"].startswith("<Figure")]
        captions = [
            output for output in cell.outputs if output.get("data", {}).get("text/markdown", "").startswith("*Figure: ")
        ]
        assert bool(figures) == bool(captions), cell.source
        if figures:
            assert cell.outputs[-1] == captions[-1], cell.source


def test_exercises_are_known_and_wait_for_the_reader(notebook):
    for cell in code_cells(notebook):
        asked = CHECK.findall(cell.source)
        assert ("exercise" in tags(cell)) == bool(asked), cell.source
        for exercise_id, name in asked:
            assert exercise_id in EXERCISES
            assert re.search(rf"^(def|class) {name}\(", cell.source, re.MULTILINE)
            assert "**Correct.**" not in str(cell.outputs), f"the stored {exercise_id} is solved"


def test_every_exercise_is_asked_somewhere():
    asked = {found[0] for path in NOTEBOOKS for cell in code_cells(read(path)) for found in CHECK.findall(cell.source)}
    assert asked == set(EXERCISES)


def test_a_prediction_does_not_show_its_answer(notebook):
    for cell in code_cells(notebook):
        if re.search(r"^predict\(", cell.source, re.MULTILINE):
            assert cell.metadata.jupyter.source_hidden
            assert cell.metadata.cellView == "form"
            (output,) = cell.outputs
            visible = re.sub(r"<details>.*</details>", "", output.data["text/html"])
            assert "Answer" not in visible


def test_the_prose_is_plain(notebook):
    text = prose(notebook)
    assert EMOJI.findall(text) == []
    assert re.findall(r"\w!(?:\s|$)", text) == []


def test_what_a_notebook_uses_of_an_exercise_is_run_in_its_solved_copy(notebook):
    for cell in code_cells(notebook):
        if re.search(r"^\w+ = use\(", cell.source, re.MULTILINE):
            assert "exercise-needs" in tags(cell), cell.source


def test_no_stream_is_stored_in_pieces(notebook):
    """Where the pieces end is a matter of timing."""
    for cell in code_cells(notebook):
        kinds = [output.get("name") for output in cell.outputs]
        assert not any(one == other == "stdout" for one, other in itertools.pairwise(kinds)), cell.source


def test_the_versions_that_ci_installs_besides_agree_with_the_one_list():
    def pins(path):
        lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
        return dict(line.split("==") for line in lines if line and not line.startswith("#"))

    course, colab = pins("requirements.txt"), pins(".ci/colab.txt")
    shared = ("torch", "seaborn", "tqdm", "nbval", "pytest", "pytest-xdist", "hypothesis")
    assert {name: colab[name] for name in shared} == {name: course[name] for name in shared}
    assert not pins(".ci/requirements.txt").keys() & course.keys()
