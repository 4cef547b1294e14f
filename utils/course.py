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
    lessons, _, _ = (ROOT / "requirements.txt").read_text(encoding="utf-8").partition(TEST_SECTION)
    lines = [line.strip() for line in lessons.splitlines()]
    return [line for line in lines if line and not line.startswith("#") and not _installed(line.split("==")[0])]


def install_missing_packages():
    """Install what a lesson needs and does not find; touch nothing that is there, whatever its version.

    Returns:
        The requirements that are still missing afterwards, as they are without a connection.
    """
    missing = missing_packages()
    if missing:
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *missing], check=False, capture_output=True)
    return missing_packages() if missing else []


def _installed(name):
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
