"""Where examples come from: channel and schedules, streams, pictures, files."""
