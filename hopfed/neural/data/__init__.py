"""Data for neural federations: `load` a dataset, divide it by `partition`.

Data pass through the modules in this order. `sources` finds a dataset, which `archives`,
`features`, `folders`, `leaf` or `hub` reads into a `Dataset`; `arrays` makes one of arrays, which
`given` keeps. `schemes` and `allocate` assign examples to clients. `splits` divides each client's
examples into training, validation and test. `partitions` holds the result. `tensors` puts it on a
device; the other modules use only NumPy.
"""

from hopfed.neural.data.arrays import from_arrays
from hopfed.neural.data.dataset import Dataset
from hopfed.neural.data.partitions import Partition, hold_out, partition
from hopfed.neural.data.sources import load

__all__ = ["Dataset", "Partition", "from_arrays", "hold_out", "load", "partition"]
