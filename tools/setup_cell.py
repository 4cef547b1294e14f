# Setup: finds the course around this notebook, or fetches it. Running it again changes nothing.
import os
import subprocess
import sys
from pathlib import Path

COURSE_REPO = os.environ.get("COURSE_REPO", "@ADDRESS@")
COURSE_FILE = "attention-from-the-root.txt"  # only this course has it


class CourseMissing(Exception):
    def _render_traceback_(self):  # Jupyter then shows the sentence, without a traceback
        return [str(self)]


def find_course():
    here = Path.cwd()
    clone = here / "attention-from-the-root"
    for folder in (here, *here.parents, clone):
        if (folder / COURSE_FILE).is_file():
            return folder
    if clone.exists():
        raise CourseMissing(f"{clone} is there but does not hold the course: move it away, then run this cell again.")
    command = ["git", "clone", "--quiet", "--depth=1", COURSE_REPO, str(clone)]
    try:
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "GIT_TERMINAL_PROMPT": "0"})
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", b"").decode(errors="replace").strip() or str(error)
        raise CourseMissing(
            f"The course is not around this notebook and could not be fetched from {COURSE_REPO}. Check the "
            f"connection, or open the notebook inside a copy of the course. Git says: {said.splitlines()[-1]}"
        ) from None
    return clone


course = find_course()
sys.path[:] = [str(course), *(path for path in sys.path if path != str(course))]
package = getattr(sys.modules.get("utils"), "__file__", None)
if not package or Path(package).parent != course / "utils":  # other packages bear that name
    for name in [name for name in sys.modules if name.split(".")[0] == "utils"]:
        del sys.modules[name]

from utils.course import ROOT, install_missing_packages

if course.resolve() != ROOT:
    raise CourseMissing(f"Python imports another package named utils, from {ROOT}: restart the kernel, then run this.")
if problem := install_missing_packages():
    raise CourseMissing(problem)
print("The course is ready.")
