"""Memories of a client's examples: features and labels in, class probabilities out."""
