"""Text to flow: the keyword of a statement chooses the function that reads it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tamis.errors import FlowError, InputError, SelectorError
from tamis.flow.model.elements import Flow
from tamis.flow.model.flow_limits import LIMITS, FlowLimits
from tamis.flow.text import flow_samples as samples
from tamis.flow.text import stateful, statements
from tamis.flow.text.flow_parser import StatementParser
from tamis.flow.text.flow_parser import statements as split
from tamis.language.lexer import Tokens
from tamis.language.parsing import check_text

# The keyword has been read already; it begins at the place that is given. What begins with no
# keyword is an arc.
STATEMENTS: dict[str, Callable[[StatementParser, int], Any]] = {
    "space": statements.space,
    "lookup": statements.lookup,
    "state": stateful.state,
    "expand": stateful.expand,
    "test": samples.test,
}


def parse_flow(text: str, limits: FlowLimits = LIMITS) -> Flow:
    """The statements that `text` makes. Whatever the text, only FlowError is raised."""
    try:
        if isinstance(text, str) and len(text) > limits.length:
            raise limits.crossed("length", f"the flow has {len(text):,} characters")
        check_text(text, _unbounded(limits))
        found = []
        for tokens in split(text):
            found.append(_statement(text, tokens, limits))
            if len(found) > limits.statements:
                raise limits.crossed("statements", "the flow has too many statements")
        return Flow(tuple(found), text)
    except SelectorError as error:
        raise _as_flow_error(error, "", text) from None


def read_flow(path: str | os.PathLike[str], limits: FlowLimits = LIMITS) -> Flow:
    """The flow in a file."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    try:
        return parse_flow(_lines(data.decode("utf-8-sig")), limits)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}: line {line} is not UTF-8: save the file as UTF-8") from None


def _lines(text: str) -> str:
    """With the line ends that places are counted by, as Python reads text files."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _statement(text: str, tokens: Tokens, limits: FlowLimits) -> Any:
    parser = StatementParser(text, tokens, limits)
    try:
        return _read(parser)
    except SelectorError as error:
        raise _as_flow_error(error, parser.title, text) from None
    except RecursionError:
        raise _as_flow_error(parser.deep(), parser.title, text) from None


def _read(parser: StatementParser) -> Any:
    at = parser.at
    if text_is_indented(parser.text, at):
        parser.fail("a statement begins in column 0", at, "remove the space before it")
    read: Callable[[StatementParser, int], Any] = statements.arc
    if parser.kinds[1] != "->":
        for keyword, chosen in STATEMENTS.items():
            if parser.word(keyword):
                read = chosen
                break
    found = read(parser, at)
    if parser.kinds[parser.i] != "end":
        _fail_at_rest(parser)
    return found


def _fail_at_rest(parser: StatementParser) -> None:
    kind, value = parser.kinds[parser.i], parser.values[parser.i][:20]
    hint = "an operator or a ; is missing before it"
    if kind == "=>":
        hint = "the comparison is written >="
    parser.fail(f"expected the end of the statement, not {value}", parser.at, hint)


def text_is_indented(text: str, at: int) -> bool:
    return at > 0 and text[at - 1] != "\n"


def _unbounded(limits: FlowLimits) -> Any:
    from dataclasses import replace

    return replace(limits.selectors, length=limits.length)


def _as_flow_error(error: SelectorError, where: str, text: str) -> FlowError:
    what = error.what.replace("the selector", "the expression").replace("a selector", "a flow")
    at = error.at if error.text else 0
    shown = text if isinstance(text, str) else ""
    return FlowError(what, where=where, text=shown, at=at, hint=error.hint, limit=error.limit)
