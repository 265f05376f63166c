"""The flat XML documents of ICSE 2001, example 3.

A document is a row of elements, one per attribute, with or without an element
around them. Nothing of XML that could do harm is understood: a document type
(and with it every entity of one's own) is refused, depth and size are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any
from xml.parsers import expat

from tamis.errors import MessageError
from tamis.messages.byte_sources import MAX_LINE
from tamis.messages.texts import from_text, guess
from tamis.schema import Scalar, Schema, Type

MAX_DEPTH = 16
_ROOT = "tamis"  # the element that is put around every document
# Possessive, and only at the start: no text makes these look at a character again and again.
_DECLARATION = re.compile(r"\A\s*+<\?xml\s[^>]*+(?<=\?)>")
_BLANKS = re.compile(r"[ \t\r\n]+")
_TAG = re.compile(r"<([^?!\s/>][^\s/>]*+)")
_MESSAGE_END = re.compile(r"</message\s*+>")
_MESSAGES_TAG = re.compile(r"</?messages\b[^<>]*+>")


def parse_xml(text: str, schema: Schema | None = None) -> dict[str, Scalar | None]:
    """The attributes of one document.

    Blanks around a value are trimmed and runs of them inside become one blank. Types come from
    the schema; an attribute that is not in it becomes an int, a double or a bool if it looks
    like one. Nested elements have dotted names.
    """
    if len(text) > MAX_LINE:
        raise MessageError(f"the XML document is longer than {MAX_LINE} characters")
    return {name: _typed(name, value, schema) for name, value in _Reader().read(text).items()}


def documents(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The documents of a file, each with the line on which it begins.

    In a file of `<message>` elements (with or without `<messages>` around them) each of these
    is a document; else a blank line ends one.
    """
    wrapped: bool | None = None
    start, size, parts = 0, 0, [""]
    for number, line in lines:
        if wrapped is None and (tag := _TAG.search(line)):
            wrapped = tag[1] in ("message", "messages")
        pieces = _MESSAGE_END.split(line) if wrapped else [line]
        for i, piece in enumerate(pieces):
            start = start or (number if piece.strip() else 0)
            parts.append(piece)
            size += len(piece)
            whole = i < len(pieces) - 1 or (not wrapped and not piece.strip())
            if whole or size > MAX_LINE:  # too long is passed on too: parse_xml says so
                document = _stripped([*parts, "</message>"] if wrapped and whole else parts)
                if document:
                    yield start, document
                start, size, parts = 0, 0, [""]
    if document := _stripped(parts):
        yield start, document


def _stripped(parts: list[str]) -> str:
    text = _DECLARATION.sub("", "".join(parts), count=1)
    return _MESSAGES_TAG.sub("", text).strip()


def _typed(name: str, text: str, schema: Schema | None) -> Scalar | None:
    if schema is None or name not in schema:
        return guess(name, text)
    return text if schema[name].type is Type.STRING else from_text(schema, name, text)


class _Reader:
    """Collects the leaves of one document by dotted name."""

    def __init__(self) -> None:
        self.path: list[str] = []
        self.texts: list[list[str]] = []
        self.inner: list[bool] = []  # whether the open element holds elements
        self.leaves: dict[tuple[str, ...], str] = {}
        self.tops: list[bool] = []  # of the elements outside of all others: does it hold elements?

    def read(self, text: str) -> dict[str, str]:
        parser = expat.ParserCreate("utf-8")
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.data
        parser.StartDoctypeDeclHandler = _refuse
        parser.EntityDeclHandler = _refuse
        body = _DECLARATION.sub("", text.removeprefix("\N{BOM}"), count=1)
        try:
            parser.Parse(f"<{_ROOT}>{body}</{_ROOT}>".encode(), True)
        except UnicodeEncodeError:
            raise MessageError("the XML document holds a lone surrogate: it is no text") from None
        except expat.ExpatError as error:
            if "<!DOCTYPE" in text or "<!ENTITY" in text:
                _refuse()
            raise MessageError(f"broken XML: {expat.ErrorString(error.code)}") from None
        # One element around everything is a wrapper, not an attribute.
        skipped = 1 if self.tops == [True] else 0
        return {".".join(path[skipped:]): value for path, value in self.leaves.items()}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self.path) > MAX_DEPTH:
            raise MessageError(f"the XML document is nested deeper than {MAX_DEPTH}")
        if self.inner:
            self.inner[-1] = True
        self.path.append(name)
        self.texts.append([])
        self.inner.append(False)

    def data(self, text: str) -> None:
        self.texts[-1].append(text)

    def end(self, name: str) -> None:
        path = tuple(self.path[1:])
        text = _BLANKS.sub(" ", "".join(self.texts.pop())).strip(" ")
        self.path.pop()
        inner = self.inner.pop()
        if not path:
            if text:
                raise MessageError("the XML document holds text outside of its elements")
            return
        if inner and text:
            raise MessageError(f"element <{name}> holds both text and elements")
        if path in self.leaves:
            raise MessageError(f"element <{name}> occurs twice")
        if len(path) == 1:
            self.tops.append(inner)
        if not inner:
            self.leaves[path] = text


def _refuse(*_: Any) -> None:
    raise MessageError("the XML document declares a document type or an entity: these are refused")
