"""Memories used with a network: neighbours, recall, prototypes, Gaussians and a bounded store.

Features and labels of examples come in; class probabilities or averaged memories go out.
"""
