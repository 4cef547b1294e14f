"""Every name that a text mentions exists in the code (FIELD_CASES 24), and the checker that says so.

A text is a Markdown cell, a string in a notebook's code such as a caption, what a stored output answered, the README,
or a string of `utils`: a docstring, a hint, a message. A mention is code in backquotes: a name, a call, an attribute,
a keyword with its value, an import, a file.
"""

import ast
import builtins
import functools
import importlib
import inspect
import keyword
import math
import random
import re
import textwrap

import nbformat
import pytest
import torch
import torch.nn.functional as F
from lessons import NOTEBOOKS, ROOT, code_cells, read
from torch import nn

LIBRARIES = {"torch": torch, "nn": nn, "F": F, "math": math, "random": random}
# An object that a text speaks of is a tensor or one of Python's, as far as its methods tell.
OBJECTS = (torch.Tensor, list, dict, str, set)
# What the course writes its shapes and formulas with, what stands for the reader's own, and words of torch.
SYMBOLS = {"B", "H", "Q", "K", "V", "T", "S", "T_q", "T_k", "d_k", "d_v", "d_model", "n", "x"}
SYMBOLS |= {"tensor", "your_function", "meta"}
SKIPPED = {"__pycache__", ".ipynb_checkpoints", ".git", ".venv", ".pytest_cache", ".ruff_cache", ".hypothesis"}
FILE = re.compile(r"\.?[\w-]+(/[\w.-]+)*(/|\.(py|md|txt|toml|yml|ipynb|cfg|png))|\.?[\w-]+(/[\w.-]+)+")


# What is mentioned


def mentions(text):
    """The code in backquotes in a text, fenced blocks aside."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return [code.strip() for _, code in re.findall(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", text, flags=re.DOTALL)]


def strings_of(source):
    """The strings in a piece of Python, docstrings among them; in an f-string, dots stand for what is filled in."""
    found, inside = [], set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
            found.append("".join(part.value if isinstance(part, ast.Constant) else "..." for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            found.append(node.value)
    return found


def code_of(notebook):
    return "\n".join(cell.source for cell in code_cells(notebook))


def texts_of(notebook):
    """Its Markdown, the strings in its code, and the Markdown in its outputs."""
    yield from (cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    yield from strings_of(code_of(notebook))
    for cell in code_cells(notebook):
        yield from (output.get("data", {}).get("text/markdown", "") for output in cell.outputs)


# What there is


def names_in(source):
    """Every name that a piece of Python defines or uses: variables, parameters, attributes, keywords, imports."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg | ast.keyword):
            found.add(node.arg)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found |= {*node.name.split("."), node.asname or node.name}
    return found


