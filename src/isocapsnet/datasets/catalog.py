"""Public datasets: what they contain, who published them, and how to get them.

A dataset is given by name. It is read from the folder in the environment variable ``ISOCAPSNET_DATA``, or downloaded.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from isocapsnet._validation import InputError, check_option
from isocapsnet.datasets.archive import cache_folder
from isocapsnet.datasets.atlas import ATLASES, load_atlas
from isocapsnet.datasets.download import Progress, RemoteFile, download
from isocapsnet.datasets.formats.text import read_table
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.readers import load_graphs
from isocapsnet.datasets.synthetic import make_planted_graphs


@dataclass(frozen=True)
class CatalogEntry:
    """A dataset: what it is and how to get it.

    ``files`` are downloaded; ``more_files`` names further ones once those are there. ``options`` are those of
    :func:`load_graphs` for the downloaded files. Without files, ``how_to_obtain`` says what to do. ``local`` is the
    name of the dataset's ``.npz`` in the folder ``ISOCAPSNET_DATA``; by default it follows from the dataset's name.
    """

    title: str
    n_nodes: int
    licence: str
    citation: str
    class_counts: Mapping[str, int] = field(default_factory=dict)
    atlas: str | None = None
    files: tuple[RemoteFile, ...] = ()
    more_files: Callable[[Path], tuple[RemoteFile, ...]] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    how_to_obtain: str = ""
    make: Callable[[], BrainGraphs] | None = None
    local: str = ""

    @property
    def how(self) -> Literal["built in", "download", "by hand"]:
        """How to get the data."""
        return "built in" if self.make else "download" if self.files else "by hand"


def fetch_graphs(name: str, *, cache: Path | None = None, progress: Progress | None = None) -> BrainGraphs:
    """Get a dataset of :data:`CATALOG` by name.

    A file of the dataset in the folder ``$ISOCAPSNET_DATA`` is read. Otherwise the dataset is downloaded on first use
    and kept in ``cache`` (by default the platform's cache folder, or ``$ISOCAPSNET_CACHE``). ``progress`` is called
    with the name of a file, the bytes that were read, and their number if it is known.
    """
    check_option("name", name, tuple(CATALOG))
    entry = CATALOG[name]
    if entry.make is not None:
        return entry.make().replace(name=name)
    if (path := local_file(name)) is not None and path.exists():
        data = load_graphs(path)
    elif entry.files:
        folder = dataset_folder(name, cache)
        for file in entry.files:
            download(file, folder, progress)
        for file in entry.more_files(folder) if entry.more_files else ():
            download(file, folder, progress)
        data = load_graphs(folder, **entry.options)
    else:
        raise InputError(
            f"{name} cannot be downloaded. To get it, {entry.how_to_obtain} To use it by its name, save the data as "
            f"{_local_name(name)} in the folder that the environment variable ISOCAPSNET_DATA names."
        )
    counts = dict(zip(data.label_names, data.class_counts.tolist(), strict=True))
    if entry.class_counts and counts != dict(entry.class_counts):
        raise InputError(f"{name} should have the classes {dict(entry.class_counts)} but has {counts}.")
    atlas = load_atlas(entry.atlas) if entry.atlas and ATLASES[entry.atlas][1] == data.n_nodes else data.atlas
    return data.replace(name=name, atlas=atlas)


def dataset_folder(name: str, cache: Path | None = None) -> Path:
    """The folder of a downloaded dataset."""
    return (cache or cache_folder()) / "datasets" / name


def local_file(name: str) -> Path | None:
    """The path of a dataset in ``ISOCAPSNET_DATA``; ``None`` if the variable is not set."""
    folder = os.environ.get("ISOCAPSNET_DATA")
    return Path(folder) / _local_name(name) if folder else None


def _local_name(name: str) -> str:
    return CATALOG[name].local or f"{name.replace('-', '_')}.npz"


# The regions of AAL's frontal lobe come first. Few nodes and graphs keep a first run on a laptop under three minutes.
_N_FRONTAL = 28
#: Default arguments of make_planted_graphs for the embedded datasets.
_USUAL: dict[str, Any] = {"n_patterns": 2, "signal_to_noise": 2.5, "n_sites": 3, "site_effect": 0.1, "missing_nodes": 1}


def _make_planted(**settings: Any) -> BrainGraphs:
    planted = make_planted_graphs(120, _N_FRONTAL, **{**_USUAL, **settings})
    whole = load_atlas("aal90")
    return BrainGraphs(
        planted.graphs,
        planted.labels,
        label_names=("control", "case"),
        subjects=[f"planted{number:03}" for number in range(1, len(planted.graphs) + 1)],
        sites=np.array(["A", "B", "C"])[planted.sites],
        atlas=whole.take(range(_N_FRONTAL), name="aal90, frontal lobe"),
    )


_ABIDE = "https://s3.amazonaws.com/fcp-indi/data/Projects/ABIDE_Initiative"
_ABIDE_TABLE = "Phenotypic_V1_0b_preprocessed1.csv"


def _abide_series(folder: Path) -> tuple[RemoteFile, ...]:
    """The time series of all subjects that the phenotypic table lists with a file."""
    names = [
        file_id for file_id in read_table(folder / _ABIDE_TABLE).column("FILE_ID") if file_id not in ("", "no_filename")
    ]
    root = f"{_ABIDE}/Outputs/cpac/filt_noglobal/rois_aal"
    return tuple(RemoteFile(f"{root}/{n}_rois_aal.1D", f"rois_aal/{n}_rois_aal.1D") for n in names)


_PAPER = (
    "Zhang et al., Iso-CapsNet: isomorphic capsule network for brain graph representation learning, arXiv 2206.13465"
)
_XU = (
    "Xu et al., Data-driven network neuroscience: on data collection and benchmark, NeurIPS 2023 Datasets and "
    "Benchmarks, doi 10.17608/k6.auckland.21397377"
)
_XU_RECIPE = (
    "download and unpack {0} from https://doi.org/10.17608/k6.auckland.21397377, and give that folder instead of the "
    'name, with target="@subject" and select="AAL116_correlation".'
)
_NOT_STATED = "not stated by the authors"


def _planted(what: str, **settings: Any) -> CatalogEntry:
    make = partial(_make_planted, **settings)
    counts = {"control": 60, "case": 60}
    return CatalogEntry(f"Synthetic: {what}", _N_FRONTAL, "BSD-3-Clause", "this package", counts, make=make)


def _xu(what: str, name: str, recipe: str = _XU_RECIPE) -> CatalogEntry:
    title = f"{what}, AAL116 correlations"
    return CatalogEntry(title, 116, "CC BY 4.0", _XU, atlas="aal116", how_to_obtain=recipe.format(name))


def _paper(what: str, n_nodes: int, counts: dict[str, int], atlas: str, folder: str, *blobs: str) -> CatalogEntry:
    """A dataset of the paper with its folds, by git's object ids."""
    commit = "d9ec7fcc228e773934735194cf0aeb7b3ac06285"
    root = f"https://raw.githubusercontent.com/jwzhanggy/IsoCapsNet/{commit}/data/{folder}"
    files = tuple(
        RemoteFile(f"{root}/fold_{number}", f"fold_{number}", f"git-blob:{blob}")
        for number, blob in enumerate(blobs, start=1)
    )
    return CatalogEntry(f"{what}, with the paper's folds", n_nodes, _NOT_STATED, _PAPER, counts, atlas, files)


CATALOG: dict[str, CatalogEntry] = {
    "planted": _planted("two planted patterns in one class only", effect="existence"),
    "planted-orientation": _planted("the same two patterns in both classes, permuted in one", effect="orientation"),
    # Half of the cases differ in fixed edges, the others in a sub-graph that is at different nodes in each of them.
    "planted-motif": _planted(
        "a pattern at fixed nodes in half of the cases, a motif anywhere in the others",
        effect=("existence", "motif"),
        placement="free",
        prevalence=0.5,
        n_patterns=1,
        signal_to_noise=6.0,
    ),
    "planted-null": _planted("no difference between the classes", effect="null"),
    "hiv-fmri": _paper(
        *("HIV, functional connectivity", 90, {"-1": 17, "1": 50}, "aal90", "HIV_fMRI"),
        "2d5e93dcbac9b5bd23d383cd23a994a652d8faee",
        "41f99d7aab21607a718475c7b10774ee4bef462c",
        "44d0e8d593b8da6fa97fb478ad6f4de0042cf2e7",
    ),
    "hiv-fmri-34": CatalogEntry(
        "HIV, functional connectivity, a balanced part of hiv-fmri with three folds",
        90,
        _NOT_STATED,
        "Meng and Zhang, IsoNN: isomorphic neural network for graph representation learning and classification, "
        "arXiv 1907.09495",
        {"-1": 17, "1": 17},
        "aal90",
        how_to_obtain="take the balanced HIV-fMRI folds that the authors of arXiv 1907.09495 publish.",
    ),
    "hiv-dti": _paper(
        *("HIV, streamline counts", 90, {"-1": 20, "1": 56}, "aal90", "HIV_DTI"),
        "aa8fceb89709b87969ac45b8384661c482efeab7",
        "580dfb86c31fe3c96036f77f48764e121e0e869c",
        "100d24fe8880b7d782d691b875c5843a81b71013",
    ),
    "bp-fmri": _paper(
        *("Bipolar disorder, functional connectivity", 82, {"-1": 45, "1": 52}, "dk82", "BP_fMRI"),
        "b65945edd174308d3edc21609f082c0e7e0960fe",
        "3756002ec6c6556d5e43a38bc8a864624befeebd",
        "5993347f269108446f79ef4c45114b23b45f1218",
    ),
    "adhd-fmri": CatalogEntry(
        "ADHD, functional connectivity, as the paper uses it",
        116,
        _NOT_STATED,
        _PAPER,
        {"-1": 488, "1": 280},
        "aal116",
        how_to_obtain="ask the authors of arXiv 2206.13465 for their folds of ADHD-fMRI, put fold_1, fold_2 and fold_3 "
        "into one folder, and give that folder instead of the name.",
    ),
    "abide-nyu": CatalogEntry(
        "ABIDE, NYU site: autism, AAL116 correlations, with age",
        116,
        "CC BY 4.0",
        _XU,
        {"0": 104, "1": 78},
        "aal116",
        how_to_obtain="select the subjects of the NYU site in xu-abide, with 0 for controls and 1 for autism.",
        local="abide_aal116_nyu.npz",
    ),
    "abide-pcp": CatalogEntry(
        "ABIDE I preprocessed: autism, AAL time series (C-PAC, filtered, no global signal regression)",
        116,
        "CC BY-NC-SA 3.0",
        "Craddock et al., The Neuro Bureau Preprocessing Initiative, Frontiers Neuroinf. 2013",
        {"1": 505, "2": 530},
        "aal116",
        files=(RemoteFile(f"{_ABIDE}/{_ABIDE_TABLE}", _ABIDE_TABLE),),
        more_files=_abide_series,
        options={"target": "DX_GROUP", "site": "SITE_ID", "covariates": ("AGE_AT_SCAN", "SEX")},
    ),
    "adhd-200": CatalogEntry(
        "ADHD-200 preprocessed: ADHD, AAL time series (Athena pipeline)",
        116,
        "CC BY-NC",
        "Bellec et al., The Neuro Bureau ADHD-200 Preprocessed repository, NeuroImage 144 (2017)",
        atlas="aal116",
        how_to_obtain="register at https://www.nitrc.org/frs/?group_id=383, download the AAL time courses and the "
        'phenotypic table into one folder, and give that folder instead of the name, with target="DX".',
    ),
    "peking-1": CatalogEntry(
        "ADHD-200, Peking site 1: ADHD, sparse binary graphs of CC200",
        190,
        _NOT_STATED,
        "Pan et al., brain graph repository",
        {"-1": 49, "1": 36},
        how_to_obtain="take Peking_1 from the brain graphs that Pan et al. publish.",
        local="adhd200_peking_1.npz",
    ),
    "xu-abide": _xu("ABIDE: autism, one preprocessing for all", "abide"),
    "xu-ppmi": _xu("PPMI: Parkinson's disease", "ppmi"),
    "xu-taowu": _xu("TaoWu: Parkinson's disease", "taowu"),
    "xu-neurocon": _xu("Neurocon: Parkinson's disease", "neurocon"),
    "xu-adni": _xu(
        "ADNI: Alzheimer's disease",
        "adni",
        "apply for access at https://adni.loni.usc.edu, download the collection's connectomes from there, and give "
        'their folder instead of the name, with target="@subject" and select="AAL116_correlation".',
    ),
}
