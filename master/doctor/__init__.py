"""`muster node doctor`: looks closely at nodes and says what ails each, and the cure."""
