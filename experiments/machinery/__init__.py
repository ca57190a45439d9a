"""Machinery of experiments: settings, runs over seeds, checkpoints, sweeps, pictures."""
