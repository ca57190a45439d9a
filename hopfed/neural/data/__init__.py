"""Data of neural federations: `load` a dataset or give arrays, divide it by `partition`.

`sources` reads files, folders and the hub into a `Dataset`; `dataset` makes one of arrays and of
PyTorch's datasets. `partitions` divides it among clients, `splits` divides each client's examples,
and `tensors` puts them on a device; the other modules use only NumPy.
"""

from hopfed.neural.data.dataset import Dataset, from_arrays, from_pairs
from hopfed.neural.data.partitions import Partition, partition
from hopfed.neural.data.sources import load

__all__ = ["Dataset", "Partition", "from_arrays", "from_pairs", "load", "partition"]
