"""Optimizers set up right."""
