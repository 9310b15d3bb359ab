"""SPEC 7: file systems whose locks do not hold between machines are refused by whoever would write."""

from __future__ import annotations

import io
import os

import pytest

from spoolctl.store import place

TABLE = b"""\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw,discard
30 22 0:27 / /mnt/with\\040blank\\134and\\011tab rw - nfs4 server:/export rw,vers=4.2
31 22 0:28 / /mnt/same rw master:3 propagate_from:1 - tmpfs tmpfs rw
32 31 0:29 /sub /mnt/same rw - 9p drvfs rw,aname=drvfs
nonsense without the mark
33 22 0:30 /a
"""


def test_the_table_of_mounts_is_read_with_its_escapes_and_optional_fields(monkeypatch):
    monkeypatch.setattr("builtins.open", lambda *words: io.BytesIO(TABLE))
    assert place.mounts() == [
        (os.makedev(8, 1), "/", "ext4"),
        (os.makedev(0, 27), "/mnt/with blank\\and\ttab", "nfs4"),
        (os.makedev(0, 28), "/mnt/same", "tmpfs"),
        (os.makedev(0, 29), "/mnt/same", "9p"),
    ]


@pytest.mark.parametrize("kind", ["9p", "virtiofs", "drvfs", "nfs", "nfs4", "cifs", "smb3", "fuse.sshfs"])
def test_what_would_write_refuses_a_remote_file_system_and_reading_does_not(spool, monkeypatch, kind):
    job = spool.add()
    device = os.stat(spool.path).st_dev
    table = [(device, "/", "ext4"), (device, str(spool.path), kind)]
    monkeypatch.setattr(place, "mounts", lambda: table)
    for words in (["work", "--drain"], ["work", "--once"], ["add", "--", "true"]):
        error = spool.run(words[0], "--json", *words[1:], check=3).error
        assert error["code"] == "DB_INVALID"
        assert kind in error["message"]
        assert "--db" in error["message"]
    # A new one is not even made there, however deep below the mount it would lie.
    new = spool.path / "a" / "b" / "queue.db"
    assert spool.run("add", "--json", "--db", str(new), "--", "true", check=3).code == "DB_INVALID"
    assert not (spool.path / "a").exists()
    assert spool.json("show", str(job))["job"]["state"] == "queued"
    assert spool.json("list")["count"] == 1


@pytest.mark.skipif(not os.path.exists("/proc/self/mountinfo"), reason="needs the table of mounts")
def test_the_file_system_here_is_found_for_paths_that_are_still_to_be_made(tmp_path):
    here = place.filesystem(str(tmp_path))
    assert here == place.filesystem(str(tmp_path / "not" / "there" / "yet.db"))
    assert here is not None and here not in place.REMOTE
    assert place.filesystem("/proc") == "proc"
