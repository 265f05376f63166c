"""What a broker keeps of messages: a log for each channel. A protocol, and its SQLite form."""

from tamis.log.log_protocol import Log, Remembered
from tamis.log.sqlite_log import SqliteLog

__all__ = ["Log", "Remembered", "SqliteLog"]
