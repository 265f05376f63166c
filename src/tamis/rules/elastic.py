"""Queries of Elasticsearch and OpenSearch: alone, or stored for a percolator."""

from __future__ import annotations

from collections.abc import Iterator

from tamis.errors import RuleError
from tamis.language import Condition
from tamis.rules.elastic_query import QUERIES, Query
from tamis.rules.json_files import json_rules
from tamis.rules.rule import About, Found, Refusal, text, texts
from tamis.rules.shapes import Shapes

_LISTS = (("hits.hits", "_id"), ("hits", "_id"), ("queries", "query"))
_NAMES = ("_id", "id", "name")


def found(path: str) -> Iterator[Found | Refusal]:
    """The queries of a file or a folder; the hits of a search in an index of queries, too."""
    yield from json_rules(path, _unwrap, _LISTS)


def condition(body: object, shapes: Shapes) -> Condition:
    """What one query asks for, alone or in `{"query": ...}`."""
    if isinstance(body, dict) and "query" in body and not set(body) & set(QUERIES):
        body = body["query"]
    return Query(shapes).whole(body)


def _unwrap(value: object, place: str, file: str) -> Found:
    if not isinstance(value, dict):
        return Found(place, value, file)
    name = next((value[key] for key in _NAMES if text(value.get(key))), file)
    source = value["_source"] if isinstance(value.get("_source"), dict) else value
    if "query" not in source:
        if name != file or "_source" in value:
            raise RuleError(f"{name!r} has no query", construct="no query")
        return Found(place, value, file)
    level = text(source.get("level")) or text(source.get("severity"))
    title, author = text(source.get("title")) or text(source.get("name")), source.get("author")
    about = About(title, text(author), level, texts(source.get("tags")), text(source.get("owner")))
    return Found(place, source["query"], name, about)
