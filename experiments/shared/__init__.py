"""What several experiments have in common: cells, planted data, statistics."""
