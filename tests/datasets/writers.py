"""One BrainGraphs written in every format that is read: what other tools would have left on disk."""

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import h5py
import numpy as np
import pandas as pd
from scipy.io import savemat

from isocapsnet.datasets.graphs import BrainGraphs


def label_values(data: BrainGraphs) -> list[str]:
    return ["n/a" if code < 0 else data.label_names[code] for code in data.labels]


def write_participants(data: BrainGraphs, path: Path, *, prefix: str = "sub-", sep: str = "\t") -> None:
    table = pd.DataFrame({"participant_id": [f"{prefix}{s}" for s in data.subjects], "diagnosis": label_values(data)})
    if data.sites is not None:
        table["site"] = data.sites
    if data.covariates is not None:
        table = table.join(data.covariates.reset_index(drop=True))
    table.to_csv(path, sep=sep, index=False, na_rep="n/a")


def write_matrix(matrix: np.ndarray, path: Path) -> None:
    if path.suffix == ".npy":
        np.save(path, matrix)
    elif path.suffix == ".mat":
        savemat(path, {"data": matrix})
    else:
        separator = {".csv": ",", ".tsv": "\t", ".txt": " ", ".1D": "\t"}[path.suffix]
        lines = [separator.join(repr(float(value)) for value in row) for row in matrix]
        path.write_text("\n".join(lines) + "\n")


def write_folder(data: BrainGraphs, folder: Path, suffix: str) -> Path:
    """One matrix, or one time series, per subject."""
    folder.mkdir(parents=True)
    for subject, matrix in zip(
        data.subjects, data.adjacency if data.time_series is None else data.time_series, strict=True
    ):
        write_matrix(matrix, folder / f"{subject}{suffix}")
    write_participants(data, folder / "participants.tsv", prefix="")
    return folder


def write_xcp_d(data: BrainGraphs, bids: Path) -> Path:
    """XCP-D derivatives inside a BIDS dataset: relmat with node names, time series and quality files beside it."""
    root = bids / "derivatives" / "xcp_d"
    names = data.atlas.node_names
    for subject, matrix in zip(data.subjects, data.adjacency, strict=True):
        folder = root / f"sub-{subject}" / "func"
        folder.mkdir(parents=True)
        stem = f"sub-{subject}_task-rest_space-MNI152NLin2009cAsym_seg-Toy"
        frame = pd.DataFrame(matrix, index=pd.Index(names, name="Node"), columns=names)
        frame.to_csv(folder / f"{stem}_stat-pearsoncorrelation_relmat.tsv", sep="\t", na_rep="n/a")
        series = pd.DataFrame(np.ones((12, len(names))), columns=names)
        series.to_csv(folder / f"{stem}_stat-mean_timeseries.tsv", sep="\t", index=False)
        pd.DataFrame({"coverage": np.ones(len(names))}).to_csv(
            folder / f"{stem}_stat-coverage_bold.tsv", sep="\t", index=False
        )
        (folder / f"sub-{subject}_task-rest_motion.tsv").write_text("framewise_displacement\n0.1\n0.2\n")
    (root / "dataset_description.json").write_text("{}")
    write_participants(data, bids / "participants.tsv")
    return root


def write_giga_connectome(data: BrainGraphs, root: Path) -> Path:
    """giga_connectome derivatives: relmat without names of rows, sessions in folders and file names."""
    for subject, matrix in zip(data.subjects, data.adjacency, strict=True):
        folder = root / f"sub-{subject}" / "ses-1" / "func"
        folder.mkdir(parents=True)
        stem = f"sub-{subject}_ses-1_task-rest_seg-Toy7Networks"
        pd.DataFrame(matrix).to_csv(
            folder / f"{stem}_meas-PearsonCorrelation_desc-denoiseSimple_relmat.tsv", sep="\t", index=False
        )
        (folder / f"{stem}_desc-denoiseSimple_timeseries.json").write_text("{}")
    (root / "meas-PearsonCorrelation_relmat.json").write_text("{}")
    write_participants(data, root / "participants.tsv")
    return root


def write_npz(data: BrainGraphs, path: Path, *, compressed: bool = False) -> Path:
    arrays = {"adjacency": data.adjacency, "labels": np.array(label_values(data)), "subjects": data.subjects}
    if data.sites is not None:
        arrays["sites"] = data.sites
    arrays |= {f"test_index_fold_{i}": fold for i, fold in enumerate(data.folds, start=1)}
    if data.covariates is not None:
        arrays |= {
            str(name): column.to_numpy(float if column.dtype == float else str)
            for name, column in data.covariates.items()
        }
    (np.savez_compressed if compressed else np.savez)(path, **arrays)
    return path


def write_mat_v5(data: BrainGraphs, path: Path) -> Path:
    savemat(
        path,
        {
            "adjacency": np.moveaxis(data.adjacency, 0, 2),
            "labels": np.array(label_values(data), dtype=object),
            "subjects": np.array(data.subjects, dtype=object),
        },
    )
    return path


