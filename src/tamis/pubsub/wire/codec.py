"""Messages of one channel to bytes and back (US 6,910,033, figures 9 and 18; docs/wire.md)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from tamis.errors import ChannelError, SubjectError, WireError
from tamis.pubsub.subjects.channel import Channel, check_name
from tamis.pubsub.subjects.precision import on_grid
from tamis.pubsub.subjects.subject import CONTROL, MAX_FIELDS, Subject, SubjectFilter
from tamis.pubsub.subjects.typecodes import FORMS, TypeCode
from tamis.pubsub.wire.generated import fast_decoder, fast_encoder
from tamis.pubsub.wire.wire_messages import (
    CONTROLS,
    AttributeTest,
    Disjuncts,
    Message,
    Notification,
    Operator,
    Resubscription,
    Subscription,
    Unsubscription,
)
from tamis.pubsub.wire.wire_values import (
    PADDING,
    Reader,
    code_of,
    encoded,
    message_value,
    pack_value,
)
from tamis.schema import Type

MAX_PACKET = 1 << 20  # bytes
HEADER = struct.Struct(">6I")  # length, channel, publisher, session, sequence, number of fields
DISCRETIONARY = 127
Header = tuple[int, int, int, int]
_PAIR = struct.Struct(">HH")
_OPERANDS = {Operator.CLOSED: 2, Operator.ABSENT: 0, Operator.PRESENT: 0}
_LISTED = (Operator.IN, Operator.NOT_IN)
_SUBSCRIBING = ("SUBSCRIPTION", "RESUBSCRIPTION", "UNSUBSCRIPTION")
_KNOWN_SUBJECTS = 4096  # subjects whose bytes a codec keeps


class Codec:
    """Turns messages of a channel into packets and back. A packet is as long as it says."""

    def __init__(self, channel: Channel, max_packet: int = MAX_PACKET) -> None:
        self.channel, self.max_packet = channel, max_packet
        self._packed: dict[str, bytes] = {}
        self.encode: Callable[[Message], bytes] = fast_encoder(self, self.encode_any)
        """The packet of a message; WireError or SubjectError where it fits into none."""
        self.decode: Callable[[bytes], Message] = fast_decoder(self, self.decode_any)
        """The message of one whole packet; WireError for any other bytes."""

    # --- encoding ---------------------------------------------------------------

    def encode_any(self, message: Message) -> bytes:
        """`encode`, the general way."""
        if type(message) is Notification:
            packet = self._encode_notification(message)
        else:
            packet = self._encode_other(message)
        if len(packet) > self.max_packet:
            raise WireError(
                f"the packet has {len(packet):,} bytes: {self.max_packet:,} are allowed"
            )
        return packet

    def _encode_notification(self, message: Notification) -> bytes:
        name = message.subject.removeprefix(CONTROL + ".")
        control = name != message.subject
        if control and (name in CONTROLS or name in _SUBSCRIBING):
            raise WireError(f"a message under {message.subject} is no Notification")
        body = self._notified(message.attributes, control)
        return self._packet(message, message.subject, body)

    def _encode_other(self, message: Message) -> bytes:
        match message:
            case Subscription():
                return self._packet(message, "#.SUBSCRIPTION", self._subscribed(message))
            case Resubscription():
                return self._packet(message, "#.RESUBSCRIPTION", self._subscribed(message))
            case Unsubscription():
                body = _pair(message.port, message.id, "port or subscription id")
                return self._packet(message, "#.UNSUBSCRIPTION", body)
        for name, (kind, attributes) in CONTROLS.items():
            if isinstance(message, kind):
                usual = kind._field_defaults
                values = {key: getattr(message, key) for key in attributes}
                said = {attributes[k][0]: v for k, v in values.items() if v != usual.get(k)}
                return self._packet(message, f"#.{name}", self._notified(said, True))
        raise WireError(f"{type(message).__name__} is no message")

    def _packet(self, message: Message, subject: str, body: bytes) -> bytes:
        fields = self.packed_subject(subject)
        length = HEADER.size - 4 + len(fields) + len(body)
        header = (message.channel, message.publisher, message.session, message.sequence)
        if message.channel != self.channel.id:
            raise WireError(f"the message is for channel {message.channel}, not {self.channel.id}")
        try:
            return struct.pack(">5I", length, *header) + fields + body
        except struct.error:
            raise WireError(f"publisher, session and sequence have 32 bits: {header[1:]}") from None

    def packed_subject(self, subject: str) -> bytes:
        """The number of fields, and their numbers."""
        known = self._packed.get(subject)
        if known is None:
            numbers = self.channel.numbers_of(Subject.parse(subject))
            known = struct.pack(f">I{len(numbers)}H", len(numbers), *numbers)
            known += PADDING[len(known) & 3]
            if len(self._packed) >= _KNOWN_SUBJECTS:
                self._packed.clear()
            self._packed[subject] = known
        return known

    def _notified(self, attributes: dict[str, Any], control: bool) -> bytes:
        places = () if control else self.channel.attributes
        present, fixed, texts = 0, [], []
        for i, place in enumerate(places):
            value = attributes.get(place.name)
            if value is None:
                fixed.append(bytes(FORMS[place.type].size))
                continue
            present |= 1 << i
            if place.decimals is not None and not on_grid(value, place.decimals):
                raise WireError(
                    f"{place.name} = {value}: the channel says {place.decimals} decimals"
                )
            packed = pack_value(place.type, value, place.name)
            fixed.append(packed[: FORMS[place.type].size])
            texts.append(packed[FORMS[place.type].size :])
        more = sorted(name for name in attributes if control or name not in self.channel.positions)
        words = -(-len(places) // 32)
        masks = b"".join((present >> 32 * w & 0xFFFFFFFF).to_bytes(4) for w in range(words))
        counts = _pair(len(places), len(more), "number of attributes")
        rest = [_discretionary(name, attributes[name]) for name in more]
        return b"".join([counts, masks, *fixed, *texts, *rest])

    def _subscribed(self, message: Subscription | Resubscription) -> bytes:
        numbers = self.channel.numbers_of(SubjectFilter.parse(message.subjects))
        tests = [(i == 0, test) for one in message.disjuncts for i, test in enumerate(one)]
        if not all(message.disjuncts):
            raise WireError("a disjunct without tests cannot stand beside others")
        codes = b"".join([self._test_code(first, test) for first, test in tests])
        fields = struct.pack(f">{len(numbers)}H", *numbers)
        parts = [
            _pair(message.port, message.id, "port or subscription id"),
            _pair(len(numbers), len(tests), "number of tests"),
            fields + PADDING[len(fields) & 3],
            codes + PADDING[len(codes) & 3],
        ]
        return b"".join([*parts, *(_operands(test) for _, test in tests)])

    def _test_code(self, first: bool, test: AttributeTest) -> bytes:
        """D, place, type and operator (table 21)."""
        place = test.attribute if isinstance(test.attribute, int) else DISCRETIONARY
        _check_test(test, self.channel)
        return ((not first) << 15 | place << 8 | test.type << 3 | test.operator).to_bytes(2)

    # --- decoding ---------------------------------------------------------------

    def decode_any(self, data: bytes) -> Message:
        """`decode`, the general way."""
        reader = Reader(data)
        if len(data) > self.max_packet:
            raise WireError(f"the packet has {len(data):,} bytes: {self.max_packet:,} are allowed")
        length, channel = reader.u32(), reader.u32()
        if length != len(data):
            raise WireError(
                f"the packet says that it has {length:,} bytes, and has {len(data):,}", 0
            )
        if channel != self.channel.id:
            raise WireError(f"the packet is for channel {channel}, not {self.channel.id}", 4)
        header = (channel, reader.u32(), reader.u32(), reader.u32())
        subject = self._read_fields(reader, reader.u32())
        message = self._read_body(reader, header, subject)
        reader.end()
        return message

    def subject_at(self, data: Any, start: int) -> str:
        """The subject of the packet that starts there, whose form was checked."""
        reader = Reader(bytes(data[start + 20 : start + 24 + 2 * MAX_FIELDS]))
        subject = self._read_fields(reader, reader.u32())
        _check_subject(Subject, subject, start + 20)
        return subject

    def _read_fields(self, reader: Reader, count: int) -> str:
        start = reader.at
        if not 1 <= count <= MAX_FIELDS:
            raise WireError(f"a subject has 1 to {MAX_FIELDS} fields, not {count}", start)
        numbers = reader.u16s(count)
        names = [self.channel.fields.get(number) for number in numbers]
        if None in names:
            number = numbers[names.index(None)]
            raise WireError(f"no field has number {number} on channel {self.channel.id}", start)
        return ".".join(names)  # type: ignore[arg-type]

    def _read_body(self, reader: Reader, header: Header, subject: str) -> Message:
        start = reader.at
        _check_subject(Subject, subject, start)
        match subject:
            case "#.SUBSCRIPTION":
                return Subscription(*header, *self._read_subscription(reader))
            case "#.RESUBSCRIPTION":
                return Resubscription(*header, *self._read_subscription(reader))
            case "#.UNSUBSCRIPTION":
                return Unsubscription(*header, reader.u16(), reader.u16())
        attributes = self._read_attributes(reader, subject.startswith(CONTROL + "."))
        name = subject.removeprefix(CONTROL + ".")
        if name != subject and name in CONTROLS:
            return _control(name, header, attributes, start)
        return Notification(*header, subject, attributes)

    def _read_attributes(self, reader: Reader, control: bool) -> dict[str, Any]:
        places, more = reader.u16(), reader.u16()
        if places > (0 if control else len(self.channel.attributes)):
            raise WireError(
                f"{places} predefined attributes are more than there are", reader.at - 4
            )
        masks = [reader.u32() for _ in range(-(-places // 32))]
        present = sum(mask << 32 * w for w, mask in enumerate(masks))
        if present >> places:
            raise WireError("an attribute is present that is not there", reader.at - 4)
        attributes = self._read_predefined(reader, places, present)
        last = ""
        for _ in range(more):
            start = reader.at
            code, size = _code(reader.u16(), start), reader.u16()
            name = reader.text(size)
            _check_attribute(name, start)
            if name <= last or (name in self.channel.positions and not control):
                raise WireError(f"attribute {name!r} is out of order, or predefined", start)
            last = name
            attributes[name] = reader.value(code)
        return attributes

    def _read_predefined(self, reader: Reader, places: int, present: int) -> dict[str, Any]:
        """Numbers and the sizes of texts stand first, in places that are always the same."""
        found: dict[str, Any] = {}
        sizes = {}
        for i, place in enumerate(self.channel.attributes[:places]):
            if not present >> i & 1:
                if any(reader.take(FORMS[place.type].size)):
                    raise WireError(f"{place.name} is absent and has a value", reader.at)
            elif FORMS[place.type].type is Type.STRING:
                sizes[place.name] = reader.u32()
                found[place.name] = None  # keeps its place in the order
            else:
                found[place.name] = value = reader.value(place.type)
                if place.decimals is not None and not on_grid(value, place.decimals):
                    raise WireError(f"{place.name} = {value} has too many decimals", reader.at)
        for name, size in sizes.items():
            found[name] = reader.text(size)
        return found

    def _read_subscription(self, reader: Reader) -> tuple[int, int, str, Disjuncts]:
        port, id = reader.u16(), reader.u16()
        fields, tests = reader.u16(), reader.u16()
        start = reader.at
        subjects = self._read_fields(reader, fields)
        _check_subject(SubjectFilter, subjects, start)
        start = reader.at
        disjuncts: list[list[AttributeTest]] = []
        for i, bits in enumerate(reader.u16s(tests)):
            if bits >> 15 and not disjuncts:
                raise WireError("the first test continues a disjunct", start)
            if not bits >> 15:
                disjuncts.append([])
            disjuncts[-1].append(self._bits(bits, start + 2 * i))
        return port, id, subjects, tuple([self._with_operands(one, reader) for one in disjuncts])

    def _bits(self, bits: int, start: int) -> AttributeTest:
        code = bits >> 3 & 31
        if code not in (TypeCode.ANY, TypeCode.OTHER):
            _code(code, start)
        place = bits >> 8 & 127
        attribute = "" if place == DISCRETIONARY else place
        return AttributeTest(attribute, TypeCode(code), Operator(bits & 7), ())

    def _with_operands(
        self, tests: list[AttributeTest], reader: Reader
    ) -> tuple[AttributeTest, ...]:
        found = []
        for test in tests:
            start = reader.at
            if test.attribute == "":
                test = test._replace(attribute=reader.text(reader.u32()))
                _check_attribute(str(test.attribute), start)
            count = reader.u32() if test.operator in _LISTED else _OPERANDS.get(test.operator, 1)
            if count > len(reader.data):
                raise WireError(f"{count:,} operands are more than the packet has bytes", start)
            try:
                test = test._replace(operands=(None,) * count)
                _check_test(test, self.channel)
            except WireError as error:
                raise WireError(error.what, start) from None
            operands = [reader.operand(test.type) for _ in range(count)]
            found.append(test._replace(operands=tuple(operands)))
        return tuple(found)


def _check_test(test: AttributeTest, channel: Channel) -> None:
    """Place, type, operator and number of operands fit each other and the channel."""
    if isinstance(test.attribute, int):
        if not 0 <= test.attribute < len(channel.attributes):
            raise WireError(f"channel {channel.id} has no attribute {test.attribute}")
        place = channel.attributes[test.attribute]
        if place.type is not test.type:
            raise WireError(f"{place.name} is of type {place.type}, the test of type {test.type}")
    unsized = test.operator in (Operator.ABSENT, Operator.PRESENT)
    if test.type not in FORMS and not unsized:
        raise WireError(f"type {test.type} has no operands")
    if test.type is TypeCode.BOOL and test.operator <= Operator.CLOSED:
        raise WireError("Booleans have no order: use the operators 3 to 7")
    wanted = _OPERANDS.get(test.operator, 1)
    if len(test.operands) != wanted and not (test.operator in _LISTED and test.operands):
        raise WireError(f"{test.operator.name} has {wanted} operands, not {len(test.operands)}")


def _operands(test: AttributeTest) -> bytes:
    name = str(test.attribute)
    parts = []
    if isinstance(test.attribute, str):
        packed = _name(name)
        parts += [len(packed).to_bytes(4), packed, PADDING[len(packed) & 3]]
    if test.operator in _LISTED:
        parts.append(len(test.operands).to_bytes(4))
    return b"".join([*parts, *(pack_value(test.type, v, name) for v in test.operands)])


def _discretionary(name: str, value: Any) -> bytes:
    if value is None:
        raise WireError(f"{name} has no value: leave it out")
    code, packed = code_of(name, value), _name(name)
    head = _PAIR.pack(code, len(packed)) + packed + PADDING[len(packed) & 3]
    return head + pack_value(code, value, name)


def _name(name: str) -> bytes:
    try:
        check_name(name)
    except ChannelError as error:
        raise WireError(str(error)) from None
    return encoded(name)


def _check_attribute(name: str, at: int) -> None:
    try:
        check_name(name)
    except ChannelError as error:
        raise WireError(str(error), at) from None


def _check_subject(kind: type[Subject | SubjectFilter], text: str, at: int) -> None:
    try:
        kind.parse(text)
    except SubjectError as error:
        raise WireError(str(error), at) from None


def _code(number: int, at: int) -> TypeCode:
    if number not in FORMS:
        raise WireError(f"there is no type {number}", at)
    return TypeCode(number)


def _pair(first: int, second: int, what: str) -> bytes:
    try:
        return _PAIR.pack(first, second)
    except struct.error:
        raise WireError(f"a {what} has 16 bits: {first}, {second}") from None


def _control(name: str, header: Header, said: dict[str, Any], at: int) -> Message:
    kind, attributes = CONTROLS[name]
    usual = kind._field_defaults
    values = [said.pop(own, usual.get(key)) for key, (own, _) in attributes.items()]
    for value, (own, wanted) in zip(values, attributes.values(), strict=True):
        if type(message_value(value)) is not wanted:
            raise WireError(f"#.{name} needs {own}, of type {wanted.__name__}", at)
    if said:
        raise WireError(f"#.{name} has no attribute {min(said)!r}", at)
    found: Message = kind(*header, *values)
    return found
