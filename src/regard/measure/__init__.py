"""How good outputs are: text scores, error rates, likelihood, alignment. It knows no model and no task."""
