"""Parts shared by several experiments: cells, planted data, statistics."""
