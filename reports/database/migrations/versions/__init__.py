"""The migrations, oldest first: one file each, never edited once released."""
