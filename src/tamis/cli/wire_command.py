"""`tamis wire`: packets by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from tamis.cli.terminal.channel_option import channel_of
from tamis.cli.terminal.options import STANDARD, Language, argument
from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.pubsub.wire import Codec, Message

Word = Annotated[str, Parameter(allow_leading_hyphen=True)]
U32 = Annotated[int, Parameter(validator=Number(gte=0, lte=0xFFFFFFFF))]
U16 = Annotated[int, Parameter(validator=Number(gte=0, lte=0xFFFF))]
Flag = Annotated[bool, Parameter(negative="")]


def wire(
    given: Word,
    /,
    *,
    channel: str,
    number: U32 | None = None,
    message: Flag = False,
    decode: Flag = False,
    hex: Flag = False,
    subject: str | None = None,
    publisher: U32 = 0,
    session: U32 = 0,
    sequence: U32 = 0,
    port: U16 = 0,
    subscription: U16 = 0,
    widen: Flag = False,
    limit_terms: Annotated[int, Parameter(validator=Number(gte=1), group="Limits")] = 500,
    language: Language = STANDARD,
) -> None:
    """Draw the packet of a subscription or a message, byte by byte.

    Parameters
    ----------
    given
        A selector; with --message a message as JSON; with --decode a packet in hexadecimal digits.
        - reads it from standard input.
    channel
        The channel file: TOML, or sections such as [ChannelAttributes 5].
    number
        The id of the channel, where the file has several.
    message
        Encode a notification.
    decode
        Decode a packet.
    hex
        Print the packet in hexadecimal digits, and nothing else.
    subject
        The subject of a message, or the subject filter of a subscription (else >).
    publisher
        The publisher's id.
    session
        The publisher's session.
    sequence
        The sequence number.
    port
        The port of a subscription.
    subscription
        The id of a subscription.
    widen
        Where tests cannot say what the selector says, let the packet ask for more.
    limit_terms
        Conjunctions of one filter.
    """
    from tamis.pubsub.packet_lines import drawing, said
    from tamis.pubsub.wire import Codec

    if language.schema is not None:
        raise InputError("--schema: the attributes are those of the channel")
    if message and decode:
        raise InputError("choose one of --message and --decode")
    codec = Codec(channel_of(channel, number))
    text = argument(given, "argument")
    header = (codec.channel.id, publisher, session, sequence)
    if decode:
        packet = _bytes(text)
    elif message:
        packet = codec.encode(_notification(text, subject, header, codec))
    else:
        front = (*header, port, subscription, subject or ">")
        found = _subscription(text, front, codec, language, limit_terms, widen)
        if found is None:
            print("no message can satisfy it: there is nothing to send")
            return
        packet = codec.encode(found)
    if hex:
        print(packet.hex())
    else:
        print(drawing(codec, packet))
        print(f"\n{said(codec, codec.decode(packet))}")


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise InputError("the packet is not in hexadecimal digits") from None


def _notification(
    text: str, subject: str | None, header: tuple[int, int, int, int], codec: Codec
) -> Message:
    from tamis.messages.single_messages import one_message
    from tamis.pubsub.wire import Notification

    if subject is None:
        raise InputError("--message needs a --subject")
    schema = codec.channel.schema
    found = one_message(text, schema)
    attributes = {
        name: schema.convert(name, value) if name in schema else value
        for name, value in found.items()
        if value is not None
    }
    return Notification(*header, subject, attributes)


def _subscription(
    text: str,
    front: tuple[int, int, int, int, int, int, str],
    codec: Codec,
    language: Language,
    limit: int,
    widen: bool,
) -> Message | None:
    from tamis.language import parse
    from tamis.logic.dnf import dnf
    from tamis.pubsub.wire import Subscription, disjuncts_of

    condition = parse(text, dialect=language.dialect, limits=language.limits)
    found = dnf(condition, codec.channel.schema, limit=limit, widen=widen)
    disjuncts = disjuncts_of(found, codec.channel)
    return None if disjuncts is None else Subscription(*front, disjuncts)
