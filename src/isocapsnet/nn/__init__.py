"""Modules that hold parameters and call :mod:`isocapsnet.functional`."""

from isocapsnet.nn.capsule import DigitCapsules, GraphDecoder, PrimaryCapsules, ResidualCapsules
from isocapsnet.nn.isocapsnet import CapsuleLoss, CapsuleOutput, IsoCapsNet, ReleasedIsoCapsNet
from isocapsnet.nn.isomorphic import IsomorphicLayer, ReleasedIsomorphicLayer, SpectralIsomorphicLayer

__all__ = [
    "CapsuleLoss",
    "CapsuleOutput",
    "DigitCapsules",
    "GraphDecoder",
    "IsoCapsNet",
    "IsomorphicLayer",
    "PrimaryCapsules",
    "ReleasedIsoCapsNet",
    "ReleasedIsomorphicLayer",
    "ResidualCapsules",
    "SpectralIsomorphicLayer",
]
