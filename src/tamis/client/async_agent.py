"""An agent for asyncio: one WebSocket that comes back by itself."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

from tamis.client import rest
from tamis.client.received import Received, Subscribed
from tamis.errors import AccessError, BusyError, MessageError, SubscriptionError, TamisError

MAX_PENDING = 1_000  # requests that wait for their answer
_RETRY, _RETRY_MOST = 0.05, 2.0  # seconds between two attempts to connect
_HISTORY = 100
_PATIENCE = 120.0  # seconds: a program that does not read keeps us from hearing the broker


class AsyncAgent:
    """Publishes and subscribes. Messages that are published are numbered, so one that is sent
    again after the connection was lost is stored once."""

    def __init__(
        self,
        server: str = "http://127.0.0.1:8216",
        *,
        token: str = "",
        login: tuple[str, str] | None = None,
        publisher: str = "",
    ) -> None:
        self.server = server.rstrip("/")
        self.publisher = publisher or f"agent-{uuid.uuid4().hex[:12]}"
        self.headers: dict[str, str] = {}
        if token:
            self.headers["Authorization"] = f"Bearer {token}"
        elif login:
            secret = base64.b64encode(":".join(login).encode()).decode()
            self.headers["Authorization"] = f"Basic {secret}"
        self.history: deque[tuple[float, str]] = deque(maxlen=_HISTORY)
        self._requests = itertools.count(1)
        # numbers go on where an earlier agent of the same name must have stopped
        self._numbers = itertools.count(time.time_ns() // 1000 if publisher else 1)
        self._pending: dict[int, tuple[str, asyncio.Future[Any]]] = {}
        self._room = asyncio.Semaphore(MAX_PENDING)
        self._subscribed: dict[str, Subscribed] = {}
        self._resuming: dict[int, Subscribed] = {}
        self._last_words: list[asyncio.Future[None]] = []
        self._socket: Any = None
        self._task: asyncio.Task[None] | None = None
        self._refused: TamisError | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Waits for what was published."""
        waiting = [future for _, future in self._pending.values()]
        if waiting and self._task is not None and not self._task.done():
            await asyncio.wait(waiting, timeout=5)
        left = [*([self._task] if self._task is not None else []), *self._last_words]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    # --- the connection -------------------------------------------------------------

    async def _run(self) -> None:
        from websockets.asyncio.client import connect
        from websockets.exceptions import InvalidStatus, WebSocketException

        address, wait = f"ws{self.server.removeprefix('http')}/ws", _RETRY
        while True:
            try:
                async with connect(
                    address,
                    additional_headers=self.headers,
                    max_size=None,
                    compression=None,
                    ping_interval=30,
                    ping_timeout=_PATIENCE,
                    close_timeout=1,
                ) as socket:
                    self.history.append((time.time(), "connected"))
                    await self._resume(socket)
                    async for text in socket:
                        await self._receive(text)
                        wait = _RETRY  # not sooner: a busy broker is asked less and less often
                self.history.append((time.time(), "the broker closed the connection"))
            except InvalidStatus as error:
                if error.response.status_code in (401, 403):
                    self._give_up(AccessError("the broker does not know you", known=False))
                    return
                self.history.append((time.time(), str(error)))
            except (OSError, WebSocketException) as error:
                self.history.append((time.time(), str(error) or type(error).__name__))
            self._socket = None
            await asyncio.sleep(wait)
            wait = min(2 * wait, _RETRY_MOST)

    def _give_up(self, error: TamisError) -> None:
        self._refused = error
        for _, future in self._pending.values():
            if not future.done():
                future.set_exception(error)
        for one in self._subscribed.values():  # behind what has come already
            self._last_words.append(asyncio.ensure_future(one.queue.put(error)))

    def _ended(self, task: asyncio.Task[None]) -> None:
        """An agent that stops is never silent: a callback may have raised anything."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            stopped = TamisError(f"the agent stopped: {type(error).__name__}: {error}")
            stopped.__cause__ = error
            self._give_up(stopped)

    async def _resume(self, socket: Any) -> None:
        """First the subscriptions, then all that was not answered, in its old order."""
        self._resuming.clear()
        for one in list(self._subscribed.values()):
            if one.confirmed:
                number = next(self._requests)
                self._resuming[number] = one
                await socket.send(json.dumps({**one.request(), "request": number}))
        sent: set[int] = set()
        while waiting := self._pending.keys() - sent:  # more may be added while we send
            for number in sorted(waiting):
                if number in self._pending:
                    await socket.send(self._pending[number][0])
            sent |= waiting
        self._socket = socket

    async def send(self, request: Mapping[str, Any]) -> None:
        """Send it, if there is a connection; acknowledgements are worth nothing later."""
        from websockets.exceptions import ConnectionClosed

        if self._socket is not None:
            with contextlib.suppress(ConnectionClosed):
                await self._socket.send(json.dumps(request))

    async def _ask(self, request: dict[str, Any]) -> Any:
        """The answer, however often the connection is lost meanwhile."""
        if self._refused is not None:
            raise self._refused
        if self._task is None:
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(self._ended)
        async with self._room:
            number = next(self._requests)
            future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            text = json.dumps({**request, "request": number})
            self._pending[number] = text, future
            try:
                await self.send({**request, "request": number})
                return await future
            finally:
                self._pending.pop(number, None)

    async def _receive(self, text: str | bytes) -> None:
        found = json.loads(text)
        match found["type"]:
            case "messages":
                for one in found["messages"]:
                    known = self._subscribed.get(one["subscription"])
                    if known is not None:
                        await known.receive(
                            Received(
                                one["sequence"],
                                one["subject"],
                                one["attributes"],
                                one["time"],
                                one.get("source", ""),
                                one.get("path", 0),
                                one.get("summarised", False),
                            )
                        )
            case "lost":
                known = self._subscribed.get(found["subscription"])
                if known is not None:  # else the program has just left it
                    known.lost.append((found["first"], found["last"]))
            case "taken":
                gone = self._subscribed.pop(found["subscription"], None)
                if gone is not None:
                    await gone.queue.put(SubscriptionError("another agent took it over"))
            case "ended":
                gone = self._subscribed.pop(found["subscription"], None)
                if gone is not None:
                    await gone.queue.put(SubscriptionError(found["error"]))
            case "error":
                if not found["request"]:  # an acknowledgement
                    self.history.append((time.time(), found["error"]))
                await self._not_resumed(found)
                self._answer(found["request"], _error(found))
            case _:
                self._answer(found["request"], found)

    async def _not_resumed(self, found: dict[str, Any]) -> None:
        """Its reader is told; unless the broker wants to be asked once more."""
        refused, error = self._resuming.pop(found["request"], None), _error(found)
        if refused is None:
            return
        if isinstance(error, BusyError):
            raise ConnectionError(str(error))
        self.history.append((time.time(), found["error"]))
        self._subscribed.pop(refused.name, None)
        await refused.queue.put(SubscriptionError(found["error"]))

    def _answer(self, request: int, answer: object) -> None:
        _, future = self._pending.get(request, ("", None))
        if future is None or future.done():
            return
        if isinstance(answer, TamisError):
            future.set_exception(answer)
        else:
            future.set_result(answer)

    # --- publishing and subscribing ---------------------------------------------------

    async def publish(
        self, channel: str, attributes: Mapping[str, Any], *, subject: str = ""
    ) -> int:
        """The sequence of the message, once it is in the broker's log."""
        (found,) = await self.publish_many(
            channel, [{"attributes": dict(attributes), "subject": subject}]
        )
        return found

    async def publish_many(
        self, channel: str, messages: Sequence[Mapping[str, Any]], *, publisher: str = ""
    ) -> list[int]:
        """Messages with "attributes", and a "subject" and "sequence" if you like."""
        numbered = [
            dict(one) if publisher else {**one, "sequence": next(self._numbers)} for one in messages
        ]
        found = await self._ask(
            {"type": "publish", "channel": channel, "publisher": publisher or self.publisher,
             "messages": numbered}
        )  # fmt: skip
        return list(found["sequences"])

    async def subscribe(
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
    ) -> Subscribed:
        """In force when this returns. `durable` is a name under which the broker remembers it.

        `summary` is a state that says what the messages mean; with `catch_up="shortest"` what was
        missed comes as the shortest sequence that means the same.
        """
        name = durable or f"s{next(self._requests)}"
        if name in self._subscribed:
            raise SubscriptionError(f"this agent has a subscription {name!r} already")
        wish = {"selector": selector, "subjects": subjects, "start": start, "window": window,
                "durable": bool(durable), "summary": summary, "catch_up": catch_up}  # fmt: skip
        made = Subscribed(self, channel, name, wish, callback)
        self._subscribed[name] = made
        try:
            found = await self._ask(made.request())
        except BaseException:
            self._subscribed.pop(name, None)
            raise
        made.notes, made.confirmed = found["notes"], True
        return made

    async def leave(self, subscribed: Subscribed, end: bool) -> None:
        if self._subscribed.pop(subscribed.name, None) is not None:
            await self._ask({"type": "unsubscribe", "name": subscribed.name, "end": end})

    async def call(self, method: str, path: str, content: Any = None) -> Any:
        """A request of HTTP: see docs/http.md."""
        return await asyncio.to_thread(rest.call, self.server, self.headers, method, path, content)


def _error(found: dict[str, Any]) -> TamisError:
    text = found.get("text") or found["error"]
    if "message" in found:
        return MessageError(text, message=found["message"])
    return BusyError(text) if "try again" in text else TamisError(text)
