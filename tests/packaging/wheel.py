"""Tries a wheel in an empty environment, first without extras, then with each: python wheel.py WHEEL FOLDER [EXTRA ...]

Each time, the command line runs a benchmark, its report and the doctor, and `uses.py` runs what needs the extras. The
packages of an extra are removed before the next is installed. FOLDER must not exist.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Nothing of the caller's environment is visible.
HIDDEN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "ISOCAPSNET_DATA")
VARIABLES = {name: value for name, value in os.environ.items() if name not in HIDDEN}


def run(*command: str | Path, folder: Path, code: int = 0) -> str:
    """What a command prints; it has to end with the code."""
    done = subprocess.run(
        command, cwd=folder, env=VARIABLES, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != code:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def install(python: Path, requirement: str) -> set[str]:
    """The packages that were added."""

    def packages() -> set[str]:
        return set(run(python, "-m", "pip", "freeze", folder=ROOT).splitlines())

    before = packages()
    run(python, "-m", "pip", "install", "--quiet", "-c", "constraints.txt", requirement, folder=ROOT)
    return {line.split("==")[0] for line in packages() - before if "==" in line}


def use(python: Path, folder: Path, installed: list[str]) -> str:
    """Run the commands, with the extras that are installed."""
    folder.mkdir()
    program = python.with_name("isocapsnet")
    options = ("--methods", "linear,constant", "--repeats", "1")
    run(program, "benchmark", "planted", *options, "--out", "results", folder=folder)
    if "plots" in installed:
        run(python, "-m", "isocapsnet", "report", "results", folder=folder)
        assert (folder / "results/report.html").stat().st_size < 5e6
    elif not installed:
        assert "isocapsnet[plots]" in run(program, "report", "results", folder=folder, code=2)
    doctor = run(program, "doctor", folder=folder)
    findings = [line.split()[:2] for line in doctor.splitlines()]
    assert all(["ok", extra] in findings for extra in installed), doctor
    return run(python, HERE / "uses.py", *installed, folder=folder).split("REFUSED")[1].strip()


def main(wheel: Path, folder: Path, chosen: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [extra for extra in project["optional-dependencies"] if extra not in ("all", "docs", "dev")]
    folder.mkdir(parents=True)
    run(sys.executable, "-m", "venv", folder / "environment", folder=folder)
    python = folder / "environment/bin/python"
    install(python, str(wheel))
    refused = use(python, folder / "none", [])
    assert refused.split() == extras, refused
    print(f"no extra: works; refuses {refused}", flush=True)
    for extra in chosen or [*extras, "all"]:
        added = install(python, f"{wheel}[{extra}]")
        refused = use(python, folder / extra, extras if extra == "all" else [extra])
        print(f"{extra}: works; {len(added)} packages; refuses {refused or 'nothing'}", flush=True)
        if added:
            run(python, "-m", "pip", "uninstall", "--quiet", "--yes", *sorted(added), folder=folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), sys.argv[3:])
