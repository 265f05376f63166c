"""Settings that all tests share: how hard hypothesis searches."""

from __future__ import annotations

import os

os.environ.setdefault("TAMIS_KERNELS", "now")  # before anything imports a kernel

from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("deep", parent=settings.get_profile("ci"), derandomize=False,
                          max_examples=5000)  # fmt: skip
settings.register_profile("few", parent=settings.get_profile("ci"), max_examples=20)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
