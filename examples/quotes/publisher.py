"""The publisher program of US 6,910,033, table 11: two notifications on quotes.nyse.

`python examples/quotes/publisher.py [SERVER]`, for a broker that runs.
"""

from __future__ import annotations

import sys

from ticks import CHANNEL, FORM, SUBJECT

from tamis.client import Agent
from tamis.errors import TamisError


def main(server: str) -> None:
    with Agent(server) as proxy:
        proxy.put_channel(CHANNEL, FORM)
        by_name = {"symbol": "LU", "price": 95.73}
        proxy.publish(CHANNEL, by_name, subject=SUBJECT)
        positions = list(proxy.channel(CHANNEL)["attributes"])  # symbol first, then price
        by_position = {positions[0]: "SNE", positions[1]: 80.18}
        proxy.publish(CHANNEL, by_position, subject=SUBJECT)


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8216")
    except TamisError as error:  # a bad channel, subject or notification: the text says which
        sys.exit(str(error))
