"""One file a model, readable next to its paper, and an explicit catalogue."""
