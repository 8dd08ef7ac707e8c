"""The doctor in other people's places: pytest and notebooks. Each file is imported by that place alone."""
