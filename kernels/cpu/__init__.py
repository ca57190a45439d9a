"""CPU kernels: loops compiled by Numba, and the threads that run their tiles.

Inputs are NumPy arrays, prepared and checked by the public functions of `hopfed.kernels`; the loops
fill output arrays made by the caller. Importing this package loads no Numba.
"""

import os
import sys

# Numba reads a .numba_config.yaml in the current folder, which may come from anyone and may make it
# unpickle or import code. Environment variables override it, and empty ones mean the defaults.
if "numba" not in sys.modules:
    for _name in ("NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES"):
        os.environ.setdefault(_name, "")
