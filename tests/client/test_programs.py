"""The programs of US 6,910,033, tables 11 and 14, as they stand in examples/."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from server.servers import served

QUOTES = Path(__file__).parents[2] / "examples" / "quotes"


def test_us6910033_tables_11_and_14(tmp_path):
    def program(name):
        command = [sys.executable, str(QUOTES / name), server.url]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    with served(tmp_path) as server:
        with program("subscriber.py") as subscriber:
            assert subscriber.stdout.readline() == b"subscribed\n"
            for _ in range(2):
                with program("publisher.py") as publisher:
                    assert (publisher.wait(60), publisher.stdout.read()) == (0, b"")
            assert subscriber.stdout.read() == b"The price of LU is 95.73\n" * 2
            assert subscriber.wait(60) == 0
        with server.http() as http:  # every notification is kept, also those nobody asked for
            assert len(http.get("/api/channels/quotes/messages").text.splitlines()) == 4
