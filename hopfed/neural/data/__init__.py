"""Data for neural federations: `load` a dataset, divide it by `partition`.

The rooms, in the order data pass through them: `sources` finds a dataset (read by `archives`,
`folders`, `leaf` or `hub`) and makes a `Dataset` of it; `schemes` and `allocate` say who has what;
`splits` divides each client's examples; `partitions` holds the outcome; `tensors` puts it on a
device. All but the last are NumPy only.
"""

from hopfed.neural.data.dataset import Dataset
from hopfed.neural.data.partitions import Partition, hold_out, partition
from hopfed.neural.data.sources import load

__all__ = ["Dataset", "Partition", "hold_out", "load", "partition"]
