"""Write the address of a fork into everything that bears it: `python tools/stamp.py https://github.com/OWNER/REPO`.

Without an address, writes the present one again, which also brings every setup cell up to date with
`tools/setup_cell.py`.
"""

import re
import sys
from pathlib import Path

import nbformat

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from utils.course import MARKER, ROOT, address

GITHUB = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?")


def setup_cell(at):
    """The source of the setup cell, for a course at the address `at`."""
    template = (ROOT / "tools" / "setup_cell.py").read_text(encoding="utf-8")
    return template.replace("@ADDRESS@", at).rstrip()


def stamp(new):
    """Stamp the address `new` into the course; stored outputs stay as they are.

    Args:
        new: https://github.com/OWNER/REPO.

    Raises:
        ValueError: an address that is not of that form.
    """
    match = GITHUB.fullmatch(new)
    if not match:
        raise ValueError(f"address={new!r}; expected https://github.com/OWNER/REPO, which Colab can open")
    new, owner_and_repo = f"https://github.com/{match[1]}", match[1]
    old_owner_and_repo = GITHUB.fullmatch(address())[1]
    readme = ROOT / "README.md"
    readme.write_text(readme.read_text(encoding="utf-8").replace(old_owner_and_repo, owner_and_repo), encoding="utf-8")
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            if "setup" in cell.metadata.get("tags", []):
                cell.source = setup_cell(new)
            elif cell.cell_type == "markdown":
                cell.source = cell.source.replace(old_owner_and_repo, owner_and_repo)
        nbformat.write(notebook, path)
    (ROOT / MARKER).write_text(new + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    try:
        stamp(sys.argv[1] if len(sys.argv) == 2 else address())
    except ValueError as error:
        sys.exit(str(error))
