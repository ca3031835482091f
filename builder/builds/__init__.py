"""One build: which steps, in which order, from which inputs, and how each is run."""
