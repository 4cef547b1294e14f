"""Settings for all tests: figures without a screen, and fonts that matplotlib has found before any kernel starts.

Where matplotlib looks for fonts for the first time, it may say so on stderr, and no stored notebook has that.
"""

import matplotlib
import matplotlib.font_manager
import pytest

from utils import training

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def one_thread():
    """Tensors this small are slower on several threads than on one, the more so beside another process."""
    with training.one_thread():
        yield
