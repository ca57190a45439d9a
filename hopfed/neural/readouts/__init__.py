"""Linear read-outs of bits that are computed from sums: ridge regression as a dreamed memory.

Images come in as bits; operators and class sums of clients go up, with noise where it is asked for;
a read-out for all, and what sets its ridge and its rank, comes out.
"""
