"""Atlases that are downloaded once, by pooch or by nilearn, and kept as tables in the cache folder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from isocapsnet._packages import importing
from isocapsnet._validation import InputError, check_option
from isocapsnet.datasets.archive import cache_folder, replacing
from isocapsnet.datasets.atlas import Atlas, atlas_of_table
from isocapsnet.datasets.download import RemoteFile, download

_CBIG = "https://raw.githubusercontent.com/ThomasYeoLab/CBIG/d1454a611f7de10a3b36665e6fbb3fb6c770d140"
_CENTROIDS = "stable_projects/brain_parcellation/Schaefer2018_LocalGlobal/Parcellations/MNI/Centroid_coordinates"
#: Abbreviations in the names of Schaefer's parcels.
_SCHAEFER = {
    "Vis": "Visual",
    "SomMot": "Somatomotor",
    "DorsAttn": "Dorsal Attention",
    "SalVentAttn": "Ventral Attention",
    "Cont": "Frontoparietal",
}


@dataclass(frozen=True)
class AtlasDownload:
    """Where an atlas comes from: ``make(folder)`` downloads it into a folder and returns its table."""

    title: str
    licence: str
    make: Callable[[Path], pd.DataFrame]


def fetch_atlas(name: str, *, cache: Path | None = None) -> Atlas:
    """Download an atlas of ``DOWNLOADS`` once; ``load_atlas`` and ``atlas=`` then accept its name.

    Parameters
    ----------
    name : str
    cache : path, optional
        The folder of downloads, by default that of the user's cache.

    Examples
    --------
    >>> from isocapsnet.datasets import fetch_atlas
    >>> fetch_atlas("schaefer1000")  # needs a network
    Atlas(schaefer1000, 1000 nodes)
    """
    check_option("name", name, tuple(DOWNLOADS))
    path = _table_path(name, cache)
    if not path.exists():
        entry = DOWNLOADS[name]
        table = entry.make(path.parent / name)
        with replacing(path) as file:
            file.write(f"# {entry.title}. Licence: {entry.licence}.\n{table.to_csv(index=False)}".encode())
    return downloaded(name, cache)


def downloaded(name: str, cache: Path | None = None) -> Atlas:
    """An atlas that was downloaded before."""
    path = _table_path(name, cache)
    if not path.exists():
        raise InputError(f"The atlas {name!r} has to be downloaded first: isocapsnet.datasets.fetch_atlas({name!r}).")
    return atlas_of_table(pd.read_csv(path, keep_default_na=False, comment="#"), name)


def _table_path(name: str, cache: Path | None) -> Path:
    return (cache or cache_folder()) / "atlases" / f"{name}.csv"


def _make_schaefer(n_parcels: int, n_networks: int, folder: Path) -> pd.DataFrame:
    file = f"Schaefer2018_{n_parcels}Parcels_{n_networks}Networks_order_FSLMNI152_1mm.Centroid_RAS.csv"
    table = pd.read_csv(download(RemoteFile(f"{_CBIG}/{_CENTROIDS}/{file}", file), folder))
    networks = [name.split("_")[2] for name in table["ROI Name"]]
    columns = {"name": table["ROI Name"], "x": table["R"], "y": table["A"], "z": table["S"]}
    return pd.DataFrame(columns | {f"yeo{n_networks}": [_SCHAEFER.get(network, network) for network in networks]})


def _fetch_with_nilearn(function: str, folder: Path, **options: Any) -> Any:
    """Call a fetcher of nilearn, which checks what it downloads."""
    with importing("This atlas is downloaded by nilearn", "data"):
        from nilearn import datasets
    try:
        return getattr(datasets, function)(data_dir=str(folder), verbose=0, **options)
    except OSError as error:  # which errors of requests are
        raise InputError(f"The atlas cannot be downloaded ({error}); check the network.") from error


def _make_labelled(function: str, prefix: str, folder: Path, **options: Any) -> pd.DataFrame:
    """A volume of labels: its look-up table, and the mean position of the voxels of each label."""
    import nibabel as nib

    atlas = _fetch_with_nilearn(function, folder, **options)
    image: Any = atlas["maps"] if hasattr(atlas["maps"], "affine") else nib.load(atlas["maps"])
    labels = np.asarray(image.dataobj)
    lut = atlas["lut"]
    lut = lut[lut["name"].str.lower() != "background"]
    points = [
        nib.affines.apply_affine(image.affine, np.argwhere(labels == code)).mean(axis=0)
        for code in lut["index"].astype(int)
    ]
    return _table([f"{prefix}{name}" for name in lut["name"]], points)


def _make_difumo(n_maps: int, folder: Path) -> pd.DataFrame:
    from nilearn.plotting import find_probabilistic_atlas_cut_coords

    atlas = _fetch_with_nilearn("fetch_atlas_difumo", folder, dimension=n_maps)
    labels = atlas["labels"]
    table = _table(labels["difumo_names"], find_probabilistic_atlas_cut_coords(atlas["maps"]))
    return table.assign(yeo7=labels["yeo_networks7"].to_numpy(), yeo17=labels["yeo_networks17"].to_numpy())


def _make_msdl(folder: Path) -> pd.DataFrame:
    atlas = _fetch_with_nilearn("fetch_atlas_msdl", folder)
    return _table(atlas["labels"], atlas["region_coords"]).assign(msdl=[str(name) for name in atlas["networks"]])


def _table(names: Sequence[str], points: Any) -> pd.DataFrame:
    """Names, made unique by a number where several regions have the same, and coordinates."""
    texts = pd.Series([str(name).strip() for name in names])
    count = texts.groupby(texts).cumcount() + 1
    unique = texts.where(~texts.duplicated(keep=False), texts + " " + count.astype(str))
    x, y, z = np.round(np.asarray(points, dtype=float), 2).T
    return pd.DataFrame({"name": unique, "x": x, "y": y, "z": z})


def _list_downloads() -> dict[str, AtlasDownload]:
    entries = {}
    for n_networks, suffix in ((7, ""), (17, "-17")):
        for n_parcels in range(500 if n_networks == 7 else 100, 1001, 100):
            title = f"Schaefer et al., Cereb Cortex 2018: {n_parcels} parcels in the order of {n_networks} networks"
            make = partial(_make_schaefer, n_parcels, n_networks)
            entries[f"schaefer{n_parcels}{suffix}"] = AtlasDownload(title, "MIT", make)
    aal3 = partial(_make_labelled, "fetch_atlas_aal", "", version="3v2")
    entries["aal3"] = AtlasDownload("Rolls et al., NeuroImage 2020: AAL3", "GPL", aal3)
    for size in (36, 64, 122, 197, 325, 444):
        basc = partial(_make_labelled, "fetch_atlas_basc_multiscale_2015", "BASC ", resolution=size)
        entries[f"basc{size}"] = AtlasDownload(f"Bellec et al., NeuroImage 2010: BASC, {size} parcels", "MIT", basc)
    for size in (64, 128, 256, 512, 1024):
        title = f"Dadi et al., NeuroImage 2020: DiFuMo, {size} maps"
        entries[f"difumo{size}"] = AtlasDownload(title, "CC BY 4.0", partial(_make_difumo, size))
    entries["msdl39"] = AtlasDownload("Varoquaux et al., IPMI 2011: MSDL, 39 maps", "BSD", _make_msdl)
    return entries


#: Atlases that :func:`fetch_atlas` downloads.
DOWNLOADS = _list_downloads()
