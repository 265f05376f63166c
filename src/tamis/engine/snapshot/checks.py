"""What must hold of the vocabulary and the subscriptions of a snapshot (see ground/sound.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tamis.diagram import packed
from tamis.diagram.questions import AMONG, Terms
from tamis.engine.ground.layout import I4, I8, Access, Requirements
from tamis.engine.ground.sound import UnsoundError, demand, formulas, tiling, within
from tamis.engine.lookup.term_index import Index
from tamis.engine.snapshot.codecs import BIG, BOOL, DOUBLE, INT, LINK, STRING, Constants, Texts
from tamis.logic import Family, Kind

_Numbers = npt.NDArray[Any]
_KINDS = {
    Family.NUMBER: (BIG, INT, DOUBLE, LINK),
    Family.STRING: (STRING, LINK),
    Family.BOOL: (BOOL,),
    Family.TIMESTAMP: (INT,),
}
_ITEMS = np.zeros((len(Family), LINK + 1), bool)  # family x kind of item: can that be?
for _family, _kinds in _KINDS.items():
    _ITEMS[_family, _kinds] = True


def texts(given: Texts, what: str) -> None:
    """Offsets fit, and every text is UTF-8."""
    import pyarrow as pa

    tiling(given.offsets, len(given.data), f"the offsets of {what}")
    buffers = [None, pa.py_buffer(given.offsets), pa.py_buffer(given.data)]
    array = pa.Array.from_buffers(pa.large_string(), len(given), buffers)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raise UnsoundError(f"{what} are no texts") from None


def constants(given: Constants) -> None:
    texts(given.texts, "the texts of constants")
    count = len(given.family)
    demand(len(given.grouped) == count and len(given.starts) == count + 1, "constants do not fit")
    tiling(given.starts, len(given.kind), "the items of constants")
    within(given.kind, _ITEMS.shape[1], "kinds of items")
    within(given.family, len(Family), "families of constants")
    sizes = np.diff(given.starts)
    demand(bool(((sizes == 1) | (given.grouped == 1)).all()), "a constant is no single value")
    demand(
        bool(_ITEMS[np.repeat(given.family, sizes), given.kind].all()), "a constant is of no type"
    )
    found = np.bincount(given.kind, minlength=_ITEMS.shape[1])
    wanted = (found[STRING] + found[BIG], found[INT] + found[BOOL], found[DOUBLE], found[LINK])
    present = (len(given.texts), len(given.integers), len(given.doubles), len(given.links))
    demand(wanted == present, "constants are missing")
    _links(given, sizes)


def _links(given: Constants, sizes: I8) -> None:
    """A list has links alone or none; they lead to scalars of its family."""
    linked = np.append(0, np.cumsum(given.kind == LINK))[given.starts]
    links = np.diff(linked)
    demand(bool(((links == 0) | ((links == sizes) & (given.grouped == 1))).all()), "no list")
    within(given.links, len(given.family), "links of constants")
    demand(bool((given.grouped[given.links] == 0).all()), "a list holds a list")
    same = given.family[given.links] == np.repeat(given.family, links)
    demand(bool(same.all()), "a list holds another family")


# --- programs ----------------------------------------------------------------


def programs(offsets: I8, words: I4, terms: int) -> None:
    """Every template is one formula in postfix, about terms that exist."""
    formulas(offsets, words)
    questions(packed.asked(words[packed.is_literal(words)]), terms)


def questions(asked: I4, terms: int) -> None:
    """What is asked exists: the term, and the kind of question for the family."""
    term, family, kind = packed.term(asked), packed.family(asked), packed.kind(asked)
    within(term, terms, "terms")
    within(kind, AMONG + 1, "kinds of questions")
    textual = (kind >= Kind.PREFIX) & (kind <= Kind.LIKE)
    right = np.where(kind == Kind.DEFINED, family == Family.ANY, family < Family.ANY)
    right &= (family == Family.STRING) | ~textual
    demand(bool(right.all()), "a question does not suit its family")


def keys(asked: I4, given: I8, terms: Terms, pool: Constants) -> None:
    """Keys that stand for constants of the pool name one of the right family."""
    typed = np.array([kind is not None for kind in terms.types] or [False])
    family, kind = packed.family(asked), packed.kind(asked)
    plain = (family != Family.STRING) & ((family != Family.NUMBER) | typed[packed.term(asked)])
    pooled = (kind >= Kind.BELOW) & ((kind == AMONG) | ~plain)
    asked, given, family, kind = asked[pooled], given[pooled], family[pooled], kind[pooled]
    within(given, len(pool.family), "constants")
    demand(bool((pool.family[given] == family).all()), "a constant is of another family")
    demand(bool((pool.grouped[given] == (kind == AMONG)).all()), "a constant is of another kind")


def literals(offsets: I8, words: I4) -> tuple[I8, I4]:
    """Where the literals of each template begin among the questions of all; and these."""
    literal = packed.is_literal(words)
    return np.append(0, np.cumsum(literal))[offsets], packed.asked(words[literal])


def literals_of(template: I4, literal: I4, question: I4, offsets: I8, asked: I4) -> I8:
    """How many literals each subscription has; each asks what its template does.

    `question` is that of each variable, `offsets` and `asked` are the literals of all templates.
    """
    within(template, len(offsets) - 1, "templates of subscriptions")
    within(literal, len(question), "literals")
    sizes = np.diff(offsets)[template]
    demand(int(sizes.sum()) == len(literal), "a subscription has not one literal for each question")
    shift = offsets[:-1][template] - (np.cumsum(sizes) - sizes)
    own = asked[np.repeat(shift, sizes) + np.arange(len(literal))]
    demand(bool((question[literal] == own).all()), "a literal asks another question")
    return sizes


# --- segments ----------------------------------------------------------------


def links(access: Access, requirements: Requirements, index: Index) -> None:
    demand(len(access.offsets) == index.events + 1, "access does not fit the events")
    tiling(access.offsets, len(access.clusters), "access offsets")
    tiling(requirements.offsets, len(requirements.columns), "requirements")
    within(requirements.columns, len(index.terms), "columns of requirements")
