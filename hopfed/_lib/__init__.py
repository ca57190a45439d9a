"""Parts that every package uses: arrays, random streams, settings, files; no name is public."""
