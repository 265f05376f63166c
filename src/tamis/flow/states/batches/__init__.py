"""Many keys at once: tables in and out, micro-batches, and states on disk."""
