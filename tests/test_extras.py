"""Without any extra the package works; what needs an extra is refused with its name. Commands complete in a shell."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WITHOUT_EXTRAS = """
import sys

BLOCKED = {blocked!r}


class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            raise ImportError(name)


sys.meta_path.insert(0, Block())

import numpy as np

import isocapsnet as ic
from isocapsnet.datasets.connectivity import TangentSpace
from isocapsnet.datasets.harmonization import SiteHarmonizer
from isocapsnet.explanation import attribute_edges

planted = ic.make_planted_graphs(24, 8, random_state=0)
study = ic.BrainGraphs(planted.graphs, planted.labels, name="planted")
options = dict(repeats=1, candidates=1, jobs=0, progress=False)
results = ic.benchmark(study, ["linear", "constant", "isocapsnet[max_epochs=1]"], out="results", **options)
assert all("failed" not in verdict for verdict in results.verdicts.values()), results.verdicts
network = ic.fit(study, "isocapsnet[max_epochs=1]", out="model.safetensors")
assert len(ic.predict("model.safetensors", study)) == 24

needs = {{
    "methods": lambda: ic.MODELS["riemann"]().fit(planted.graphs, planted.labels),
    "data": lambda: TangentSpace().fit(np.repeat(np.eye(8)[None], 4, axis=0)),
    "plots": lambda: results.report("report.html"),
    "cluster": lambda: ic.benchmark(study, ["linear"], out="other", **{{**options, "jobs": None}}, cluster="local:1"),
    "harmonize": lambda: SiteHarmonizer().fit(planted.graphs, sites=np.repeat(["a", "b"], 12)),
    "attribution": lambda: attribute_edges(network, planted.graphs, method="integrated"),
}}
for extra, use in needs.items():
    try:
        use()
    except ic.InputError as error:
        assert f"isocapsnet[{{extra}}]" in str(error), (extra, str(error))
    else:
        raise AssertionError(f"{{extra}} is not needed")
print("EXTRAS", *needs)
"""


def extras() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {
        name: requirements
        for name, requirements in project["optional-dependencies"].items()
        if name not in ("all", "dev", "docs")
    }


def test_without_extras_the_package_works_and_names_what_is_missing(tmp_path):
    required = [requirement for requirements in extras().values() for requirement in requirements]
    blocked = {requirement.split(">")[0].split("[")[0] for requirement in required} | {"distributed"}
    code = WITHOUT_EXTRAS.format(blocked=sorted(blocked))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split("EXTRAS")[1].split()) == set(extras())


def test_commands_complete_in_a_shell():
    environment = {
        **os.environ,
        "_ISOCAPSNET_COMPLETE": "bash_complete",
        "COMP_WORDS": "isocapsnet be",
        "COMP_CWORD": "1",
    }
    code = "from isocapsnet.cli import main; main(prog_name='isocapsnet')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.split() == ["plain,benchmark"]
