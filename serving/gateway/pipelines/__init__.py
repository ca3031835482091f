"""Pipeline workers: processes that run one version's dear steps, so that these hold no gateway's loop."""
