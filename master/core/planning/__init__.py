"""Planning: which task starts where and when, why the others wait, and estimates."""
