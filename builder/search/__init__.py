"""Search instead of failing: which operators hurt, what to try next, and what came of it."""
