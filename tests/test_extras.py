"""Without any extra the package works; what needs an extra is refused with its name. Commands complete in a shell."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WITHOUT = """
import runpy, sys


class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ImportError(name)


sys.meta_path.insert(0, Block())
runpy.run_path({script!r}, run_name="__main__")
"""


def extras() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {
        name: requirements
        for name, requirements in project["optional-dependencies"].items()
        if name not in ("all", "dev", "docs")
    }


def test_without_extras_the_package_works_and_names_what_is_missing(tmp_path):
    """`make dist` tries the same with each extra installed, in an environment of its own."""
    required = [requirement for requirements in extras().values() for requirement in requirements]
    blocked = {requirement.split(">")[0].split("[")[0] for requirement in required} | {"distributed"}
    code = WITHOUT.format(blocked=sorted(blocked), script=str(ROOT / "tests/packaging/uses.py"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split("REFUSED")[1].split()) == set(extras())


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
