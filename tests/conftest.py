"""Settings for all tests: figures without a screen, and fonts that matplotlib has found before any kernel starts.

Where matplotlib looks for fonts for the first time, it may say so on stderr, and no stored notebook has that.
"""

import matplotlib
import matplotlib.font_manager

matplotlib.use("Agg")
