"""Settings for all tests: figures without a screen, and a clear word where the course is not installed."""

import matplotlib

matplotlib.use("Agg")
