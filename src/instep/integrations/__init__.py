"""Outside packages that Instep works with: one file for each, imported where it is used."""
