"""Who people are to the master, and what they did."""
