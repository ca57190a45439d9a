"""A federation across machines: `hopfed serve` and `hopfed join`, over gRPC with mutual TLS.

A client opens one stream to the server; questions come down in it and answers go up. The
certificate that a client shows is its identity, so a stranger ends in the handshake, before a byte
is read. Clients open no port, and run no code of the server.
"""
