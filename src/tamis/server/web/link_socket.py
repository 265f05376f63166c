"""The parent's end of a link: JSON about channels, binary frames of the link protocol."""

from __future__ import annotations

import json
from typing import Any

from tamis.errors import AccessError, TamisError, WireError
from tamis.pubsub.links.link_frames import decode_up
from tamis.server.access import Caller
from tamis.server.assembly.parts import Parts
from tamis.server.web.frame_reader import POLICY, PROTOCOL
from tamis.server.web.raw_socket import RawSocket

_LOOK = 1.0  # seconds between two looks at what channels there are
_MOST = 100  # requests that wait


class LinkConnection:
    def __init__(self, parts: Parts, caller: Caller, raw: RawSocket, name: str) -> None:
        self.parts, self.raw, self.network = parts, raw, parts.network
        self._told: list[dict[str, Any]] | None = None
        self._waiting = 0
        self.visit = parts.visits.enter(caller, self._send_away)
        self.link = self.network.enter(caller, self._out, self._say, name=name)
        raw.attach(self._take, lambda: None)
        self._tell_channels()
        self._timer = parts.hub.loop.call_later(_LOOK, self._look)

    def close(self) -> None:
        self._timer.cancel()
        self.parts.visits.leave(self.visit)
        self.network.leave(self.link)

    def _send_away(self, error: AccessError) -> None:
        self.raw.end(POLICY)

    def _out(self, data: bytes) -> None:
        self.raw.send_binary(data)

    def _say(self, told: dict[str, Any]) -> None:
        self.raw.send_text(json.dumps(told).encode())

    def _look(self) -> None:
        """Channels come, change and go; so do rights."""
        self._timer = self.parts.hub.loop.call_later(_LOOK, self._look)
        try:
            caller = self.visit.caller
        except AccessError:
            return
        if caller != self.link.caller:  # the child comes back, with what it may have now
            self.raw.end(POLICY)
            return
        self._tell_channels(again=False)

    def _tell_channels(self, *, again: bool = True) -> None:
        offered = self.network.offered(self.link.caller)
        if again or offered != self._told:
            self._told = offered
            self._say({"type": "channels", "router": self.network.name, "channels": offered})

    def _take(self, data: bytes) -> None:
        try:
            if data[:1] == b"{":
                self._control(json.loads(data))
            else:
                number, frame = decode_up(data)
                self.network.receive(self.link, number, frame)
        except (WireError, ValueError, KeyError, TypeError, RecursionError):
            self.raw.end(PROTOCOL)

    def _control(self, told: dict[str, Any]) -> None:
        match told["type"]:
            case "open" if self._waiting < _MOST:
                self._waiting += 1
                self.parts.hub.keep(self._open(int(told["channel"])))
            case "closed":
                self.network.end(self.link, int(told["channel"]), "")
            case "list":
                self._tell_channels()
            case "bye":
                self.raw.end(1000)
            case _:
                raise ValueError("no such request")

    async def _open(self, number: int) -> None:
        try:
            await self.network.accept(self.link, number)
        except TamisError as error:
            self._say({"type": "closed", "channel": number, "reason": str(error)})
        finally:
            self._waiting -= 1
