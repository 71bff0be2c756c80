"""From a model and a source to hypotheses: greedy, beam, sampling."""
