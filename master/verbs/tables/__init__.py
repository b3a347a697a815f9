"""The verbs, one file a noun, a line each. `master.verbs.table` says what the lines mean, and how the files are
found."""
