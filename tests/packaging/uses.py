"""Runs one thing that needs each extra: python uses.py [EXTRA ...] with the extras that are installed.

What needs an installed extra has to work. What needs another one works if its packages came with something else, or is
refused with the name of the extra. The last line has the extras that were refused. Only the installed package is used.
"""

import sys
import warnings
from pathlib import Path

import numpy as np

import isocapsnet as ic
from isocapsnet.datasets.connectivity import TangentSpace
from isocapsnet.datasets.harmonization import SiteHarmonizer
from isocapsnet.explanation import attribute_edges

GRAPHML = """<?xml version="1.0"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="w" for="edge" attr.name="weight" attr.type="double"/><graph edgedefault="undirected">
<node id="a"/><node id="b"/><node id="c"/><edge source="a" target="b"><data key="w">{weight}</data></edge>
</graph></graphml>"""

warnings.simplefilter("ignore")
planted = ic.make_planted_graphs(24, 8, random_state=0)
study = ic.BrainGraphs(planted.graphs, planted.labels, name="planted")
options = {"repeats": 1, "candidates": 1, "progress": False}


def read_graphml() -> None:
    folder = Path("graphml")
    folder.mkdir(exist_ok=True)
    for number in range(8):
        (folder / f"sub-{number}.graphml").write_text(GRAPHML.format(weight=0.1 * (number + 1)))
    table = [f"sub-{number}\t{'control' if number % 2 else 'patient'}\n" for number in range(8)]
    (folder / "participants.tsv").write_text("participant_id\tdiagnosis\n" + "".join(table))
    assert ic.load_graphs(folder, target="diagnosis").n_nodes == 3
    TangentSpace().fit(np.repeat(np.eye(8)[None], 4, axis=0))


def main(installed: list[str]) -> None:
    methods = ["linear", "constant", "wl", "isocapsnet[max_epochs=1]"]
    results = ic.benchmark(study, methods, out="results", jobs=0, **options)
    assert all("failed" not in verdict for verdict in results.verdicts.values()), results.verdicts
    network = ic.fit(study, "isocapsnet[max_epochs=1]", out="model.safetensors")
    assert len(ic.predict("model.safetensors", study)) == 24

    uses = {
        "methods": lambda: [ic.MODELS[name]().fit(planted.graphs, planted.labels) for name in ("riemann", "gcn")],
        "data": read_graphml,
        "plots": lambda: results.report("report.html"),
        "cluster": lambda: ic.benchmark(study, ["linear"], out="other", **options, cluster="local:1"),
        "harmonize": lambda: SiteHarmonizer().fit(planted.graphs, sites=np.repeat(["a", "b"], 12)),
        "attribution": lambda: attribute_edges(network, planted.graphs, method="integrated"),
    }
    assert set(installed) <= set(uses), installed
    refused = []
    for extra, use in uses.items():
        try:
            use()
        except ic.InputError as error:
            assert extra not in installed and f"isocapsnet[{extra}]" in str(error), (extra, str(error))
            refused.append(extra)
    print("REFUSED", *refused)


if __name__ == "__main__":
    main(sys.argv[1:])
