"""Compilation to machine code: kernels, where they are kept, vectors, arithmetic."""
