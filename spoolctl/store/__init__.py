"""The only SQL. Every function takes a `Db` and, where it matters, `now`; none prints or waits."""
