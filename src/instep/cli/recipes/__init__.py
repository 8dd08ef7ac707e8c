"""The built-in recipe, its data, and the file that `instep init` writes."""
