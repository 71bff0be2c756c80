"""The papers' claims as runs that anyone can repeat: the only place in the package where results are numbers."""
