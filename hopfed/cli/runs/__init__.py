"""Commands that make run files of experiments and benchmarks, and that show any run file."""
