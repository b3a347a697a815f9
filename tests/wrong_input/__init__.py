"""Wrong input of every kind to real processes: one clear line each, and nothing lost."""
