"""An agent for asyncio: one WebSocket that comes back by itself."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

from tamis.client import rest
from tamis.client.received import CallbackFailure, Lost, Received, Subscribed
from tamis.client.remote import HERE, TIMEOUT, Remote
from tamis.client.requests import check_subscription, check_text, checked_messages, encoded
from tamis.errors import (
    AccessError,
    ClosedError,
    DeadlineError,
    InputError,
    MessageError,
    SubscriptionError,
    TamisError,
)

MAX_PENDING = 1_000  # requests that wait for their answer
_RETRY, _RETRY_MOST = 0.05, 2.0  # seconds between two attempts to connect
_HISTORY = 100
_CONNECT = 10.0  # seconds until a connection must be there
_SOON = 3.0  # seconds of silence after which one of several routers is given up
_BEAT = 1.0  # seconds between two heartbeats
_LAST = 5.0  # seconds that closing waits for answers
_PATIENCE = 120.0  # seconds: a program that does not read keeps us from hearing the broker
_TOO_BIG, _UNREADABLE = 1009, {1002, 1003, 1007}  # why a broker closes, if a request is to blame


class AsyncAgent:
    """Publishes and subscribes. Messages that are published are numbered, so one that is sent
    again after the connection was lost is stored once.

    `server`: an address, or several routers of one network. If the one that is used does not
    answer within some seconds, the next one is taken, and subscriptions go on where they were.
    `origin`: messages say who published them, under which number.
    `timeout`: seconds after which a call that was not answered raises DeadlineError.
    `ca`: a file of certificate authorities by which TLS checks the broker's certificate.
    """

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
        check_text("publisher", publisher)
        servers: Sequence[Any] = server if isinstance(server, list | tuple) else [server]
        if not servers:
            raise InputError("name at least one server")
        self.remotes = [
            Remote.of(one, token=token, login=login, timeout=timeout, ca=ca) for one in servers
        ]
        self.remote = self.remotes[0]  # the one that is used now
        self._path = "/ws?origin=1" if origin else "/ws"
        self.publisher = publisher or f"agent-{uuid.uuid4().hex[:12]}"
        self.history: deque[tuple[float, str]] = deque(maxlen=_HISTORY)
        self._requests = itertools.count(1)
        # numbers go on where an earlier agent of the same name must have stopped
        self._numbers = itertools.count(time.time_ns() // 1000 if publisher else 1)
        self._pending: dict[int, tuple[str, asyncio.Future[Any]]] = {}
        self._room = asyncio.Semaphore(MAX_PENDING)
        self._subscribed: dict[str, Subscribed] = {}
        self._resuming: dict[int, Subscribed] = {}
        self._socket: Any = None
        self._task: asyncio.Task[None] | None = None
        self._connected = self._heard = False  # ever; a message since the last attempt
        self._busy, self._listening = False, 0.0  # with a message; since when for the next one
        self._closed: ClosedError | None = None
        self._refused: TamisError | None = None

    @property
    def server(self) -> str:
        return self.remote.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Waits for what was published. Readers get what has come, and every later call raises
        ClosedError."""
        if self._closed is None:
            self._closed = ClosedError("this agent is closed: make another one")
            waiting = [future for _, future in self._pending.values()]
            if waiting and self._task is not None:
                await asyncio.wait(waiting, timeout=min(_LAST, self.remote.timeout))
            self._give_up(self._closed)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def check_open(self) -> None:
        if self._closed is not None:
            raise self._closed

    # --- the connection -------------------------------------------------------------

    async def _run(self) -> None:
        """Connect, and again whenever the connection is lost. The first attempt must succeed: a
        wrong address does not get better."""
        wait, tried = _RETRY, 0
        while True:
            reason = await self._attempt()
            if self._refused is not None:
                return
            self._socket = None
            self._note(str(reason) or type(reason).__name__)
            tried = 0 if self._heard else tried + 1
            self._take_next()
            if tried and tried < len(self.remotes):
                continue  # another one may be there at once
            if not self._connected:
                self._task = None  # the next call tries again
                self._fail_pending(self.remote.unreachable(reason))
                return
            if self._heard:
                wait = _RETRY  # not sooner: a busy broker is asked less and less often
            await asyncio.sleep(wait)
            wait = min(2 * wait, _RETRY_MOST)

    async def _attempt(self) -> Exception:
        """One connection, until it ends; returns why it did."""
        from websockets.asyncio.client import connect
        from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

        self._heard = False
        try:
            async with connect(
                f"ws{self.server.removeprefix('http')}{self._path}",
                additional_headers=self.remote.headers,
                ssl=self.remote.context,
                max_size=None,
                compression=None,
                open_timeout=min(_SOON if self._several else _CONNECT, self.remote.timeout),
                ping_interval=30,
                ping_timeout=_PATIENCE,
                close_timeout=1,
            ) as socket:
                self._connected = True
                self._note("connected")
                await self._talk(socket)
            return ConnectionError("the broker closed the connection")
        except InvalidStatus as error:
            if error.response.status_code in (401, 403):
                self._give_up(AccessError("the broker does not know you", known=False))
            return error
        except ConnectionClosed as error:
            self._blame(error.rcvd.code if error.rcvd is not None else 0)
            return error
        except (OSError, WebSocketException) as error:
            return error

    async def _talk(self, socket: Any) -> None:
        """Resume, and take what comes, until the connection ends."""
        beat = asyncio.create_task(self._beat(socket)) if self._several else None
        try:
            await self._resume(socket)
            async for text in socket:
                self._busy = True
                await self._receive(text)
                self._busy, self._heard = False, True
                self._listening = time.monotonic()
        finally:
            if beat is not None:
                beat.cancel()

    async def _beat(self, socket: Any) -> None:
        """Notice a router that is dead or cut off. While the program is busy with a message we do
        not listen, and the silence says nothing."""
        from websockets.exceptions import ConnectionClosed

        self._busy, self._listening = False, time.monotonic()
        with contextlib.suppress(ConnectionClosed):
            while await self._alive(await socket.ping()):
                await asyncio.sleep(_BEAT)
            self._note(f"no answer for {_SOON:g} s")
            socket.transport.abort()

    async def _alive(self, answer: asyncio.Future[float]) -> bool:
        begun = time.monotonic()
        while not answer.done():
            await asyncio.sleep(_BEAT / 4)
            silent = time.monotonic() - max(begun, self._listening)
            if silent > _SOON and not self._busy:
                return False
        return True

    @property
    def _several(self) -> bool:
        return len(self.remotes) > 1

    def _take_next(self) -> None:
        self.remote = self.remotes[(self.remotes.index(self.remote) + 1) % len(self.remotes)]

    def _note(self, what: str) -> None:
        """In the history; with the address, if there are several."""
        place = f"{self.server}: " if self._several else ""
        self.history.append((time.time(), place + what))

    def _blame(self, code: int) -> None:
        """The broker closed because of what it was sent: to send that again would not help."""
        if code == _TOO_BIG and self._pending:
            number = max(self._pending, key=lambda n: len(self._pending[n][0]))
            size = len(self._pending[number][0])
            what = f"the request has {size:,} bytes, more than the broker takes"
            self._answer(number, MessageError(f"{what}: send fewer messages at a time"))
        elif code in _UNREADABLE:
            self._fail_pending(MessageError(f"the broker cannot read what it was sent ({code})"))

    def _give_up(self, error: TamisError) -> None:
        self._refused = error
        self._fail_pending(error)
        for one in self._subscribed.values():
            one.stop(error)

    def _fail_pending(self, error: TamisError) -> None:
        for number in list(self._pending):
            self._answer(number, error)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """An agent that stops is never silent: a callback may have raised anything."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, CallbackFailure):
            error = error.__cause__
        if error is not None and self._closed is None:
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
                await socket.send(encoded(one.request(), number))
        sent: set[int] = set()
        while waiting := self._pending.keys() - sent:  # more may be added while we send
            for number in sorted(waiting):
                if number in self._pending:
                    await socket.send(self._pending[number][0])
            sent |= waiting
        self._socket = socket

    async def send(self, request: Mapping[str, Any]) -> None:
        """Send it, if there is a connection; acknowledgements are worth nothing later."""
        try:
            async with asyncio.timeout(self.remote.timeout):
                await self._send(json.dumps(request))
        except TimeoutError:
            raise rest.late(self.remote, " by reading") from None

    async def _send(self, text: str) -> None:
        from websockets.exceptions import ConnectionClosed

        if self._socket is not None:
            with contextlib.suppress(ConnectionClosed):
                await self._socket.send(text)

    async def _ask(self, request: dict[str, Any]) -> Any:
        """The answer, however often the connection is lost meanwhile; within the timeout."""
        self.check_open()
        if self._refused is not None:
            raise self._refused
        if self._task is not None and asyncio.current_task() is self._task:
            raise TamisError("a callback cannot wait for an answer: the agent reads nothing until "
                             "it returns; start a task, or use another agent")  # fmt: skip
        number = next(self._requests)
        text = encoded(request, number)
        try:
            async with asyncio.timeout(self.remote.timeout) as limit, self._room:
                return await self._answered(number, text)
        except TimeoutError:
            if not limit.expired():
                raise
        connected = self._socket is not None
        raise rest.late(self.remote, "" if connected else f" ({self._absence()})")

    async def _answered(self, number: int, text: str) -> Any:
        if self._refused is not None:  # while it waited for room
            raise self._refused
        if self._task is None:
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(self._ended)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[number] = text, future
        try:
            await self._send(text)
            return await future
        finally:
            self._pending.pop(number, None)

    def _absence(self) -> str:
        return f"not connected: {self.history[-1][1]}" if self.history else "not connected yet"

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
                                one.get("publisher", ""),
                                one.get("number", 0),
                            )
                        )
            case "lost":
                known = self._subscribed.get(found["subscription"])
                if known is not None:  # else the program has just left it
                    await known.lose(Lost(found["first"], found["last"], found["reason"]))
            case "in_force":
                known = self._subscribed.get(found["subscription"])
                if known is not None:
                    known.since = found["since"]
            case "epoch":
                known = self._subscribed.get(found["subscription"])
                if known is not None:
                    known.begin_epoch(found["epoch"], found["first"])
            case "replaced":
                known = self._subscribed.get(found["subscription"])
                if known is not None:
                    known.replaced(found["agreed"])
                    self._note(f"the log agrees with what came only up to {found['agreed']}")
            case "taken":
                gone = self._subscribed.pop(found["subscription"], None)
                if gone is not None:
                    gone.stop(SubscriptionError("another agent took it over"))
            case "ended":
                gone = self._subscribed.pop(found["subscription"], None)
                if gone is not None:
                    gone.stop(SubscriptionError(found["error"], status=found.get("status", 422)))
            case "error":
                if not found["request"]:  # an acknowledgement
                    self.history.append((time.time(), found["error"]))
                self._not_resumed(found)
                self._answer(found["request"], rest.error_of(found.get("status", 422), found))
            case _:
                await self._resumed(found["request"], found.get("epoch", ""))
                self._answer(found["request"], found)

    async def _resumed(self, request: int, epoch: str) -> None:
        """The program may have left it while it was resumed."""
        one = self._resuming.pop(request, None)
        if one is not None:
            one.epoch = epoch
        if one is not None and self._subscribed.get(one.name) is not one:
            await self.send({"type": "unsubscribe", "name": one.name})

    def _not_resumed(self, found: dict[str, Any]) -> None:
        """Its reader gets the reason; unless the broker is busy, then it is asked once more."""
        refused = self._resuming.pop(found["request"], None)
        if refused is None:
            return
        if found.get("status") == 429:
            raise ConnectionError(found["error"])
        self.history.append((time.time(), found["error"]))
        self._subscribed.pop(refused.name, None)
        refused.stop(SubscriptionError(found["error"]))

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
        """The sequence of the message, once it is in the broker's log; 0 if it was stored by an
        earlier attempt whose answer did not arrive."""
        message = {"attributes": attributes, "subject": subject}
        (found,) = await self.publish_many(channel, [message])
        return found

    async def publish_many(
        self, channel: str, messages: Sequence[Mapping[str, Any]], *, publisher: str = ""
    ) -> list[int]:
        """Messages with "attributes", and a "subject", "sequence" or "id" if you like.

        Returns their sequences in the channel. One that was stored before is not stored again:
        it has the sequence that it got then, or 0 if that is not known."""
        self.check_open()
        check_text("channel", channel)
        check_text("publisher", publisher)
        checked = checked_messages(messages)
        numbered = [
            dict(one) if publisher else {**one, "sequence": next(self._numbers)} for one in checked
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
        self.check_open()
        wish = {"selector": selector, "subjects": subjects, "start": start, "window": window,
                "durable": bool(durable), "summary": summary, "catch_up": catch_up}  # fmt: skip
        check_subscription(channel, durable, wish, callback)
        name = durable or f"s{next(self._requests)}"
        if name in self._subscribed:
            raise SubscriptionError(f"this agent has a subscription {name!r} already")
        made = Subscribed(self, channel, name, wish, callback)
        self._subscribed[name] = made
        try:
            found = await self._ask(made.request())
        except BaseException as error:
            self._subscribed.pop(name, None)
            if isinstance(error, DeadlineError):  # it may come into force yet
                await self.send({"type": "unsubscribe", "name": name})
            raise
        made.notes, made.epoch, made.confirmed = found["notes"], found.get("epoch", ""), True
        made.since = max(made.since, found.get("since", 0))
        return made

    async def leave(self, subscribed: Subscribed, end: bool) -> None:
        held = self._subscribed.get(subscribed.name) is subscribed
        if end:
            self.check_open()
            if not held:
                raise ClosedError("this agent does not hold the subscription any more")
        if held and self._closed is None:
            del self._subscribed[subscribed.name]
            subscribed.stop(ClosedError("this subscription was ended"))
            if not end and self._socket is None:
                return  # it ended with the connection
            await self._ask({"type": "unsubscribe", "name": subscribed.name, "end": end})

    async def call(self, method: str, path: str, content: Any = None) -> Any:
        """A request of HTTP: see docs/http.md."""
        self.check_open()
        check_text("method", method)
        check_text("path", path)
        if not path.startswith("/"):
            raise InputError(f"path must begin with /, such as /api/channels, not {path!r:.80}")
        work = asyncio.to_thread(rest.call, self.remote, method, path, content)
        try:
            async with asyncio.timeout(self.remote.timeout + 1):  # a name that is not resolved
                return await work
        except TimeoutError as error:
            raise error if isinstance(error, TamisError) else rest.late(self.remote) from None
