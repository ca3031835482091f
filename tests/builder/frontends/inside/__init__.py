"""Run inside worker environments: models are made and imported there, and what came of it is written down."""
