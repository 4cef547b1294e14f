"""Where the course is, and what must be installed for its lessons. Imports nothing that may be missing."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARKER = "attention-from-the-root.txt"  # a file that only this course has; it holds the course's address
TEST_SECTION = "# For the tests"  # the line of requirements.txt below which lessons need nothing


def address():
    """The address that the course is cloned from, as `tools/stamp.py` wrote it."""
    return (ROOT / MARKER).read_text(encoding="utf-8").strip()


def missing_packages():
    """The lines of requirements.txt that a lesson needs and that are not installed in any version."""
    lessons, found, _ = (ROOT / "requirements.txt").read_text(encoding="utf-8").partition(TEST_SECTION)
    if not found:
        raise ValueError(f"requirements.txt has no line {TEST_SECTION!r}, below which stands what only tests need")
    lines = [line.strip() for line in lessons.splitlines()]
    return [line for line in lines if line and not line.startswith("#") and not _installed(line.split("==")[0])]


def install_missing_packages():
    """Install what a lesson needs and does not find. What is there stays, whatever its version.

    Returns:
        Nothing where all is there now; otherwise a sentence that names what is still missing, and pip's reason.
    """
    missing = missing_packages()
    if not missing:
        return None
    command = [sys.executable, "-m", "pip", "install", "--quiet", *missing]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    still_missing = missing_packages()
    if not still_missing:
        return None
    reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    return f"These packages are missing and could not be installed: {', '.join(still_missing)}. pip says: {reason}"


def _installed(name):
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
