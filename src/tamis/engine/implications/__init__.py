"""The implication graph: a second evaluator over the same predicates (US 7,136,899)."""
