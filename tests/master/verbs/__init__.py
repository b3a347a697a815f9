"""What clients may ask."""
