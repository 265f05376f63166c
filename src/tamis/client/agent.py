"""An agent for programs without asyncio: the same, on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Literal, Self, TypeVar
from urllib.parse import quote

from tamis.client.async_agent import AsyncAgent
from tamis.client.received import Received, Subscribed

T = TypeVar("T")


class Agent:
    """Publishes and subscribes; every call waits for its answer. Safe for several threads."""

    def __init__(
        self,
        server: str = "http://127.0.0.1:8216",
        *,
        token: str = "",
        login: tuple[str, str] | None = None,
        publisher: str = "",
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="tamis")
        self._thread.start()
        self._inner = AsyncAgent(server, token=token, login=login, publisher=publisher)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._thread.is_alive():
            self.wait(self._inner.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @property
    def history(self) -> list[tuple[float, str]]:
        """When the connection came and went, and why."""
        return list(self._inner.history)

    def publish(self, channel: str, attributes: Mapping[str, Any], *, subject: str = "") -> int:
        """The sequence of the message, once it is in the broker's log."""
        return self.wait(self._inner.publish(channel, attributes, subject=subject))

    def publish_many(
        self, channel: str, messages: Sequence[Mapping[str, Any]], *, publisher: str = ""
    ) -> list[int]:
        return self.wait(self._inner.publish_many(channel, messages, publisher=publisher))

    def subscribe(
        self,
        channel: str,
        selector: str = "",
        *,
        subjects: str = ">",
        start: str | int = "now",
        durable: str = "",
        window: int = 0,
        summary: str = "",
        catch_up: Literal["all", "shortest"] = "all",
        callback: Callable[[Received], Any] | None = None,
    ) -> Messages:
        """Iterate over what it returns, or give a callback, which the agent's thread calls."""
        made = self.wait(
            self._inner.subscribe(channel, selector, subjects=subjects, start=start,
                                  durable=durable, window=window, summary=summary,
                                  catch_up=catch_up, callback=callback)
        )  # fmt: skip
        return Messages(self, made)

    # --- channels and questions -------------------------------------------------------

    def call(self, method: str, path: str, content: Any = None) -> Any:
        """A request of HTTP: see docs/http.md."""
        return self.wait(self._inner.call(method, path, content))

    def channels(self) -> list[dict[str, Any]]:
        return list(self.call("GET", "/api/channels?limit=1000")["channels"])

    def channel(self, name: str) -> dict[str, Any]:
        return dict(self.call("GET", f"/api/channels/{quote(name, safe='')}"))

    def put_channel(self, name: str, form: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self.call("PUT", f"/api/channels/{quote(name, safe='')}", dict(form)))

    def close_channel(self, name: str) -> None:
        self.call("DELETE", f"/api/channels/{quote(name, safe='')}")

    def dry_run(self, channel: str, messages: Sequence[Mapping[str, Any]]) -> list[list[str]]:
        """The names of the subscriptions that each message would reach."""
        path = f"/api/channels/{quote(channel, safe='')}/messages?dry=1"
        return list(self.call("POST", path, [dict(one) for one in messages])["matches"])

    def explain(self, channel: str, selector: str, attributes: Mapping[str, Any]) -> str:
        path = f"/api/channels/{quote(channel, safe='')}/explain"
        asked = {"selector": selector, "message": dict(attributes)}
        return str(self.call("POST", path, asked)["text"])


class Messages:
    """A subscription: iterate over it."""

    def __init__(self, agent: Agent, subscribed: Subscribed) -> None:
        self._agent, self._subscribed = agent, subscribed

    @property
    def notes(self) -> list[str]:
        """What the broker noticed: never or always true, covered by another."""
        return self._subscribed.notes

    @property
    def lost(self) -> list[tuple[int, int]]:
        return self._subscribed.lost

    def get(self, timeout: float | None = None) -> Received:
        """The next message; TimeoutError where none comes in time."""

        async def one() -> Received:
            async with asyncio.timeout(timeout):
                return await self._subscribed.get()

        return self._agent.wait(one())

    def acknowledge(self, message: Received) -> None:
        """Everything up to this message is done."""
        self._agent.wait(self._subscribed.acknowledge(message))

    def __iter__(self) -> Iterator[Received]:
        while True:
            yield self.get()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._agent.wait(self._subscribed.end())

    def remove(self) -> None:
        self._agent.wait(self._subscribed.remove())