def write_mat_v73(data: BrainGraphs, path: Path) -> Path:
    """As MATLAB's -v7.3 writes: HDF5 with a 512-byte header, axes reversed, cells as references to text."""
    with h5py.File(path, "w", userblock_size=512) as file:
        file.create_dataset("adjacency", data=np.ascontiguousarray(np.moveaxis(data.adjacency, 0, 2).T))
        for key, texts in (("labels", label_values(data)), ("subjects", data.subjects.tolist())):
            references = []
            for number, text in enumerate(texts):
                codes = np.array([[ord(character)] for character in text], dtype=np.uint16)
                references.append(file.create_dataset(f"#refs#/{key}{number}", data=codes).ref)
            cell = file.create_dataset(key, data=np.array([references], dtype=h5py.ref_dtype))
            cell.attrs["MATLAB_class"] = np.bytes_("cell")
    return path


def write_tudataset(data: BrainGraphs, folder: Path) -> Path:
    folder.mkdir()
    n_graphs, n_nodes = data.adjacency.shape[:2]
    edges, weights = [], []
    for number, graph in enumerate(data.adjacency):
        for i, j in np.argwhere(graph):
            edges.append(f"{number * n_nodes + i + 1}, {number * n_nodes + j + 1}")
            weights.append(repr(float(graph[i, j])))
    files = {
        "A": edges,
        "edge_attributes": weights,
        "graph_indicator": [str(number + 1) for number in range(n_graphs) for _ in range(n_nodes)],
        "graph_labels": label_values(data),
        "node_labels": [str(node) for _ in range(n_graphs) for node in range(n_nodes)],
    }
    for name, lines in files.items():
        (folder / f"TOY_{name}.txt").write_text("\n".join(lines) + "\n")
    return folder


def write_graphml(data: BrainGraphs, folder: Path) -> Path:
    folder.mkdir()
    for subject, graph in zip(data.subjects, data.adjacency, strict=True):
        root = ElementTree.Element("graphml", xmlns="http://graphml.graphdrawing.org/xmlns")
        ElementTree.SubElement(root, "key", {"id": "d0", "for": "node", "attr.name": "region", "attr.type": "string"})
        ElementTree.SubElement(root, "key", {"id": "d1", "for": "edge", "attr.name": "weight", "attr.type": "double"})
        tree = ElementTree.SubElement(root, "graph", edgedefault="undirected")
        for node in range(len(graph)):
            ElementTree.SubElement(tree, "node", id=str(node))
        for i, j in np.argwhere(np.triu(graph)):
            edge = ElementTree.SubElement(tree, "edge", source=str(i), target=str(j))
            ElementTree.SubElement(edge, "data", key="d1").text = repr(float(graph[i, j]))
        ElementTree.ElementTree(root).write(folder / f"sub-{subject}.graphml")
    write_participants(data, folder / "participants.csv", sep=",")
    return folder


def write_edge_lists(
    data: BrainGraphs,
    folder: Path,
    *,
    nodes: Sequence[str] | None = None,
    base: int = 0,
    both: bool = False,
    weighted: bool = True,
    header: str = "",
    separator: str = ",",
    suffix: str = ".csv",
    order: Callable[[list[str]], list[str]] = list,
) -> Path:
    """One file of source, target and weight per subject, each pair once (upper triangle) or in both directions."""
    folder.mkdir(parents=True)
    names = nodes or [str(base + node) for node in range(data.n_nodes)]
    for subject, graph in zip(data.subjects, data.adjacency, strict=True):
        lines = [
            separator.join([names[i], names[j], *([repr(float(graph[i, j]))] if weighted else [])])
            for i, j in np.argwhere(graph if both else np.triu(graph)).tolist()
        ]
        (folder / f"sub-{subject}{suffix}").write_text("\n".join([*filter(None, [header]), *order(lines)]) + "\n")
    write_participants(data, folder / "participants.tsv")
    return folder


def as_geometric(data: BrainGraphs) -> list[SimpleNamespace]:
    """What a PyTorch Geometric Data has, as plain attributes."""
    items = []
    for graph, code in zip(data.adjacency, data.labels, strict=True):
        index = np.argwhere(graph).T
        label = None if code < 0 else np.array([int(data.label_names[code])])
        items.append(SimpleNamespace(edge_index=index, edge_attr=graph[tuple(index)], num_nodes=len(graph), y=label))
    return items


def write_folds(data: BrainGraphs, folder: Path, protocol: int = 4) -> Path:
    """The pickled folds of the paper's authors: each file holds all subjects, split into train and test."""
    folder.mkdir()
    values = [int(data.label_names[code]) for code in data.labels]
    for number, test in enumerate(data.folds, start=1):
        train = np.setdiff1d(np.arange(len(data)), test)
        fold = {
            part: {"X": [np.array(data.adjacency[i]) for i in index], "y": [values[i] for i in index]}
            for part, index in (("train", train), ("test", test))
        }
        (folder / f"fold_{number}").write_bytes(pickle.dumps(fold, protocol=protocol))
    return folder
