"""``isocapsnet doctor``: what is installed, whether it works, and what to do if not."""

import json
import sys

import click

from isocapsnet._safe_text import printable


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--self-test/--no-self-test", default=True, help="Fit a small model, compare kernels (default).")
def doctor(as_json: bool, self_test: bool) -> None:
    """Check the installation: versions, extras, devices, kernels, folders, and a self test.

    Each problem has a line that says what to do. The exit code is 1 if something is broken. Parts that are
    `absent` are optional, and parts that are `slow` work without fused kernels.

    \b
    Examples
      isocapsnet doctor
      isocapsnet doctor --json > doctor.json
    """
    from isocapsnet._doctor import doctor as diagnose

    diagnosis = diagnose(self_test=self_test)
    if as_json:
        click.echo(json.dumps(diagnosis.to_json(), indent=2))
    else:
        colours = {"ok": "green", "absent": None, "slow": "yellow", "broken": "red"}
        for line in str(diagnosis).splitlines():
            status = line[2:8].strip() if line.startswith("  ") else ""
            click.secho(printable(line), fg=colours.get(status))
    sys.exit(0 if diagnosis else 1)
