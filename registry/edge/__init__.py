"""Where a request becomes a transaction: who asks, one commit, one answer per idempotency key."""
