"""The kernels on an NVIDIA GPU: CUDA C++ through CuPy, in the layouts and draws of the CPU.

Arrays are CuPy arrays; the public functions of `hopfed.kernels` pass them on. Importing this
package needs neither CuPy nor a device.

`device` is the one module that talks to CuPy: launches, matrix products, memory; the tests have the
same interface on the host. `hopfed.kernels.dispatch.TABLE` names what the other modules do.
"""
