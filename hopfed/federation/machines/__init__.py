"""A federation across machines: `hopfed serve` and `hopfed join`, over gRPC with mutual TLS."""
