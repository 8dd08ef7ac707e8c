"""The built-in recipe, and the file that `instep init` writes."""
