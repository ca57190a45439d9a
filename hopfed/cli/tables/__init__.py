"""Commands about tables: `recover`, and `assign`, `complete` and `export` of what it found."""
