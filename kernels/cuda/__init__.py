"""The kernels on an NVIDIA GPU: CUDA C++ through CuPy, in the layouts and draws of the CPU.

Arrays are CuPy arrays, packed data a `bits.DevicePacked`; the public functions of `hopfed.kernels`
pass them on, and `hopfed.spectral.operators`, `hopfed.spectral.eigenpairs` and
`hopfed.spectral.shuffle_null` stay on the device of the arrays they are given. Importing this
package needs neither CuPy nor a device.

    device     launching, matrix products, memory: the one module that talks to CuPy;
               the tests have the same interface on the host

`hopfed.kernels.dispatch.DEVICE` is the table of what each of the other modules does.
"""
