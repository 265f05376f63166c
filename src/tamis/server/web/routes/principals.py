"""Principals, their rights and tokens, and the audit log."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from tamis.errors import AccessError, RegistryError
from tamis.registry import VERBS, Principal, Right
from tamis.registry.registry_values import Verb, login
from tamis.server import accounts
from tamis.server.access import Caller, new_token
from tamis.server.accounts import LONGEST_TOKEN, MAX_RATE, MAX_SUBSCRIPTIONS
from tamis.server.assembly.parts import Parts
from tamis.server.web.answers import form, json, whole_number

_TOKEN_ID = 16  # characters of a token's hash that name it


class PrincipalForm(msgspec.Struct, forbid_unknown_fields=True):
    """What is left out stays as it is, or is empty in a new one; an empty text takes away."""

    password: str | UnsetType = UNSET
    tenant: str = ""
    selector: str | UnsetType = UNSET
    rate: Annotated[float, msgspec.Meta(ge=0, le=MAX_RATE)] | UnsetType = UNSET
    subscriptions: Annotated[int, msgspec.Meta(ge=0, le=MAX_SUBSCRIPTIONS)] | UnsetType = UNSET


class RightForm(msgspec.Struct, forbid_unknown_fields=True):
    verb: Verb
    channel: str = "*"
    subjects: str = ">"


class TokenForm(msgspec.Struct, forbid_unknown_fields=True):
    label: str = ""
    verbs: tuple[Verb, ...] = VERBS
    seconds: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_TOKEN)] = 0  # 0: for ever


def _managed(parts: Parts, caller: Caller, name: str) -> Principal:
    """A principal of the caller's tenant; only managers of all may ask."""
    caller.require("manage", "*")
    found = _known(parts, caller.tenant, name)
    if found is None:
        raise RegistryError(f"there is no principal {name}", status=404)
    return found


def _known(parts: Parts, tenant: str, name: str) -> Principal | None:
    everybody = parts.hub.registry.principals()
    return next((p for p in everybody if (p.tenant, p.name) == (tenant, name)), None)


async def put_principal(parts: Parts, caller: Caller, request: Request) -> Response:
    caller.require("manage", "*")
    name, told = request.path_params["p"], await form(request, PrincipalForm)
    tenant = told.tenant or caller.tenant
    if caller.rights is not None and tenant != caller.tenant:
        raise AccessError(f"{caller.name} has no right to another tenant")
    fields = ("password", "selector", "rate", "subscriptions")
    named = {key: value for key in fields if (value := getattr(told, key)) is not UNSET}
    change = accounts.change(tenant, name, **named)
    if named.get("password"):
        password = await parts.recognition.hashed(named["password"], caller.name)
        change = accounts.change(tenant, name, **{**named, "password": password})
    known = _known(parts, tenant, name)
    made = await parts.hub.in_registry(
        parts.hub.registry.change_principal, login(tenant, name), change
    )
    await parts.visits.renew()
    await parts.audit(caller, "principal.put", made.login)
    return json(_shown(parts, made), 200 if known else 201)


def _shown(parts: Parts, p: Principal) -> dict[str, Any]:
    """Never the hash of the password, only whether there is one."""
    return {"name": p.name, "tenant": p.tenant, "login": p.login, "selector": p.selector,
            "rate": p.rate, "subscriptions": p.subscriptions, "password": bool(p.password),
            "rights": parts.hub.registry.rights(p.login)}  # fmt: skip


async def principals(parts: Parts, caller: Caller, request: Request) -> Response:
    caller.require("manage", "*")
    found = [p for p in parts.hub.registry.principals()
             if caller.rights is None or p.tenant == caller.tenant]  # fmt: skip
    return json({"principals": [_shown(parts, p) for p in found]})


async def end_principal(parts: Parts, caller: Caller, request: Request) -> Response:
    name = _managed(parts, caller, request.path_params["p"]).login
    await parts.hub.in_registry(parts.hub.registry.remove_principal, name)
    await parts.visits.renew()  # first: nobody makes another subscription meanwhile
    gone = AccessError(f"principal {name} has ended", known=False)
    async for one in parts.visits.of(name):
        parts.hub.broker.drop(one, gone)
        parts.hub.pump()
    await parts.audit(caller, "principal.end", name)
    return Response(status_code=204)


async def put_right(parts: Parts, caller: Caller, request: Request) -> Response:
    name = _managed(parts, caller, request.path_params["p"]).login
    told = await form(request, RightForm)
    change = parts.hub.registry.put_right if request.method == "POST" else (
        parts.hub.registry.remove_right
    )  # fmt: skip
    right = Right(name, told.verb, told.channel, told.subjects)
    if request.method == "POST":  # a bad one of earlier times can be taken back
        right = accounts.right(name, told.verb, told.channel, told.subjects)
    await parts.hub.in_registry(change, right)
    await parts.visits.renew()
    verb = "right.give" if request.method == "POST" else "right.take"
    await parts.audit(caller, verb, f"{name} {told.verb} {told.channel} {told.subjects}")
    return json({"rights": parts.hub.registry.rights(name)})


async def make_token(parts: Parts, caller: Caller, request: Request) -> Response:
    name = _managed(parts, caller, request.path_params["p"]).login
    told = await form(request, TokenForm)
    registry = parts.hub.registry
    secret = await parts.hub.in_registry(
        new_token, registry, name, told.label, tuple(told.verbs), told.seconds
    )
    await parts.audit(caller, "token.make", f"{name} {told.label}")
    return json({"token": secret}, 201)


async def tokens(parts: Parts, caller: Caller, request: Request) -> Response:
    """Never the secrets themselves: only their hashes are kept."""
    name = _managed(parts, caller, request.path_params["p"]).login
    found = parts.hub.registry.tokens(name)
    return json({"tokens": [
        {"id": t.digest[:_TOKEN_ID], "label": t.label, "verbs": t.verbs, "expires": t.expires}
        for t in found
    ]})  # fmt: skip


async def end_token(parts: Parts, caller: Caller, request: Request) -> Response:
    name = _managed(parts, caller, request.path_params["p"]).login
    wanted = request.path_params["t"]
    known = [t for t in parts.hub.registry.tokens(name) if t.digest[:_TOKEN_ID] == wanted]
    if not known:
        raise RegistryError(f"there is no token {wanted}", status=404)
    await parts.hub.in_registry(parts.hub.registry.remove_token, known[0].digest)
    await parts.visits.renew()
    await parts.audit(caller, "token.end", f"{name} {known[0].label}")
    return Response(status_code=204)


async def audit(parts: Parts, caller: Caller, request: Request) -> Response:
    caller.require("manage", "*")
    most = whole_number(request, "limit", 100, 1000)
    await parts.hub.flush_audits()
    entries = parts.hub.registry.audits(most, None if caller.rights is None else caller.tenant)
    return json({"audit": entries})
