"""The OpenAPI document, made from the table of routes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tamis import __version__

if TYPE_CHECKING:
    from tamis.server.web.routes.table import RouteEntry

_WHOLE = {"limit", "first"}
_FAILURES = {"401": "Nobody was recognised", "403": "No right", "404": "There is no such thing",
             "409": "It is there already", "412": "It is not in this version",
             "422": "It cannot be read, or has no meaning",
             "429": "Too much at once", "500": "The broker failed: its log says more",
             "503": "The log or the registry cannot be written"}  # fmt: skip


def document(routes: Sequence[RouteEntry]) -> dict[str, Any]:
    forms = [route.form for route in routes if route.form is not None]
    _, schemas = msgspec.json.schema_components(forms, ref_template="#/components/schemas/{name}")
    if "Message" in schemas:  # what stands in a message is checked against its channel
        schemas["Message"]["properties"]["attributes"] = {"type": "object"}
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    security = {"basic": {"type": "http", "scheme": "basic"},
                "token": {"type": "http", "scheme": "bearer"}}  # fmt: skip
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tamis", "version": __version__},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": security},
        "security": [{}, {"basic": []}, {"token": []}],
    }


def _operation(route: RouteEntry) -> dict[str, Any]:
    named = re.findall(r"{(\w+)}", route.path)
    parameters = [_parameter(name, "path") for name in named]
    parameters += [_parameter(name, "query") for name in route.query]
    responses: dict[str, Any] = {"200": {"description": "Done", "content": {route.media: {}}}}
    responses |= {"201": {"description": "Made"}, "204": {"description": "Gone"}}
    if route.versioned:
        responses["200"]["headers"] = {"ETag": {"schema": {"type": "string"}}}
        parameters += [_parameter("If-Match", "header")] if route.method != "GET" else []
    failures = {code: text for code, text in _FAILURES.items() if route.versioned or code != "412"}
    responses |= {code: {"description": text} for code, text in failures.items()}
    found: dict[str, Any] = {"summary": route.summary, "parameters": parameters,
                             "responses": responses}  # fmt: skip
    if route.form is not None:
        schema = {"$ref": f"#/components/schemas/{route.form.__name__}"}
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    return found


def _parameter(name: str, where: str) -> dict[str, Any]:
    kind = {"type": "integer", "minimum": 0} if name in _WHOLE else {"type": "string"}
    return {"name": name, "in": where, "required": where == "path", "schema": kind}
