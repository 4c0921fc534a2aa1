"""What an answer is given: the inputs of every case, from a seed."""

import zlib

import numpy as np

__all__ = ["PUBLIC_SEED", "inputs_for"]

# The live check's inputs are the same for everybody and every run; a grader brings its own.
PUBLIC_SEED = 0


def inputs_for(exercise, seed=PUBLIC_SEED):
    """Return the inputs of every case as a list of tuples; the same seed gives the same inputs."""
    salt = zlib.crc32(exercise.id.encode())
    return [case.make(np.random.default_rng([seed, salt, i])) for i, case in enumerate(exercise.cases)]
