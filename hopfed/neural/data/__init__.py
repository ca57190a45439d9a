"""Data of neural federations: `load` a dataset or pass arrays, and divide it by `partition`."""

from hopfed.neural.data.dataset import Dataset, from_arrays, from_pairs
from hopfed.neural.data.partitions import Partition, partition
from hopfed.neural.data.sources import load

__all__ = ["Dataset", "Partition", "from_arrays", "from_pairs", "load", "partition"]
