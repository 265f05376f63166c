"""The paths by which messages reach subscriptions, in the order in which they run. Subscriptions
are offered to the last path first; everywhere takes all that are left."""

from __future__ import annotations

from tamis.engine.choosing.path import Path
from tamis.engine.paths.clusters.cluster_path import ClusterPath
from tamis.engine.paths.direct.direct_path import DirectPath
from tamis.engine.paths.everywhere.everywhere_path import EverywherePath
from tamis.engine.paths.trees.tree_path import TreePath

PATHS: tuple[type[Path], ...] = (EverywherePath, ClusterPath, DirectPath, TreePath)
