"""One message from text."""

from __future__ import annotations

from typing import Any

from tamis.errors import MessageError
from tamis.messages.jsonlines import parse_object
from tamis.messages.message_values import lookup
from tamis.messages.texts import from_value
from tamis.messages.xml import parse_xml
from tamis.schema import Schema


def one_message(text: str, schema: Schema | None = None) -> dict[str, Any]:
    """The message in a JSON object or a flat XML document, with the types of the schema."""
    if text.lstrip().startswith("<"):
        return dict(parse_xml(text, schema))
    try:
        message = parse_object(text.encode())
    except UnicodeEncodeError:
        raise MessageError("the message holds a lone surrogate: it is no text") from None
    if message is None:
        raise MessageError('expected a message such as {"price": 10.5}')
    for name in schema or ():
        value = lookup(message, name)
        if value is not None and schema is not None:
            message[name] = from_value(schema, name, value)
    return message
