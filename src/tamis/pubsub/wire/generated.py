"""Notifications with all predefined attributes and no others: by code written for the channel.

Such notifications are nearly all there are. One call of `struct` for the whole fixed part, and no
loop over attributes, makes them three to four times as fast as the general way, which is the
definition: what does not fit here is left to it (None). tests/pubsub compare the two.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Any

from tamis.errors import TamisError
from tamis.pubsub.subjects.precision import is_single, on_grid
from tamis.pubsub.subjects.subject import MAX_FIELDS
from tamis.pubsub.subjects.typecodes import FORMS, TypeCode
from tamis.pubsub.wire.wire_messages import Notification
from tamis.schema import Type

if TYPE_CHECKING:
    from tamis.pubsub.wire.codec import Codec

_CONTROL = 0  # the number of `#`: such subjects are left to the general way
_KEPT = 65_536  # subjects, and sizes of texts
_SHARED = 256  # forms of channels whose code all connections share
# What a message or a packet that does not fit ends in; the general way then says what is wrong.
FAILURES: tuple[type[Exception], ...] = (LookupError, AttributeError, TypeError, ValueError)
FAILURES += (OverflowError, TamisError, struct.error)
_PYTHON = {Type.INT: "int", Type.DOUBLE: "float", Type.BOOL: "bool"}


def fast_encoder(codec: Codec, otherwise: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """`Codec.encode`: the packet of a message, by `otherwise` where it is not one for here."""
    places = codec.channel.attributes
    if not _fit(codec):
        return otherwise
    texts = [i for i, p in enumerate(places) if FORMS[p.type].type is Type.STRING]
    checks = [_check(i, p.type, p.decimals) for i, p in enumerate(places) if i not in texts]
    wanted = [f"len(a) == {len(places)}", f"channel == {codec.channel.id}", *checks]
    values = ", ".join(f"s{i}" if i in texts else f"v{i}" for i in range(len(places)))
    lines = [
        "def encode(message):",
        "    try:",
        "        channel, publisher, session, sequence, subject, a = message",
        *(f"        v{i} = a[{p.name!r}]" for i, p in enumerate(places) if i not in texts),
        *(f"        s{i} = len(t{i} := a[{places[i].name!r}].encode())" for i in texts),
        f"        if {' and '.join(wanted)}:",
        "            marks, packers = subjects[subject]",
        f"            pack, front = packers{''.join(f'[s{i}]' for i in texts)}",
        "            return pack(front, publisher, session, sequence, marks, "
        f"{values}{''.join(f', t{i}' for i in texts)})",
        "    except FAILURES:",
        "        pass",
        "    return learn(message, otherwise(message))",
    ]
    packers = _Packers(codec)
    names = {"subjects": packers.subjects, "learn": packers.learn, "otherwise": otherwise}
    names |= {"FAILURES": FAILURES, "is_single": is_single, "on_grid": on_grid}
    return _made(lines, "encode", names)


def _fit(codec: Codec) -> bool:
    kinds = {FORMS[p.type].type for p in codec.channel.attributes}
    return bool(kinds) and Type.TIMESTAMP not in kinds


def _check(i: int, code: TypeCode, decimals: int | None) -> str:
    form = FORMS[code]
    parts = [f"type(v{i}) is {_PYTHON[form.type]}"]
    if form.type is Type.DOUBLE:
        parts.append(f"v{i} == v{i}")
        parts += [f"is_single(v{i})"] if code is TypeCode.FLOAT else []
        parts += [] if decimals is None else [f"on_grid(v{i}, {decimals})"]
    elif code in (TypeCode.CHAR, TypeCode.SHORT, TypeCode.USHORT):
        parts.append(f"{form.least} <= v{i} <= {form.most}")
    return " and ".join(parts)


def _marks(places: int) -> bytes:
    """All predefined attributes are present, and no others."""
    words = [min(32, places - w) for w in range(0, places, 32)]
    return struct.pack(f">HH{len(words)}I", places, 0, *((1 << bits) - 1 for bits in words))


def _letters(codec: Codec) -> str:
    return "".join(FORMS[p.type].letter or "I" for p in codec.channel.attributes)


class _Packers:
    """How to pack, for subjects and sizes of texts that were seen before.

    `subjects` has for each what stands before its attributes, and by the sizes of its texts, one
    dict within another, how to pack, and the first eight bytes.
    """

    def __init__(self, codec: Codec) -> None:
        self.codec, self.places = codec, codec.channel.attributes
        self.texts = [p.name for p in self.places if FORMS[p.type].type is Type.STRING]
        self.subjects: dict[str, tuple[bytes, Any]] = {}
        self.shapes: dict[tuple[int, ...], tuple[Any, bytes]] = {}
        self.known = 0

    def learn(self, message: Any, packet: bytes) -> bytes:
        """The packet; the next one like it is for the generated code."""
        if (
            type(message) is Notification
            and message.attributes.keys() == self.codec.channel.positions.keys()
        ):
            if self.known >= _KEPT:
                self.subjects.clear()
                self.shapes.clear()
                self.known = 0
            self.known += 1
            self._know(message)
        return packet

    def _know(self, message: Notification) -> None:
        fields = self.codec.packed_subject(message.subject)
        if int.from_bytes(fields[4:6]) == _CONTROL:
            return
        marks = fields + _marks(len(self.places))
        sizes = [len(message.attributes[name].encode()) for name in self.texts]
        shape = (len(marks), *(size + 3 & -4 for size in sizes))
        if shape not in self.shapes:
            texts = "".join(f"{size}s" for size in shape[1:])
            packer = struct.Struct(f">8s3I{len(marks)}s{_letters(self.codec)}{texts}")
            front = struct.pack(">II", packer.size, self.codec.channel.id)
            self.shapes[shape] = packer.pack, front
        if not sizes:
            self.subjects[message.subject] = marks, self.shapes[shape]
            return
        _, packers = self.subjects.setdefault(message.subject, (marks, {}))
        for size in sizes[:-1]:
            packers = packers.setdefault(size, {})
        packers[sizes[-1]] = self.shapes[shape]


# --- decoding -------------------------------------------------------------------


def fast_decoder(codec: Codec, otherwise: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """`Codec.decode`: the message of a packet, by `otherwise` where it is not one for here."""
    places = codec.channel.attributes
    if not _fit(codec):
        return otherwise
    texts = [i for i, p in enumerate(places) if FORMS[p.type].type is Type.STRING]
    checks = [_read_check(i, p.type, p.decimals) for i, p in enumerate(places) if i not in texts]
    wanted = ["found == marks", f"channel == {codec.channel.id}", *filter(None, checks)]
    shown = [f"{p.name!r}: {_shown(i, p.type)}" for i, p in enumerate(places)]
    values = "".join(f", v{i}" for i in range(len(places)))
    lines = [
        "def decode(data):",
        "    try:",
        "        unpack, at = layouts[data[23]]",
        "        length, channel, publisher, session, sequence, fields, found"
        f"{values} = unpack(data)",
        f"        if {' and '.join(wanted)}:",
        *(line for i in texts for line in _text_lines(i)),
        "            if at == length == len(data) <= limit:",
        "                return new(Notification, (channel, publisher, session, sequence, "
        f"subjects[fields], {{{', '.join(shown)}}}))",
        "    except FAILURES:",
        "        pass",
        "    return learn(data, otherwise(data))",
    ]
    known: dict[bytes, str] = {}

    def learn(data: bytes, message: Any) -> Any:
        """The message; the next one with its subject is for the generated code."""
        if type(message) is Notification and int.from_bytes(data[24:26]) != _CONTROL:
            if len(known) >= _KEPT:
                known.clear()
            known[codec.packed_subject(message.subject)] = message.subject
        return message

    layouts = _layouts(len(_marks(len(places))), _letters(codec))
    names = {"layouts": layouts, "subjects": known, "limit": codec.max_packet}
    names |= {"marks": _marks(len(places)), "Notification": Notification, "FAILURES": FAILURES}
    names |= {"new": tuple.__new__, "otherwise": otherwise, "learn": learn, "on_grid": on_grid}
    return _made(lines, "decode", names)


def _text_lines(i: int) -> list[str]:
    """A text that ends behind the packet leaves `at` beyond its length."""
    return [
        f"            t{i} = data[at : at + v{i}].decode()",
        f"            at += v{i} + 3 & -4",
    ]


def _read_check(i: int, code: TypeCode, decimals: int | None) -> str:
    form = FORMS[code]
    if form.type is Type.DOUBLE:
        return f"v{i} == v{i}" if decimals is None else f"on_grid(v{i}, {decimals})"
    if code in (TypeCode.CHAR, TypeCode.SHORT, TypeCode.USHORT, TypeCode.BOOL):
        return f"{form.least} <= v{i} <= {form.most}"
    return ""


def _shown(i: int, code: TypeCode) -> str:
    kind = FORMS[code].type
    return f"t{i}" if kind is Type.STRING else f"v{i} == 1" if kind is Type.BOOL else f"v{i}"


@lru_cache(_SHARED)
def _layouts(marks: int, letters: str) -> list[tuple[Any, int]]:
    """For each number of fields how to unpack, and the size without texts. All connections that
    have opened a channel share them."""
    found: list[tuple[Any, int]] = [(None, 0)]
    for count in range(1, MAX_FIELDS + 1):
        unpacker = struct.Struct(f">5I{4 + (2 * count + 3 & -4)}s{marks}s{letters}")
        found.append((unpacker.unpack_from, unpacker.size))
    return found


def _made(lines: list[str], name: str, names: dict[str, Any]) -> Callable[[Any], Any]:
    """The function that the lines define. Only names of attributes come from outside, quoted."""
    made: dict[str, Any] = dict(names)
    exec(_compiled("\n".join(lines)), made)
    found: Callable[[Any], Any] = made[name]
    return found


@lru_cache(_SHARED)
def _compiled(text: str) -> CodeType:
    return compile(text, "<generated>", "exec")
