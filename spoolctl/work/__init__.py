"""Runs jobs and judges processes: the only fork, signal and thread."""
