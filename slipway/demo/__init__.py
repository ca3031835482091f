"""The main job on a real model and real input: register, build, release, watch, roll back."""
