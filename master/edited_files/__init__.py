"""Files that people edit: read strictly, changed without losing edits, and who owns them."""
