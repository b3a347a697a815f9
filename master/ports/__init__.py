"""The three ports: which connections are accepted, what they speak, and what is sent without a request."""
