"""Commands of a federation across machines: `serve`, `join` and `certs`."""
