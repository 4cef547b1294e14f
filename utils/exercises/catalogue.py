"""All exercises of the course, by id."""

import difflib

from utils.exercises import (
    alignment,
    cross_attention,
    decoder_steps,
    encoder_decoder,
    leaks,
    luong_scores,
    masks,
    multi_head,
    recurrent_attention,
    scaled_dot_product,
    self_attention,
)

TOPICS = (
    encoder_decoder,
    recurrent_attention,
    luong_scores,
    alignment,
    decoder_steps,
    scaled_dot_product,
    masks,
    multi_head,
    self_attention,
    leaks,
    cross_attention,
)
EXERCISES = {exercise.id: exercise for topic in TOPICS for exercise in topic.EXERCISES}


def find(exercise_id):
    """The exercise of that id; a ValueError that names the nearest, and lists the ids, where there is none."""
    if not isinstance(exercise_id, str) or exercise_id not in EXERCISES:
        near = difflib.get_close_matches(str(exercise_id), EXERCISES, n=1)
        meant = f"did you mean {near[0]!r}? Expected" if near else "expected"
        raise ValueError(f"exercise_id={exercise_id!r} is not known; {meant} one of {', '.join(EXERCISES)}")
    return EXERCISES[exercise_id]
