import numpy as np
import pandas as pd
import pytest

from isocapsnet.datasets.atlas import Atlas
from isocapsnet.datasets.graphs import BrainGraphs


def make_study(
    n_graphs: int = 12, n_nodes: int = 6, dtype: str = "float64", seed: int = 0, directed: bool = False
) -> BrainGraphs:
    """A small study with everything in it: an unlabelled subject, sites, covariates with gaps, folds."""
    rng = np.random.default_rng(seed)
    graphs = rng.normal(size=(n_graphs, n_nodes, n_nodes)).round(3)
    if not directed:
        graphs = graphs + graphs.swapaxes(1, 2)
    graphs = (graphs if np.dtype(dtype).kind == "f" else 100 * graphs).astype(dtype)
    labels = [(-1, 1)[i % 2] for i in range(n_graphs)]
    age = rng.uniform(20, 60, n_graphs).round(1)
    age[1] = np.nan
    return BrainGraphs(
        graphs,
        [None, *labels[1:]],
        subjects=[f"{1000 + 7 * i}" for i in range(n_graphs)],
        sites=[("north", "south")[i % 2] for i in range(n_graphs)],
        covariates=pd.DataFrame({"age": age, "sex": [("f", "m", "")[i % 3] for i in range(n_graphs)]}),
        atlas=Atlas([f"region{i}" for i in range(n_nodes)], name="Toy"),
        folds=np.array_split(np.arange(n_graphs), 3),
        name="toy",
    )


@pytest.fixture
def study() -> BrainGraphs:
    return make_study()
