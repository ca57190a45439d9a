"""The kernels on the CPU: loops compiled by Numba, and the threads that run their tiles.

NumPy arrays, laid out and checked by the public functions of `hopfed.kernels`, come in; the loops
fill output arrays that the caller made. Importing this package loads no Numba.
"""

import os
import sys

# Numba obeys a .numba_config.yaml of the current folder, whoever put it there, and may unpickle or
# import what it names. Variables come before that file, and empty ones stand for what is usual.
if "numba" not in sys.modules:
    for _name in ("NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES"):
        os.environ.setdefault(_name, "")
