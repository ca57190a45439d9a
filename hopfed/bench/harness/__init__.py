"""Measurement of a pair: times, ratios and shares of the machine's ceilings.

record     `Pair`: inputs, ways, costs by formula, tolerances, sizes, targets
devices    the CPU, and a CUDA device if there is one
machine    description of the machine, and memory of the process
ceilings   copy bandwidth, matrix rate and bit rate, measured first
timing     shortest times of calls made in turn
measure    all ways at one size
report     all sizes of all pairs, exponents and targets, as a run
"""
