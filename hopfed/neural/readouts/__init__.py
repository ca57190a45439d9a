"""Linear read-outs of bits that are computed from sums: ridge regression as a dreamed memory.

Modules here turn images into bits, compute operators and class sums of clients, with noise for
privacy if wanted, and make a read-out from them, with a choice of its ridge and rank.
"""
