"""One engine in a process of its own, and its clients. Imports `registry.contract` and `serving.runtimes`."""
