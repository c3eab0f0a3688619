"""Modules that hold parameters and call :mod:`isocapsnet.functional`."""

from isocapsnet.nn.capsule import DigitCapsules, GraphDecoder, PrimaryCapsules, ResidualCapsules
from isocapsnet.nn.isocapsnet import CapsuleLoss, CapsuleOutput, IsoCapsNet, ReleasedIsoCapsNet
from isocapsnet.nn.isomorphic import IsomorphicLayer, ReleasedIsomorphicLayer, SpectralIsomorphicLayer
from isocapsnet.nn.motifs import MotifMatch, MotifNetwork, MotifOutput

__all__ = [
    "CapsuleLoss",
    "CapsuleOutput",
    "DigitCapsules",
    "GraphDecoder",
    "IsoCapsNet",
    "IsomorphicLayer",
    "MotifMatch",
    "MotifNetwork",
    "MotifOutput",
    "PrimaryCapsules",
    "ReleasedIsoCapsNet",
    "ReleasedIsomorphicLayer",
    "ResidualCapsules",
    "SpectralIsomorphicLayer",
]
