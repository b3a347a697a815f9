"""The durable state: the journal, the three queue files, the history, and reading what earlier masters left."""
