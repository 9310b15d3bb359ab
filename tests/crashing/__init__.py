"""Kill a call at every step it takes, and see what it left: the machinery of tests/crash."""
