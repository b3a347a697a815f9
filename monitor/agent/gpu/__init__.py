"""The node's GPUs: where their figures come from, whose the processes on them are, and what is wrong with them."""
