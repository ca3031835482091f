"""MLflow's registry API over our models and versions, for its unmodified clients."""
