"""Channels as text: the configuration file of table 13, and TOML. Both can be read and written."""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from tamis.errors import ChannelError, SubjectError
from tamis.pubsub.subjects.channel import RESERVED, Channel, ChannelAttribute, Properties
from tamis.pubsub.subjects.subject import Subject
from tamis.pubsub.subjects.typecodes import FORMS, c_name, named

MAX_TEXT = 4_000_000  # characters of one file
_SECTION = re.compile(r"Channel(Comm|Subjects|Attributes|Properties) (\d{1,10})")
Channels = dict[int, Channel]


def read_channels(text: str) -> Channels:
    """The channels of a file, by id: TOML where it says [[channel]], else the form of table 13."""
    if len(text) > MAX_TEXT:
        raise ChannelError(f"the file is too long: {MAX_TEXT:,} characters are allowed")
    try:
        return _from_toml(text) if re.search(r"^\s*\[\[", text, re.MULTILINE) else _from_ini(text)
    except SubjectError as error:
        raise ChannelError(str(error)) from None


# --- table 13 -------------------------------------------------------------------


def _from_ini(text: str) -> Channels:
    parser = configparser.RawConfigParser(comment_prefixes=("#",), delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ChannelError(f"this is no channel file: {error.message}") from None
    parts: dict[int, dict[str, Mapping[str, str]]] = {}
    for section in parser.sections():
        found = _SECTION.fullmatch(section)
        if found is None:
            raise ChannelError(f"there is no section [{section}]: write [ChannelComm 5] and such")
        parts.setdefault(int(found[2]), {})[found[1]] = dict(parser[section])
    return {id: _channel(id, sections) for id, sections in parts.items()}


def _channel(id: int, sections: Mapping[str, Mapping[str, str]]) -> Channel:
    subjects, numbers = _subjects(sections.get("Subjects", {}), id)
    return Channel(
        id,
        tuple(_attributes(sections.get("Attributes", {}), id)),
        subjects,
        numbers,
        _properties(sections.get("Properties", {}), id),
        sections.get("Comm", {}),
    )


def _numbered(section: Mapping[str, str], counted: str, keys: Iterable[str], id: int) -> int:
    """How many entries a section has: they are numbered from 1, without gaps."""
    counts = [
        int(key[len(k) :]) for key in section for k in keys if re.fullmatch(k + r"\d{1,6}", key)
    ]
    known = {counted, *(f"{k}{i}" for k in keys for i in range(1, len(section) + 1))}
    for key in section:
        if key not in known:
            raise ChannelError(
                f"channel {id}: there is no entry {key!r}, or a number before it is missing"
            )
    count = max(counts, default=0)
    said = section.get(counted, "")
    if said and said != str(count):
        raise ChannelError(f"channel {id}: {counted}={said}, but there are {count}")
    return count


def _subjects(section: Mapping[str, str], id: int) -> tuple[tuple[Subject, ...], dict[str, int]]:
    found: list[Subject] = []
    numbers: dict[str, int] = {}
    for i in range(1, _numbered(section, "NumberOfSubjects", ("subject", "mapping"), id) + 1):
        subject = Subject.parse(_entry(section, f"subject{i}", id))
        _map(subject, _entry(section, f"mapping{i}", id), numbers, id)
        found.append(subject)
    return tuple(found), numbers


def _map(subject: Subject, mapping: str, numbers: dict[str, int], id: int) -> None:
    """`102.101` gives the fields of the subject their numbers."""
    parts = mapping.split(".")
    if len(parts) != len(subject.fields) or not all(re.fullmatch(r"\d{1,5}", p) for p in parts):
        raise ChannelError(f"channel {id}: {mapping!r} does not number the fields of {subject}")
    for name, number in zip(subject.fields, map(int, parts), strict=True):
        if numbers.setdefault(name, number) != number:
            raise ChannelError(
                f"channel {id}: field {name!r} has numbers {numbers[name]} and {number}"
            )


def _attributes(section: Mapping[str, str], id: int) -> Iterable[ChannelAttribute]:
    for i in range(
        1, _numbered(section, "NumberOfAttributes", ("name", "type", "decimals"), id) + 1
    ):
        kind = named(_entry(section, f"type{i}", id))
        decimals = section.get(f"decimals{i}")
        yield ChannelAttribute(
            _entry(section, f"name{i}", id),
            kind,
            None if decimals is None else _whole(decimals, f"decimals{i}", id),
        )


def _properties(section: Mapping[str, str], id: int) -> Properties:
    for key in section:
        if key not in ("Persistent", "Timeout", "TimeGranularity"):
            raise ChannelError(f"channel {id}: there is no property {key!r}")
    persistent = section.get("Persistent", "no")
    if persistent not in ("yes", "no"):
        raise ChannelError(f"channel {id}: Persistent={persistent}: choose yes or no")
    timeout = section.get("Timeout")
    return Properties(
        persistent == "yes",
        None if timeout is None else _whole(timeout, "Timeout", id),
        _whole(section.get("TimeGranularity", "5"), "TimeGranularity", id),
    )


def _entry(section: Mapping[str, str], key: str, id: int) -> str:
    if key not in section:
        raise ChannelError(f"channel {id}: {key} is missing")
    return section[key]


def _whole(text: str, key: str, id: int) -> int:
    if not re.fullmatch(r"\d{1,9}", text):
        raise ChannelError(f"channel {id}: {key}={text} is no whole number")
    return int(text)


def write_ini(channels: Iterable[Channel]) -> str:
    """The channels in the form of table 13."""
    lines: list[str] = []
    for channel in channels:
        _refuse_unwritable(channel)
        lines += _ini_section("Comm", channel.id, dict(channel.communication))
        subjects = {"NumberOfSubjects": len(channel.subjects)}
        for i, subject in enumerate(_with_all_numbers(channel), 1):
            numbers = ".".join(map(str, channel.numbers_of(subject)))
            subjects |= {"NumberOfSubjects": i, f"subject{i}": subject, f"mapping{i}": numbers}  # type: ignore[dict-item]
        lines += _ini_section("Subjects", channel.id, subjects)
        lines += _ini_section("Attributes", channel.id, _ini_attributes(channel))
        own = channel.properties
        timeout = {} if own.retention is None else {"Timeout": own.retention}
        kept = {"Persistent": "yes" if own.persistent else "no", **timeout}
        lines += _ini_section(
            "Properties", channel.id, {**kept, "TimeGranularity": own.granularity}
        )
    return "\n".join(lines)


def _ini_section(kind: str, id: int, entries: Mapping[str, object]) -> list[str]:
    return [f"[Channel{kind} {id}]", *(f"{key}={value}" for key, value in entries.items()), ""]


def _ini_attributes(channel: Channel) -> dict[str, object]:
    entries: dict[str, object] = {"NumberOfAttributes": len(channel.attributes)}
    for i, attribute in enumerate(channel.attributes, 1):
        entries |= {f"name{i}": attribute.name, f"type{i}": c_name(attribute.type)}
        if attribute.decimals is not None:
            entries[f"decimals{i}"] = attribute.decimals
    return entries


def _refuse_unwritable(channel: Channel) -> None:
    texts = [a.name for a in channel.attributes] + list(channel.communication.values())
    keys = list(channel.communication)
    for text in [*texts, *keys]:
        if text != text.strip() or any(
            c in text for c in "\r\n\x85\u2028\u2029\x1c\x1d\x1e\x0b\x0c"
        ):
            raise ChannelError(f"{text!r} cannot stand in this form: write TOML instead")
    for key in keys:
        if not re.fullmatch(r"\w+", key):
            raise ChannelError(f"{key!r} cannot stand in this form: write TOML instead")


def _with_all_numbers(channel: Channel) -> list[Subject]:
    """The subjects, and behind them the fields that have a number and occur in none."""
    used = {name for subject in channel.subjects for name in subject.fields}
    loose = [name for name in channel.numbers if name not in used and name not in RESERVED]
    return [*channel.subjects, *(Subject((name,)) for name in loose)]


# --- TOML -----------------------------------------------------------------------


def _from_toml(text: str) -> Channels:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ChannelError(f"this is not TOML: {error}") from None
    except RecursionError:
        raise ChannelError("this TOML is nested too deeply") from None
    _known(content, {"channel"}, "the file")
    channels: Channels = {}
    for entry in _listed(content.get("channel", []), "channel"):
        channel = _channel_of(entry)
        if channel.id in channels:
            raise ChannelError(f"there are two channels {channel.id}")
        channels[channel.id] = channel
    return channels


def _channel_of(entry: dict[str, Any]) -> Channel:
    id = _typed(entry, "id", int, None, "a channel")
    where = f"channel {id}"
    keys = {"id", "persistent", "retention", "granularity", "subjects", "communication"}
    _known(entry, {*keys, "attributes"}, where)
    numbers: dict[str, int] = {}
    subjects = []
    for text, mapping in _typed(entry, "subjects", dict, {}, where).items():
        subjects.append(Subject.parse(text))
        _map(subjects[-1], str(mapping), numbers, id)
    properties = Properties(
        _typed(entry, "persistent", bool, False, where),
        _typed(entry, "retention", int, None, where) if "retention" in entry else None,
        _typed(entry, "granularity", int, 5, where),
    )
    attributes = [_attribute(one, where) for one in _listed(entry.get("attributes", []), where)]
    told = _typed(entry, "communication", dict, {}, where)
    communication = {key: str(value) for key, value in told.items()}
    return Channel(id, tuple(attributes), tuple(subjects), numbers, properties, communication)


def _attribute(entry: dict[str, Any], where: str) -> ChannelAttribute:
    _known(entry, {"name", "type", "decimals"}, f"{where}, attributes")
    decimals = _typed(entry, "decimals", int, None, where) if "decimals" in entry else None
    name = _typed(entry, "name", str, None, where)
    return ChannelAttribute(name, named(_typed(entry, "type", str, None, where)), decimals)


def _typed(entry: dict[str, Any], key: str, kind: type, default: Any, where: str) -> Any:
    if key not in entry and default is not None:
        return default
    found = entry.get(key)
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise ChannelError(f"{where} needs {key}, of type {kind.__name__}")
    return found


def _known(entry: Mapping[str, Any], keys: set[str], where: str) -> None:
    for key in entry:
        if key not in keys:
            raise ChannelError(f"{where} has no {key!r}: it has {', '.join(sorted(keys))}")


def _listed(found: Any, where: str) -> list[dict[str, Any]]:
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ChannelError(f"{where}: write each one as a [[table]]")
    return found


def write_toml(channels: Iterable[Channel]) -> str:
    lines: list[str] = []
    for channel in channels:
        own = channel.properties
        lines += ["[[channel]]", f"id = {channel.id}"]
        lines += [f"persistent = {str(own.persistent).lower()}"]
        lines += [] if own.retention is None else [f"retention = {own.retention}"]
        lines += [f"granularity = {own.granularity}", "", "[channel.subjects]"]
        for subject in _with_all_numbers(channel):
            numbers = ".".join(map(str, channel.numbers_of(subject)))
            lines.append(f"{_quoted(str(subject))} = {_quoted(numbers)}")
        lines += ["", "[channel.communication]"]
        lines += [f"{_quoted(k)} = {_quoted(v)}" for k, v in channel.communication.items()]
        for attribute in channel.attributes:
            lines += ["", "[[channel.attributes]]", f"name = {_quoted(attribute.name)}"]
            lines += [f"type = {_quoted(FORMS[attribute.type].toml)}"]
            if attribute.decimals is not None:
                lines.append(f"decimals = {attribute.decimals}")
        lines.append("")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """A basic string of TOML: what JSON writes, and DEL escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
