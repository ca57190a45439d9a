"""Runs an experiment over its seeds and keeps a ledger from which it can be resumed."""
