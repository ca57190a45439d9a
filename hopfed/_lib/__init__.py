"""What every package uses: arrays of any library, random streams, settings, files that are written.

Nothing here knows of operators or federations, and no name of this package is public.
"""
