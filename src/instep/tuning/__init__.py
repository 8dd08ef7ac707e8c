"""Trying things out on a run and putting all back."""
