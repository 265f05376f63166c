"""Values lead to rows: clusters without a detour, for batches."""
