"""Whether a queue can be used from here: the checks of `doctor`, in order. They only look.

Each is (id, ids it needs, module whose function of that name it is); `runner` loads them, so that the ids
can be told without what the checks are made of.
"""

CHECKS = (
    ("config_valid", (), "place"),
    ("db_path_resolved", ("config_valid",), "place"),
    ("spool_directory_writable", ("db_path_resolved",), "place"),
    ("database_exists", ("db_path_resolved",), "place"),
    ("sqlite_open_readwrite", ("database_exists",), "database"),
    ("schema_version", ("sqlite_open_readwrite",), "database"),
    ("contract_metadata", ("schema_version",), "database"),
    ("sqlite_version", (), "machine"),
    ("sqlite_wal_reset", (), "machine"),
    ("filesystem_type", ("db_path_resolved",), "place"),
    ("permissions", ("db_path_resolved",), "place"),
    ("worker_identity", (), "machine"),
    ("wal_size", ("sqlite_open_readwrite",), "database"),
    ("disk_space", ("db_path_resolved",), "machine"),
)
DEEP = (
    ("quick_check", ("sqlite_open_readwrite",), "deep"),
    ("counts", ("schema_version",), "deep"),
    ("output_size", ("db_path_resolved",), "deep"),
)
