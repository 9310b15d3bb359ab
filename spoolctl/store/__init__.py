"""The only SQL. Every function takes a `Db` and, where it matters, `now`; none prints or waits.

`sqlite3` is the standard library's, without what it adds for dates: that would be a tenth of every call.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3 as sqlite3
else:
    try:
        import _sqlite3 as sqlite3
    except ImportError:  # not CPython
        import sqlite3  # noqa: F401
