"""Rules of other languages as subscriptions: translated exactly, or refused with the reason."""

from tamis.rules.importing import LANGUAGES, condition, import_rules
from tamis.rules.rule import About, Imported, Refusal, Rule

__all__ = ["LANGUAGES", "About", "Imported", "Refusal", "Rule", "condition", "import_rules"]
