"""Exercises that diagnose. `check`, `hint`, `solution` and `use` take an exercise's id; `predict` asks a question."""

from utils.exercises.checking import check, hint, solution, use
from utils.exercises.predictions import predict

__all__ = ["check", "hint", "predict", "solution", "use"]
