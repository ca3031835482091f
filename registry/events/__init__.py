"""Events: published in order after the commit, streamed, polled, and delivered to webhooks."""
