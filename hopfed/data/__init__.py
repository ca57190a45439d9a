"""Where examples come from: the synthetic channel (`channel`) and files (`readers`)."""
