"""What people type behind a command, read for several commands alike: ids, fields of a task, keys of a node."""
