"""`muster node doctor`: examines nodes closely and reports what is wrong with each, and the cure."""
