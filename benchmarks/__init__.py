"""Frazil beside PyIceberg: `python -m benchmarks`. Only ratios of one run mean anything; seconds belong to a machine."""
