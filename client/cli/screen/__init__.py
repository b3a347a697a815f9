"""The terminal: what is shown there, asked there, and Ctrl-C."""
