"""The Hebbian read-out: bits of examples, sums of them, and classifiers in closed form."""
