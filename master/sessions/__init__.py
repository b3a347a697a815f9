"""Sessions: their protocol, the session that speaks JSON-RPC, and subscriptions."""
