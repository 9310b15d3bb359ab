"""What scripts/bench.py is made of: the bars, the board they are shown on, the tools that are measured,
and one module a kind of measurement.
"""
