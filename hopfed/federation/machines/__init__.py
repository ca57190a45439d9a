"""A federation across machines: `hopfed serve` and `hopfed join`, over gRPC with mutual TLS.

A client opens one stream to the server; questions come down in it and answers go up. The
certificate that a client shows is its identity, so a stranger ends in the handshake, before a byte
is read. Clients open no port, and run no code of the server.

keys : an authority, the server's certificate and a certificate for each client.
wire : questions and answers as bytes; arrays travel as they lie in memory, never as a pickle.
server : the server's side, the engine whose steps the clients make.
client : the client's side: what it does with a question, what its owner hears, its process.
"""
