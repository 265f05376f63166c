"""Subscriptions that are checked and never matched: nobody waits for kernels."""

from __future__ import annotations

from tamis.engine.matcher import Matcher
from tamis.engine.subscription_report import Report
from tamis.jit.first_use import NotCompiledError, without_waiting


def lint_only(matcher: Matcher) -> None:
    """From now on, subscriptions that are added are not compiled before something asks for them."""
    matcher._contents.merging.eager = False


def report_now(matcher: Matcher) -> Report | None:
    """Its report; None if that takes kernels that are not compiled yet. Then it starts to compile
    them in the background."""
    try:
        with without_waiting():
            return matcher.report()
    except NotCompiledError:
        return None
