"""Steps of a build: pure operations on files, each in a process of its own (`python -m builder.steps`)."""
