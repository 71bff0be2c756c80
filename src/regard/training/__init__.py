"""From a model and data to a run folder: the loop, schedules, checkpoints."""
