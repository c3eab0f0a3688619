"""The same forty subjects in every layout in which studies are found, and how each is read."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.io import savemat

from isocapsnet.datasets.atlas import Atlas
from isocapsnet.datasets.graphs import BrainGraphs

from . import writers

N_NODES = 8


def make_forty() -> BrainGraphs:
    """Correlations of forty subjects at three sites; every third lacks the signal of one region."""
    rng = np.random.default_rng(40)
    graphs = np.stack([np.corrcoef(rng.normal(size=(30, N_NODES)), rowvar=False).round(4) for _ in range(40)])
    for i in range(0, 40, 3):
        graphs[i, i % N_NODES] = graphs[i, :, i % N_NODES] = 0
    return BrainGraphs(
        graphs,
        [("control", "patient")[(i // 2) % 2] for i in range(40)],
        subjects=[f"{50010 + 13 * i}" for i in range(40)],
        sites=[("NYU", "UM_1", "CMU_a")[i % 3] for i in range(40)],
        covariates=pd.DataFrame({"age": (20 + rng.uniform(0, 40, 40)).round(1)}),
        atlas=Atlas([f"region{i}" for i in range(N_NODES)], name="Toy"),
        name="forty",
    )


@dataclass(frozen=True)
class Layout:
    """``write(data, folder)`` returns what ``load_graphs`` reads with ``options``; relative paths are in the folder.

    ``refusal`` is part of the sentence if the layout is refused, ``remedy`` the options with which it is read.
    """

    write: Callable[[BrainGraphs, Path], Any]
    options: dict[str, Any] = field(default_factory=dict)
    refusal: str = ""
    remedy: dict[str, Any] = field(default_factory=dict)


def pairs(data: BrainGraphs):
    assert data.adjacency is not None
    return zip(data.subjects.tolist(), data.sites.tolist(), writers.label_values(data), data.adjacency, strict=True)


def phenotypes(data: BrainGraphs) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "participant_id": data.subjects.astype(int),
            "diagnosis": writers.label_values(data),
            "site": data.sites,
            "age": data.covariates["age"].to_numpy(),
        }
    )


def _table(data: BrainGraphs, folder: Path) -> None:
    phenotypes(data).to_csv(folder / "phenotypic.csv", index=False)


def _folder(write: Callable[[Path, str, np.ndarray], object], name: str, table: bool = True):
    """One file per subject, called by the pattern ``name``, and the table of subjects."""

    def write_all(data: BrainGraphs, root: Path) -> Path:
        for subject, site, label, graph in pairs(data):
            path = root / "study" / name.format(subject=subject, site=site, label=label)
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, subject, graph)
        if table:
            _table(data, root / "study")
        return root / "study"

    return write_all


def _matrix(path, subject, graph):
    writers.write_matrix(graph, path)


def _conn(path, subject, graph):
    n_nodes = len(graph)
    savemat(path, {"Z": graph, "SE": np.ones_like(graph), "DOF": 100.0, "names": np.array(["a"] * n_nodes, object)})


def _two_arrays(path, subject, graph):
    np.savez(path, fc=graph, pcorr=graph * 0.5, age=np.array(3.0))


def _edges(path, subject, graph):
    lines = [f"{i + 1},{j + 1},{float(graph[i, j])!r}" for i, j in np.argwhere(np.triu(graph)).tolist()]
    path.write_text("\n".join(["source,target,weight", *lines]) + "\n")


def _present(graph) -> np.ndarray:
    return np.flatnonzero(graph.any(axis=0))


def _smaller(path, subject, graph):
    nodes = _present(graph)
    np.save(path, graph[np.ix_(nodes, nodes)])


def _smaller_with_list(path, subject, graph):
    _smaller(path, subject, graph)
    path.with_name(f"{path.stem}_regions.txt").write_text("\n".join(str(node + 1) for node in _present(graph)))


def _pconn(path, subject, graph):
    import nibabel
    from nibabel.cifti2 import ParcelsAxis

    n_nodes = len(graph)
    axis = ParcelsAxis(
        [f"region{i}" for i in range(n_nodes)],
        [np.array([[i, 0, 0]]) for i in range(n_nodes)],
        [{} for _ in range(n_nodes)],
        affine=np.eye(4),
        volume_shape=(n_nodes, 1, 1),
        nvertices={},
    )
    image = nibabel.Cifti2Image(graph, header=nibabel.cifti2.Cifti2Header.from_axes((axis, axis)))
    image.nifti_header["datatype"] = 64
    nibabel.save(image, path)


def smaller_with_table(data, root):
    folder = _folder(_smaller, "{site}_00{subject}_rois_cc200.npy")(data, root)
    lists = [" ".join(str(node + 1) for node in _present(graph)) for _, _, _, graph in pairs(data)]
    pd.DataFrame({"subject": data.subjects, "regions": lists}).to_csv(root / "lists.csv", index=False)
    return folder


def long_regions(data, root):
    folder = _folder(_smaller, "{subject}.npy")(data, root)
    rows = [(subject, f"region{node}") for subject, _, _, graph in pairs(data) for node in _present(graph)]
    pd.DataFrame(rows, columns=["participant_id", "region"]).to_csv(folder / "regions.tsv", sep="\t", index=False)
    return folder


def stray_files(data, root):
    folder = _folder(_matrix, "{subject}.csv")(data, root)
    (folder / "subject_ids.txt").write_text("\n".join(data.subjects.tolist()))
    (folder / "coordinates.csv").write_text("x,y,z\n" + "1.5,2.5,3.5\n" * N_NODES)
    return folder


def several_rows(data, root):
    """As LONI has it: one row per image, with another age at each visit."""
    folder = _folder(_matrix, "{subject}.csv", table=False)(data, root)
    frame = phenotypes(data)
    images = [frame.assign(Modality=m, age=frame["age"] + y) for y, m in enumerate(("MRI", "fMRI", "PET"), start=-1)]
    pd.concat(images).sort_values("participant_id").to_csv(folder / "participants.csv", index=False)
    return folder


def edge_table(data, root):
    rows = [
        (subject, int(i), int(j), graph[i, j])
        for subject, _, _, graph in pairs(data)
        for i, j in np.argwhere(np.triu(graph))
    ]
    pd.DataFrame(rows, columns=["subject", "source", "target", "weight"]).to_csv(root / "edges.csv", index=False)
    _table(data, root)
    return root / "edges.csv"


def nel(data, root):
    lines = []
    for subject, _, label, graph in pairs(data):
        nodes = _present(graph).tolist()
        lines += [f"n {number} {node + 1}" for number, node in enumerate(nodes, start=1)]
        for a, b in np.argwhere(np.triu(graph[np.ix_(nodes, nodes)])).tolist():
            lines.append(f"e {a + 1} {b + 1} {float(graph[nodes[a], nodes[b]])!r}")
        lines += [f"g {subject}", f"x {label}", ""]
    (root / "KKI.nel").write_text("\n".join(lines))
    return root / "KKI.nel"


def bnt_dictionary(data, root):
    content = {
        "timeseires": np.zeros((len(data), N_NODES, 20)),
        "corr": data.adjacency,
        "pcorr": data.adjacency * 0.5,
        "label": np.array(writers.label_values(data)),
        "site": np.array(data.sites.tolist(), dtype=object),
        "sub_name": np.array(data.subjects.tolist(), dtype=object),
        "age": data.covariates["age"].to_numpy(),
    }
    np.save(root / "abide.npy", content, allow_pickle=True)  # type: ignore[arg-type]
    return root / "abide.npy"


def list_of_matrices(data, root):
    """An object array of matrices of different sizes."""
    graphs = np.empty(len(data), dtype=object)
    graphs[:] = [graph[np.ix_(_present(graph), _present(graph))] for _, _, _, graph in pairs(data)]
    np.save(root / "graphs.npy", graphs, allow_pickle=True)
    lists = {subject: [f"region{node}" for node in _present(graph)] for subject, _, _, graph in pairs(data)}
    (root / "lists.json").write_text(json.dumps(lists))
    _table(data, root)
    return root / "graphs.npy"


def npy_stack(data, root):
    np.save(root / "stack.npy", data.adjacency)
    _table(data, root)
    return root / "stack.npy"


def npz_other_names(data, root):
    np.savez(root / "all.npz", fc=data.adjacency, group=writers.label_values(data), who=data.subjects, place=data.sites)
    return root / "all.npz"


def mat_stack(data, root):
    writers.write_mat_v5(data, root / "stack.mat")
    return root / "stack.mat"


def mat_other_names(data, root):
    content = {"netmats": np.moveaxis(data.adjacency, 0, 2), "other": np.ones((N_NODES, N_NODES, 3))}
    savemat(root / "stack.mat", {**content, "ID": data.subjects.astype(float)})
    _table(data, root)
    return root / "stack.mat"


def _upper(data, titles=None, k=1):
    rows, columns = np.triu_indices(N_NODES, k)
    names = titles or [f"{i}throw_{j}thcolumn" for i, j in zip(rows, columns, strict=True)]
    return pd.DataFrame(data.adjacency[:, rows, columns], columns=names)


def wids_triangles(data, root):
    frame = _upper(data, k=0)
    frame.insert(0, "participant_id", data.subjects)
    frame.sample(frac=1, random_state=0).to_csv(root / "connectomes.csv", index=False)
    _table(data, root)
    return root / "connectomes.csv"


def named_triangles(data, root):
    """Edges and phenotypes in one table."""
    names = data.atlas.node_names
    titles = [f"{names[i]}~{names[j]}" for i, j in zip(*np.triu_indices(N_NODES), strict=True)]
    frame = pd.concat([phenotypes(data), _upper(data, titles, k=0)], axis=1)
    frame.to_csv(root / "all.tsv", sep="\t", index=False)
    return root / "all.tsv"


def bare_triangles(data, root):
    frame = _upper(data, [f"V{i}" for i in range(1, 1 + N_NODES * (N_NODES + 1) // 2)], k=0)
    frame.insert(0, "ID", data.subjects)
    frame.to_csv(root / "rows.csv", index=False)
    _table(data, root)
    return root / "rows.csv"


def lower_triangles(data, root):
    rows, columns = np.tril_indices(N_NODES)
    np.savez(root / "rows.npz", X=data.adjacency[:, rows, columns], y=writers.label_values(data), ids=data.subjects)
    return root / "rows.npz"


def hcp_netmats(data, root):
    np.savetxt(root / "netmats1.txt", data.adjacency.reshape(len(data), -1), fmt="%.17g")
    (root / "subjectIDs.txt").write_text("\n".join(data.subjects.tolist()) + "\n")
    _table(data, root)
    return root / "netmats1.txt"


def r_data(data, root):
    (root / "study.RData").write_bytes(b"RDX3\n")
    return root / "study.RData"


def xcp_d(data, root):
    return writers.write_xcp_d(data, root / "bids")


TABLE = {"participants": "phenotypic.csv", "target": "diagnosis", "site": "site", "covariates": ["age"]}
LABELLED = {"target": "diagnosis", "site": "site", "covariates": ["age"]}

LAYOUTS: dict[str, Layout] = {
    "one .mat per subject": Layout(_folder(_matrix, "{subject}.mat"), LABELLED),
    "one .csv per subject": Layout(_folder(_matrix, "sub-{subject}_fc.csv"), LABELLED),
    "one .npz per subject": Layout(
        _folder(_two_arrays, "{subject}.npz"), LABELLED, "several matrices", {"array": "fc"}
    ),
    "class folders": Layout(
        _folder(_matrix, "{label}/{site}_00{subject}.txt", table=False), {"target": "@folder", "site": "@file"}
    ),
    "ABIDE names": Layout(_folder(_matrix, "{site}_00{subject}_rois_aal.csv"), {**LABELLED, "site": "@file"}),
    "CONN": Layout(_folder(_conn, "resultsROI_Subject{subject}_Condition001.mat"), LABELLED),
    "XCP-D": Layout(xcp_d, LABELLED),
    "stacked .mat": Layout(mat_stack),
    "stacked .mat, other names": Layout(
        mat_other_names, {**TABLE, "subjects": "ID"}, "several arrays", {"array": "netmats"}
    ),
    "stacked .npz, other names": Layout(npz_other_names, {"target": "group", "site": "place", "subjects": "who"}),
    "stacked .npy and a table": Layout(npy_stack, TABLE, "which subjects", {"subjects": "participant_id"}),
    "BNT dictionary": Layout(bnt_dictionary, {}, "several arrays", {"array": "corr"}),
    "list of matrices": Layout(
        list_of_matrices, {**TABLE, "subjects": "participant_id"}, "most graphs", {"regions": "lists.json"}
    ),
    "edge lists": Layout(_folder(_edges, "sub-{subject}.csv"), LABELLED),
    "one edge list": Layout(edge_table, TABLE),
    ".nel": Layout(nel),
    "different regions, one list": Layout(
        smaller_with_table, LABELLED, "most graphs", {"regions": "lists.csv"}
    ),
    "different regions, long list": Layout(long_regions, LABELLED),
    "different regions, lists": Layout(_folder(_smaller_with_list, "{site}_00{subject}_rois_cc200.npy"), LABELLED),
    "stray files": Layout(stray_files, LABELLED),
    "several rows per subject": Layout(several_rows, LABELLED, 'where="Modality=fMRI"', {"where": ("Modality=fMRI",)}),
    "triangles, titled by number": Layout(wids_triangles, TABLE),
    "triangles, titled by name": Layout(named_triangles, LABELLED),
    "triangles, bare": Layout(bare_triangles, TABLE, "triangle=", {"triangle": "upper", "n_nodes": N_NODES}),
    "triangles, lower": Layout(
        lower_triangles, {"array": "X"}, "triangle=", {"triangle": "lower", "n_nodes": N_NODES}
    ),
    "HCP netmats": Layout(hcp_netmats, TABLE, "which subjects", {"subjects": "subjectIDs.txt"}),
    ".pconn.nii": Layout(_folder(_pconn, "{subject}.pconn.nii"), LABELLED),
    ".RData": Layout(r_data, {}, "write.table"),
}  # fmt: skip


def _frame_of_edges(data, root):
    return pd.concat([phenotypes(data), _upper(data, k=0)], axis=1)


OBJECTS: dict[str, Layout] = {
    "graphs and labels": Layout(
        lambda data, root: (data.adjacency, writers.label_values(data)), {"subjects": "ids of the test"}
    ),
    "graphs and a frame": Layout(
        lambda data, root: data.adjacency, {**LABELLED, "participants": "frame of the test"}
    ),
    "mapping": Layout(
        lambda data, root: {
            "fc": data.adjacency, "dx": writers.label_values(data), "id": data.subjects, "site": data.sites
        },
        {"array": "fc", "target": "dx", "subjects": "id"},
    ),
    "frame of edges": Layout(_frame_of_edges, LABELLED),
}  # fmt: skip
