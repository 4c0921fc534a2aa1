"""Verdicts computed in a process that never runs a learner's code. Importing this loads nothing else."""
