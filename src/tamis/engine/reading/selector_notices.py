"""What is to be said of a subscription when it is added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from tamis.diagram.questions import Vocabulary
from tamis.diagram.shared import build
from tamis.diagram.variables import order, with_variables
from tamis.engine.reading.notice_samples import plainly_contingent
from tamis.engine.reading.templates import Template

Notice = Literal["unsatisfiable", "always true"]
_LONGEST = 512  # words of a condition whose diagram is tried


def notice(vocabulary: Vocabulary, template: Template, keys: Sequence[int]) -> Notice | None:
    """Whether no message, or every message, can match a subscription; None: neither is proved."""
    if len(template.packed) > 4 * _LONGEST or template.contingent:
        return None
    if plainly_contingent(vocabulary, template, keys):
        return None
    words = np.frombuffer(template.packed, np.int32)
    asked = np.array(template.asked, np.int32)
    atoms, variable = order(vocabulary, asked, np.array(keys, np.int64))
    offsets = np.array([0, len(words)], np.int64)
    root = build(offsets, with_variables(words, variable), atoms.variables).roots[0]
    if root == 0:
        return "unsatisfiable"
    return "always true" if root == 1 and not template.required else None
