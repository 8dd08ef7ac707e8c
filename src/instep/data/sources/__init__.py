"""What users pass as data, each kind made into one that gives samples by index or in its own order."""