@functools.cache
def course_names():
    """The names of utils, tests and tools, their modules, and the strings of utils that are names, as of scores."""
    found = set()
    for folder in ("utils", "tests", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            found |= names_in(source) | {path.stem, path.parent.name}
            if folder == "utils":
                found |= {text for text in strings_of(source) if text.isidentifier()}
    return found


@functools.cache
def course_classes():
    """The classes that modules of utils define or import, by name."""
    found = {}
    for path in sorted((ROOT / "utils").rglob("*.py")):
        place = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found |= {name: value for name, value in vars(importlib.import_module(place)).items() if inspect.isclass(value)}
    return found


@functools.cache
def course_files():
    """The files and folders of the course, each as a path that begins and ends with a slash."""
    places = (path.relative_to(ROOT) for path in ROOT.rglob("*"))
    return {f"/{place}/" for place in places if not SKIPPED & set(place.parts)}


def is_file(name):
    """Whether this is a file or folder of the course, by its path or the end of it."""
    return any(place.endswith(f"/{name.rstrip('/')}/") for place in course_files())


def is_name(name, own):
    """Whether a name is one of the text's own code, of the course, of Python or of torch."""
    if name in own | SYMBOLS | course_names() or keyword.iskeyword(name):
        return True
    return any(hasattr(place, name) for place in (builtins, torch, nn, F, torch.Tensor, math))


def is_attribute(name, own):
    """Whether some object may have an attribute of this name."""
    return name in own | course_names() or any(hasattr(cls, name) for cls in OBJECTS)


def is_there(home, names):
    """Whether a chain of attributes can be looked up from a module or a class."""
    for name in names:
        if inspect.ismodule(home) and not hasattr(home, name) and hasattr(home, "__path__"):
            try:
                importlib.import_module(f"{home.__name__}.{name}")
            except ModuleNotFoundError:
                return False
        if not hasattr(home, name):  # an object may still have what its class has not, such as `Encoder.state_dim`
            return inspect.isclass(home) and f"self.{name}" in textwrap.dedent(inspect.getsource(home))
        home = getattr(home, name)
    return True


# What is mentioned and is not there


def unknown_in(code, own=frozenset()):
    """The names in one mention that do not exist; none where it does not look like Python or like a file."""
    if FILE.fullmatch(code):
        return [] if is_file(code) else [code]
    try:
        tree = ast.parse(f"tensor{code}" if re.match(r"\.[a-zA-Z]", code) else code)
    except SyntaxError:
        return []  # an operator, a command with options, a formula
    if tree.body and isinstance(getattr(tree.body[0], "value", None), ast.List | ast.Tuple | ast.Set | ast.Dict):
        return []  # a shape, or tokens in a row
    finder = Unknown(own)
    finder.visit(tree)
    return finder.found


class Unknown(ast.NodeVisitor):
    """Collects in `found` the names of a piece of Python that do not exist."""

    def __init__(self, own):
        self.own, self.found = own, []

    def note(self, name, exists):
        if not exists:
            self.found.append(name)

    def visit_Name(self, node):
        self.note(node.id, is_name(node.id, self.own))

    def visit_keyword(self, node):
        self.note(node.arg, node.arg is None or is_name(node.arg, self.own))
        self.visit(node.value)

    def visit_Attribute(self, node):
        names, first = [node.attr], node.value
        while isinstance(first, ast.Attribute):
            names, first = [first.attr, *names], first.value
        if isinstance(first, ast.Name):
            home = LIBRARIES.get(first.id) or course_classes().get(first.id)
            if first.id == "utils":
                home = importlib.import_module("utils")
            if home is not None:
                self.note(".".join([first.id, *names]), is_there(home, names))
                return
        self.visit(first)
        for name in names:
            self.note(name, is_attribute(name, self.own))

    def visit_Import(self, node):
        for alias in node.names:
            self.imported(alias.name)

    def visit_ImportFrom(self, node):
        if self.imported(node.module):
            home = importlib.import_module(node.module)
            for alias in node.names:
                self.note(f"{node.module}.{alias.name}", is_there(home, [alias.name]))

    def imported(self, module):
        try:
            importlib.import_module(module)
        except ModuleNotFoundError:
            self.found.append(module)
            return False
        return True


def missing_from(texts, own=frozenset()):
    """What texts mention that does not exist: (mention, name) pairs."""
    return sorted({(code, name) for text in texts for code in mentions(text) for name in unknown_in(code, own)})


# The texts of the course


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_name_in_a_notebook_exists(path):
    notebook = read(path)
    assert missing_from(texts_of(notebook), names_in(code_of(notebook))) == []


def test_every_name_in_the_readme_exists():
    assert missing_from([(ROOT / "README.md").read_text(encoding="utf-8")]) == []


@pytest.mark.parametrize(
    "path", sorted((ROOT / "utils").rglob("*.py")), ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_every_name_in_the_texts_of_utils_exists(path):
    """Docstrings, hints, leads and error messages."""
    source = path.read_text(encoding="utf-8")
    assert missing_from(strings_of(source), names_in(source)) == []


# The checker


def notebook_of(markdown, code="", output=""):
    """A notebook of one text cell and one code cell."""
    cell = nbformat.v4.new_code_cell(code)
    cell.outputs = [nbformat.v4.new_output("display_data", {"text/markdown": output})]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(markdown), cell])


def missing_from_notebook(*parts):
    notebook = notebook_of(*parts)
    return [name for _, name in missing_from(texts_of(notebook), names_in(code_of(notebook)))]


