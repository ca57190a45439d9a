"""Local training: client by client, or all clients of one architecture at once."""
