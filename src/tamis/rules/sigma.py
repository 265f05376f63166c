"""Sigma rules: files of YAML, each with one rule or more. Needs `pip install 'tamis[sigma]'`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.errors import InputError, RuleError
from tamis.language import Condition
from tamis.rules.bounded import check_depth, files, read_text
from tamis.rules.conditions import any_of
from tamis.rules.rule import About, Found, Refusal, text
from tamis.rules.shapes import Shapes

if TYPE_CHECKING:
    from sigma.rule import SigmaRule

ENDINGS = (".yml", ".yaml")
MAX_EVENTS = 200_000  # of one file: its lists, mappings and values
MAX_ALIASES = 1_000
MAX_BRACKETS = 16  # nested ones of a condition, whose parser is recursive
MAX_DASHES = 5  # that windash expands in one value, each five ways
_BREAKS = (TypeError, ValueError, AttributeError, KeyError, OverflowError)
_DASH = re.compile(r"\B[-/]\b")


def found(path: str) -> Iterator[Found | Refusal]:
    """The rules of a file or a folder."""
    _need()
    root = Path(path)
    for file in files(path, ENDINGS):
        name = file.relative_to(root).with_suffix("").as_posix() if root.is_dir() else file.stem
        yield from _rules(file, name)


def condition(body: object, shapes: Shapes) -> Condition:
    """What one rule asks for: a rule of pySigma, or a mapping as YAML is read."""
    _need()
    from sigma.conversion.state import ConversionState
    from sigma.exceptions import SigmaError

    from tamis.rules.sigma_backend import TamisBackend

    rule = _rule(body)
    backend = TamisBackend(keywords=shapes.keywords, schema=shapes.schema)
    try:
        _check(rule)
        parsed = [one.parsed for one in rule.detection.parsed_condition]
        parts = [backend.convert_condition(one, ConversionState()) for one in parsed]
    except SigmaError as error:
        raise _refused(error) from None
    except RecursionError:
        raise RuleError("nested too deeply", construct="limit depth") from None
    except _BREAKS as error:  # pySigma itself fails
        what = f"pySigma cannot read it: {type(error).__name__}: {str(error)[:200]}"
        raise RuleError(what, construct="form") from None
    if not parts or None in parts:
        raise RuleError("the condition asks nothing", construct="condition", at="condition")
    return any_of(parts)


def _rule(body: object) -> SigmaRule:
    from sigma.exceptions import SigmaError
    from sigma.rule import SigmaRule

    if isinstance(body, SigmaRule):
        return body
    if not isinstance(body, dict):
        raise RuleError("a rule is a mapping", construct="form")
    try:
        _check_detection(body.get("detection"))
        return SigmaRule.from_dict(body)
    except SigmaError as error:
        raise _refused(error) from None
    except (*_BREAKS, RecursionError) as error:
        raise RuleError(f"not a Sigma rule: {str(error)[:200]}", construct="form") from None


def _rules(file: Path, name: str) -> Iterator[Found | Refusal]:
    """The rules of one file; pySigma joins its documents (`action: global`, filters)."""
    from sigma.collection import SigmaCollection
    from sigma.correlations import SigmaCorrelationRule
    from sigma.rule import SigmaRule

    place = str(file)
    try:
        documents = _documents(read_text(file))
        for document in documents:
            _check_detection(document.get("detection"))
        collection = _collected(SigmaCollection, documents)
    except RuleError as error:
        yield Refusal(place, "", error.construct, str(error))
        return
    for document in documents:
        if "filter" in document:
            what = "a filter changes rules of other files: apply it with sigma-cli"
            yield Refusal(place, str(document.get("title") or "")[:80], "filter", what)
    alone = len(collection.rules) == 1
    for number, rule in enumerate(collection.rules, 1):
        where = place if alone else f"{place}, rule {number}"
        title = text(rule.title) or ""
        if isinstance(rule, SigmaCorrelationRule):
            kind = rule.type.name.lower() if rule.type else "rule"
            what = "correlations look at more than one event"
            yield Refusal(where, title, f"correlation {kind}", what)
        elif isinstance(rule, SigmaRule) and rule.errors:
            wrong = _refused(rule.errors[0])
            yield Refusal(where, title, wrong.construct, str(wrong))
        else:
            own = str(rule.id) if rule.id else name if alone else ""
            yield Found(where, rule, own, _about(rule))
    if not collection.rules:
        for sigma_error in collection.errors[:1] or [ValueError("no rule in it")]:
            wrong = _refused(sigma_error)
            yield Refusal(place, "", wrong.construct, str(wrong))


def _collected(collection: Any, documents: list[dict[str, Any]]) -> Any:
    from sigma.exceptions import SigmaError

    try:
        return collection.from_dicts(documents, collect_errors=True)
    except SigmaError as error:
        raise _refused(error) from None
    except (*_BREAKS, RecursionError) as error:
        raise RuleError(f"not a Sigma rule: {str(error)[:200]}", construct="form") from None


def _about(rule: SigmaRule) -> About:
    tags = [str(tag) for tag in rule.tags]
    source = rule.logsource
    for part in ("category", "product", "service"):
        if value := text(getattr(source, part, None)):
            tags.append(f"logsource.{part}.{value}")
    level = rule.level.name.lower() if rule.level else None
    return About(text(rule.title), text(rule.author), level, tuple(tags), None)


def _refused(error: Exception) -> RuleError:
    what = str(error.args[0] if error.args else error)[:300]
    return RuleError(what, construct=type(error).__name__)


# --- hostile files ------------------------------------------------------------


def _documents(content: str) -> list[dict[str, Any]]:
    import yaml
    from sigma.exceptions import SigmaError
    from sigma.rule import SigmaYAMLLoader

    try:
        _check_events(content)
        documents = list(yaml.load_all(content, SigmaYAMLLoader))
    except SigmaError as error:
        raise _refused(error) from None
    except yaml.YAMLError as error:
        what = " ".join(str(error).split())[:200]
        raise RuleError(f"not YAML: {what}", construct="YAML") from None
    except (ValueError, OverflowError, TypeError, RecursionError) as error:
        raise RuleError(f"not YAML: {str(error)[:200]}", construct="YAML") from None
    for document in documents:
        check_depth(document, MAX_EVENTS)
    kept = [one for one in documents if one is not None]
    if not kept or not all(isinstance(one, dict) for one in kept):
        raise RuleError("a rule is a mapping", construct="form")
    return kept


def _check_events(content: str) -> None:
    """Bounds on a text before it is built: building is recursive, and aliases multiply."""
    import yaml

    depth = aliases = 0
    for count, event in enumerate(yaml.parse(content, yaml.CSafeLoader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        aliases += isinstance(event, yaml.AliasEvent)
        for name, value, limit in (
            ("depth", depth, 64), ("size", count, MAX_EVENTS), ("aliases", aliases, MAX_ALIASES),
        ):  # fmt: skip
            if value > limit:
                what = f"more than {limit:,} ({name})"
                raise RuleError(what, construct=f"limit {name}")


def _check(rule: SigmaRule) -> None:
    for one in rule.detection.condition:
        depth = deepest = 0
        for sign in str(one):
            depth += (sign == "(") - (sign == ")")
            deepest = max(deepest, depth)
        if deepest > MAX_BRACKETS or str(one).count("not") > 1_000:
            what = f"brackets in a condition are nested deeper than {MAX_BRACKETS}"
            raise RuleError(what, construct="limit depth", at="condition")


def _check_detection(detection: object) -> None:
    """Refuse values that windash would expand without end."""
    waiting: list[tuple[str, object]] = [("", detection)]
    while waiting:
        key, node = waiting.pop()
        if isinstance(node, dict):
            waiting.extend((str(name), value) for name, value in node.items())
        elif isinstance(node, list):
            waiting.extend((key, value) for value in node)
        elif isinstance(node, str) and "|windash" in key and len(_DASH.findall(node)) > MAX_DASHES:
            what = f"windash with more than {MAX_DASHES} dashes in one value"
            raise RuleError(what, construct="windash", at=key)


def _need() -> None:
    try:
        import sigma.conversion.base  # noqa: F401
    except ImportError:
        raise InputError("Sigma needs pySigma: pip install 'tamis[sigma]'") from None
