"""What every package uses: arrays, random streams, settings, files; no name here is public."""
