"""Local training: one client after the other, or all clients of one architecture together."""
