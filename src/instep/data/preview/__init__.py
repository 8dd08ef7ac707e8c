"""What one sees of data before a run is spent on it."""
