"""CUDA kernels: CUDA C++ through CuPy, with the layouts and draws of the CPU.

Arrays are CuPy arrays, passed on by the public functions of `hopfed.kernels`. Importing this
package needs neither CuPy nor a device.

Only the module `device` uses CuPy: launches, matrix products, memory; the tests have the
same interface on the host. `hopfed.kernels.dispatch.TABLE` lists the functions of other modules.
"""
