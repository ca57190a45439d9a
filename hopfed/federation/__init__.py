"""Federations: one contract for every method, one round loop, and engines that carry it out.

contract : what a method and an engine offer, the context of every step, what can go wrong in it.
messages : what a message may look like, how its bytes are counted; arrays as bytes.
rounds : one round of a federation: who takes part, and from its state to the next.
aggregate : means over clients.
engines : local (in process), pool (worker processes), dask (a cluster), flower (its messages).
machines : `hopfed serve` and `hopfed join`, over gRPC.
"""

from hopfed._lib.lazy import offers

__getattr__, __dir__ = offers(__name__, __path__)
