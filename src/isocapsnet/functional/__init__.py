"""The equations of the paper in torch, without parameters and random numbers."""

from isocapsnet.functional.assignment import assigned_columns
from isocapsnet.functional.capsule import (
    PermutationCapsules,
    dense_primary_capsules,
    dynamic_routing,
    leaky_softmax,
    margin_loss,
    primary_capsules,
    reconstruction_loss,
    safe_norm,
    squash,
)
from isocapsnet.functional.isomorphic import (
    IsomorphicMatch,
    SpectralMatch,
    isomorphic_match,
    spectral_match,
    spectral_permutations,
    window_eigenvectors,
)
from isocapsnet.functional.permutations import (
    permutation_at,
    permutation_matrices,
    permutation_number,
    permutation_table,
)
from isocapsnet.functional.released import (
    released_distances,
    released_match,
    released_primary_capsules,
    released_route,
)
from isocapsnet.functional.routing import attend_to_shared, attend_to_votes, dense_votes, permutation_votes, route
from isocapsnet.functional.windows import (
    NearestWindows,
    grown_windows,
    match_windows,
    nearest_windows,
    shared_patterns,
    soft_minimum,
    take_windows,
)

__all__ = [
    "IsomorphicMatch",
    "NearestWindows",
    "PermutationCapsules",
    "SpectralMatch",
    "assigned_columns",
    "attend_to_shared",
    "attend_to_votes",
    "dense_primary_capsules",
    "dense_votes",
    "dynamic_routing",
    "grown_windows",
    "isomorphic_match",
    "leaky_softmax",
    "margin_loss",
    "match_windows",
    "nearest_windows",
    "permutation_at",
    "permutation_matrices",
    "permutation_number",
    "permutation_table",
    "permutation_votes",
    "primary_capsules",
    "reconstruction_loss",
    "released_distances",
    "released_match",
    "released_primary_capsules",
    "released_route",
    "route",
    "safe_norm",
    "shared_patterns",
    "soft_minimum",
    "spectral_match",
    "spectral_permutations",
    "squash",
    "take_windows",
    "window_eigenvectors",
]
