"""Where a step runs and what it can't reach: process groups, limits, walls."""
