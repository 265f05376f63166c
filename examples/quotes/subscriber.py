"""The subscriber program of US 6,910,033, table 14: a filter, a callback, two notifications.

`python examples/quotes/subscriber.py [SERVER]`, for a broker that runs; then start the publisher
twice.
"""

from __future__ import annotations

import sys
import threading

from ticks import CHANNEL, FORM, SUBJECT

from tamis.client import Agent, Received
from tamis.errors import TamisError


class SubscriberApp:
    def __init__(self) -> None:
        self.notifications = 0
        self.enough = threading.Event()

    def notify(self, notification: Received) -> None:
        """The callback."""
        symbol, price = (notification.attributes[name] for name in ("symbol", "price"))
        print(f"The price of {symbol} is {price}", flush=True)
        self.notifications += 1
        if self.notifications == 2:
            self.enough.set()

    def run(self, server: str) -> None:
        with Agent(server) as proxy:
            proxy.put_channel(CHANNEL, FORM)
            asked = 'symbol == "LU"'
            handle = proxy.subscribe(CHANNEL, asked, subjects=SUBJECT, callback=self.notify)
            print("subscribed", flush=True)
            self.enough.wait()
            handle.end()


if __name__ == "__main__":
    try:
        SubscriberApp().run(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8216")
    except TamisError as error:  # a bad channel, subject or filter: the text says which
        sys.exit(str(error))
