from pathlib import Path

from hopfed import kernels as kernels
from hopfed import sklearn as sklearn
from hopfed import theory as theory
from hopfed.archetypes.archetypes import Archetypes as Archetypes
from hopfed.errors import HopfedError as HopfedError
from hopfed.hopfield.federation import simulate as simulate
from hopfed.memory.associative import AssociativeMemory as AssociativeMemory
from hopfed.recovery.compare import compare as compare
from hopfed.recovery.recover import recover as recover
from hopfed.spectral.spectrum import spectrum as spectrum
from hopfed.tables.reading import read_table as read_table

__version__: str

def load(path: str | Path) -> Archetypes | AssociativeMemory: ...
