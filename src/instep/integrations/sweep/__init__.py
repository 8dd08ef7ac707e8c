"""Sweeps: many runs of one `build`, whose parameters Optuna chooses."""