@pytest.mark.parametrize(
    "code",
    [
        "scaled_dot_product_attention", "AdditiveAttention.forward", "encoder.state_dim", "Encoder.state_dim",
        "utils.page.caption", "import utils.attention", "from utils.models import Encoder, Seq2Seq", "nn.GRU",
        "F.cross_entropy", "nn.Linear.forward", "#",
        "torch.nn.functional.softmax(scores, dim=-1)", "tensor.tril(diagonal=...)", "masked_fill", ".data", ".T",
        "x.transpose(-2, -1)", "weights @ V", "~mask", "dim=-1", "None", "return", "random.Random", "int",
        "check(..., strict=True)", "utils/", "utils/attention.py", "attention.py", "notebooks/", "README.md", ".ci/run",
        "(B, T_q, T_k)", "[bos, a, b]", "+=", "-1e9", "pip install torch", "(token_ids != pad_id).unsqueeze(1)",
        "Seq2Seq(encoder, target_size, embed_dim, decoder_dim)", "math.sqrt(d_k)", "model.greedy(source)",
    ],
)  # fmt: skip
def test_what_exists_is_known(code):
    assert unknown_in(code) == []


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("scaled_dot_product_atention", "scaled_dot_product_atention"),
        ("scaled_dot_product_atention(Q, K, V)", "scaled_dot_product_atention"),
        ("create_causal_mask(1, key_lenn)", "key_lenn"),
        ("plot_attention(attn_weights, tokns=tokens)", "tokns"),
        ("nn.MultiHeadAttention", "nn.MultiHeadAttention"),  # the module of torch has a small h
        ("F.scaled_dot_product", "F.scaled_dot_product"),
        ("torch.sofmax(scores, dim=-1)", "torch.sofmax"),
        ("torch.nn.functionall.softmax", "torch.nn.functionall.softmax"),
        ("x.transpse(-2, -1)", "transpse"),
        (".dataa", "dataa"),
        ("encoder.state_dimension", "state_dimension"),
        ("Encoder.state_dims", "Encoder.state_dims"),
        ("LuongAttention.foward", "LuongAttention.foward"),
        ("encoderr.state_dim", "encoderr"),
        ("utils.pages.caption", "utils.pages.caption"),
        ("utils.page.captions", "utils.page.captions"),
        ("import utils.atention", "utils.atention"),
        ("from utils.models import Encoders", "utils.models.Encoders"),
        ("from utils.modells import Encoder", "utils.modells"),
        ("utils/atention.py", "utils/atention.py"),
        ("attentions.py", "attentions.py"),
        ("notebook/", "notebook/"),
        (".ci/runs", ".ci/runs"),
        ("keepdims_=True", "keepdims_"),
        ("weightz @ V", "weightz"),
        ("masked_fil(mask, 0).softmax(dim=-1)", "masked_fil"),
        ("scores.masked_fill(~maskk, 0).sofmax(dim=-1)", "sofmax"),
        ("math.sqroot(d_k)", "math.sqroot"),
        ("random.Randoms", "random.Randoms"),
    ],
)
def test_what_does_not_exist_is_named(code, name):
    assert name in unknown_in(code)


def test_a_name_of_the_notebooks_own_code_is_known_there_and_nowhere_else():
    code = "def kitten_score(whiskers):\n    paws = whiskers.purr\n    return paws"
    text = "`kitten_score(whiskers=3)` returns `paws`, from `whiskers.purr`"
    assert missing_from_notebook(text, code) == []
    assert missing_from_notebook(text) == ["kitten_score", "whiskers", "paws", "purr", "whiskers"]


def test_every_text_of_a_notebook_is_read():
    code = 'caption(f"`nowhere_{1}` and `in_caption` {2}")\npredict("`in_question`?", ["`in_option`"])'
    found = missing_from_notebook("``in_double``, `in_text`", code, "**Wrong.** `in_output` is not there")
    assert found == ["in_caption", "in_double", "in_option", "in_output", "in_question", "in_text"]


def test_blocks_of_code_and_words_without_backquotes_are_not_mentions():
    assert mentions("a \n```python\nx = `y`\n```\nand `z` or ``a `b` c``; zz") == ["z", "a `b` c"]
    assert missing_from(["```\nnothing_of_this()\n```"]) == []


def test_a_slip_in_any_mention_of_the_course_is_noticed():
    """Every single name that the texts mention, with its last letter doubled, or two letters exchanged."""
    notebooks = [read(path) for path in NOTEBOOKS]
    texts = [text for notebook in notebooks for text in texts_of(notebook)]
    texts += [text for path in (ROOT / "utils").rglob("*.py") for text in strings_of(path.read_text(encoding="utf-8"))]
    own = set().union(*(names_in(code_of(notebook)) for notebook in notebooks))
    names = {code for text in texts for code in mentions(text) if re.fullmatch(r"[a-z]\w{3,}", code)}
    slips = {name + name[-1] for name in names} | {name[:-2] + name[-1] + name[-2] for name in names} - names
    missed = [slip for slip in slips if not unknown_in(slip, own)]
    assert len(names) > 20
    assert len(missed) <= 0.02 * len(slips), missed
