"""A stand-in for a CUDA device on the host, compiled from the same kernels."""
