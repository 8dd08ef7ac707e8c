"""Runs while they train: a small server that only reads."""
