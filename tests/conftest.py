"""Settings for all tests: figures without a screen, and fonts that matplotlib has found before any kernel starts.

Where matplotlib looks for fonts for the first time, it may say so on stderr, and no stored notebook has that.
A file of tests belongs to one worker, as a notebook's cells must, but the browser tests are spread by notebook.
"""

import re
import types

import matplotlib
import matplotlib.font_manager
import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
from xdist.scheduler import LoadFileScheduling

from utils import training

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def one_thread():
    """Tensors this small are slower on several threads than on one, the more so beside another process."""
    with training.one_thread():
        yield


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """An IPython shell, so that cells are cells and what is displayed can be read."""
    config = Config()
    config.HistoryManager.enabled = False
    folder = str(tmp_path_factory.mktemp("ipython"))
    yield InteractiveShell.instance(config=config, ipython_dir=folder, user_module=types.ModuleType("reader"))
    InteractiveShell.clear_instance()


class ByFileOrLesson(LoadFileScheduling):
    """By file; the tests that open a notebook in a browser by notebook, so that two cores share them."""

    def _split_scope(self, nodeid):
        lesson = re.search(r"test_browser\.py.*\[(\d\d_\w+)\]", nodeid)
        return lesson[1] if lesson else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return ByFileOrLesson(config, log)
