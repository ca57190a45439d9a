"""Commands of the theory: `theory`, with `theory plan`."""
