"""People: users, groups, tokens, owners of tasks, projects and quotas."""
