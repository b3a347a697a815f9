"""The three ports: who comes in, what they speak, and what they are told without asking."""
