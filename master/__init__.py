"""The master: owns the queue, plans, launches, and answers clients."""
