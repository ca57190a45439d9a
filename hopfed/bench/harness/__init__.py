"""How a pair is measured: from a `record.Pair` and sizes to times, ratios and shares of ceilings.

record     what a pair is: inputs, ways, costs by formula, agreement, sizes, targets
devices    the CPU, and a CUDA device where there is one
machine    what it was measured on, and memory
ceilings   copy bandwidth, matrix rate and bit rate, measured first
timing     shortest times of calls taken in turn
measure    all ways at one size
report     all sizes of all pairs, exponents and targets, as a run
"""
