"""Settings for all tests: figures without a screen, and fonts that matplotlib has found before any kernel starts.

Where matplotlib looks for fonts for the first time, it may say so on stderr, and no stored notebook has that.
"""

import matplotlib
import matplotlib.font_manager
import pytest
import torch

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def one_thread():
    """Tensors this small are slower on several threads than on one, the more so beside another process."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
