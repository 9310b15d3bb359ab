"""The contract as data and pure functions: no I/O, no SQL."""
