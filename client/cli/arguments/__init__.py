"""Arguments that several commands share, and how they are read: ids, fields of a task, keys of a node."""
