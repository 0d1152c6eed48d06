"""Frazil beside PyIceberg: `python -m benchmarks`. Ratios of one run mean something, seconds little."""
