"""An agent for programs without asyncio: the same, on a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any, Literal, Self, TypeVar
from urllib.parse import quote

from tamis.client.async_agent import AsyncAgent
from tamis.client.received import Lost, Received, Subscribed
from tamis.client.remote import HERE, TIMEOUT
from tamis.client.requests import check_text, checked_messages
from tamis.errors import ClosedError, TamisError

T = TypeVar("T")
_CLOSED = "this agent is closed: make another one"


class Agent:
    """Publishes and subscribes; every call waits for its answer. Safe for several threads."""

    def __init__(
        self,
        server: str | Sequence[str] = HERE,
        *,
        token: str = "",
        login: tuple[str, str] | None = None,
        publisher: str = "",
        timeout: float = TIMEOUT,
        ca: str | os.PathLike[str] = "",
        origin: bool = False,
    ) -> None:
        self._inner = AsyncAgent(
            server, token=token, login=login, publisher=publisher, timeout=timeout, ca=ca,
            origin=origin,
        )  # fmt: skip
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="tamis")
        self._thread.start()
        self._closing = threading.Lock()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Waits for what was published. Every later call raises ClosedError."""
        self._not_from_a_callback()
        with self._closing:
            if self._closed:
                return
            self._closed = True
        asyncio.run_coroutine_threadsafe(self._finish(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _finish(self) -> None:
        """Calls of other threads that wait still end here."""
        await self._inner.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns, which runs on the agent's thread."""
        try:
            self._not_from_a_callback()
            with self._closing:
                if self._closed:
                    raise ClosedError(_CLOSED)
                future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except TamisError:
            work.close()
            raise
        try:
            return future.result()
        except CancelledError:
            raise ClosedError(_CLOSED) from None

    def _not_from_a_callback(self) -> None:
        if threading.current_thread() is self._thread:
            raise TamisError(
                "a callback cannot wait for its own agent, whose thread it runs on: use another "
                "agent, or hand the message to another thread"
            )

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
        return dict(self.call("GET", _path(name)))

    def put_channel(self, name: str, form: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self.call("PUT", _path(name), dict(form)))

    def close_channel(self, name: str) -> None:
        self.call("DELETE", _path(name))

    def dry_run(self, channel: str, messages: Sequence[Mapping[str, Any]]) -> list[list[str]]:
        """The names of the subscriptions that each message would reach."""
        content = checked_messages(messages)
        return list(self.call("POST", f"{_path(channel)}/messages?dry=1", content)["matches"])

    def spelling(self, channel: str, attributes: Sequence[str]) -> list[str]:
        """Notes on attributes of messages that neither the channel nor a subscription names."""
        found = self.call("POST", f"{_path(channel)}/spelling", {"attributes": list(attributes)})
        return list(found["notes"])

    def explain(self, channel: str, selector: str, attributes: Mapping[str, Any]) -> str:
        question = {"selector": selector, "message": {"attributes": dict(attributes)}}
        return str(self.call("POST", f"{_path(channel)}/explain", question)["text"])


def _path(channel: str) -> str:
    check_text("channel", channel)
    return f"/api/channels/{quote(channel, safe='')}"


class Messages:
    """A subscription: iterate over it."""

    def __init__(self, agent: Agent, subscribed: Subscribed) -> None:
        self._agent, self._subscribed = agent, subscribed

    @property
    def notes(self) -> list[str]:
        """What the broker noticed: never or always true, covered by another."""
        return self._subscribed.notes

    @property
    def since(self) -> int:
        """From where on it is in force everywhere in a network; 0: not yet."""
        return self._subscribed.since

    @property
    def lost(self) -> list[Lost]:
        """Messages that were gone before they could be read, and why."""
        return self._subscribed.lost

    def get(self, timeout: float | None = None) -> Received:
        """The next message; TimeoutError if none comes within `timeout` seconds."""
        return self._agent.wait(self._subscribed.get(timeout))

    def acknowledge(self, message: Received) -> None:
        """Everything up to this message is done."""
        self._agent.wait(self._subscribed.acknowledge(message))

    def __iter__(self) -> Iterator[Received]:
        """Ends when the program itself ends the subscription or closes the agent."""
        with contextlib.suppress(ClosedError):
            while True:
                yield self.get()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ClosedError):
            self.end()

    def end(self) -> None:
        self._agent.wait(self._subscribed.end())

    def remove(self) -> None:
        self._agent.wait(self._subscribed.remove())
