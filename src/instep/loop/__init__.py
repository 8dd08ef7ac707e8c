"""One update and one evaluation. Nothing here knows of files or of the clock."""
