"""CIFTI files of parcels: ``.pconn.nii`` (a matrix) and ``.ptseries.nii`` (time series), through nibabel."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._packages import importing
from isocapsnet._validation import InputError
from isocapsnet.datasets.isolation import Parsed, ReadLimit, parse


def is_cifti(path: Path) -> bool:
    """Whether a file is called as CIFTI files of parcels are."""
    return path.name.lower().endswith((".pconn.nii", ".ptseries.nii"))


def read_cifti(path: Path, limit: ReadLimit) -> tuple[NDArray[Any], list[str] | None]:
    """The matrix, or the time series with rows being time points, and the names of the parcels."""
    arrays, facts = parse(parse_cifti, path, limit)
    return arrays["values"], facts["names"]


def parse_cifti(path: Path, limit: ReadLimit) -> Parsed:
    """Values and names of parcels; runs in the isolated process."""
    with importing(f"{path.name} is a CIFTI file, which needs nibabel", "data"):
        import nibabel
        from nibabel.cifti2 import Cifti2Image, ParcelsAxis

    image = nibabel.load(path)
    if not isinstance(image, Cifti2Image):
        raise InputError(f"{path.name} is not a CIFTI file.")
    limit.check(8 * int(np.prod([int(size) for size in image.shape], dtype=object)), path.name)
    axes = [image.header.get_axis(i) for i in range(image.ndim)]
    if len(axes) != 2 or not isinstance(axes[1], ParcelsAxis):
        raise InputError(f"{path.name} is not about parcels; give .pconn.nii or .ptseries.nii.")
    names = [str(name) for name in axes[1].name]
    if isinstance(axes[0], ParcelsAxis) and [str(name) for name in axes[0].name] != names:
        raise InputError(f"{path.name} names its rows in another order than its columns; use one order for both.")
    values = np.asarray(image.get_fdata(dtype=np.float64))
    if values.shape != (len(axes[0]), len(names)):
        raise InputError(
            f"{path.name} has values of shape {values.shape}, but {len(axes[0])} rows of {len(names)} parcels."
        )
    return {"values": values}, {"names": names}
