"""A tester that knows an executable by what it says of itself: `capabilities --json` and `schema --json`.

Nothing here imports the tool under test. Run it by hand with `python tests/contract_tester`.
"""
