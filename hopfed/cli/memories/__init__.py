"""Commands of associative memory: `store` and `recall`."""
