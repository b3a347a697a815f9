"""What somebody tries who wants more than he may: each attack by its name, against a master with people in it."""
