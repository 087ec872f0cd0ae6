"""The commands. Exit codes: 0 healthy, 1 a cause was found, 2 unknown, 3 bad input (one sentence on stderr)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rayflight.cli.wording import of_the_command
from rayflight.diagnosis import diagnose_moments, report
from rayflight.errors import InvalidSpec, RayflightError
from rayflight.findings import Diagnosis
from rayflight.masking import masked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rayflight.archive.dumps import SeveralClusters
    from rayflight.kube.access import KubeAccess
    from rayflight.snapshot.model import Snapshot

HEALTHY, CAUSE, UNKNOWN, BAD_INPUT = 0, 1, 2, 3
_CODES = {"healthy": HEALTHY, "cause": CAUSE, "unknown": UNKNOWN}
_NAME = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_LIVE = re.compile(rf"(?P<namespace>{_NAME})/(?P<name>{_NAME})")

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help="Ray on Kubernetes, explained."
)

Kubeconfig = Annotated[str | None, typer.Option(help="Kubeconfig file (default: $KUBECONFIG, then ~/.kube/config).")]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig.")]


def _version(wanted: bool) -> None:  # noqa: FBT001 - Typer calls it with the option's value
    if wanted:
        typer.echo(f"rayflight {metadata.version('rayflight')}")
        raise typer.Exit


@app.callback()
def _every(
    *,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version and end.")
    ] = False,
) -> None:
    """Ray on Kubernetes, explained."""


@app.command()
def diagnose(
    target: Annotated[str, typer.Argument(help="NAMESPACE/CLUSTER, a folder of dumps, or a bundle.tar.gz.")],
    *,
    json_output: Annotated[bool, typer.Option("--json", help="Print the diagnosis as JSON.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the full report as Markdown.")] = False,
    cluster: Annotated[str | None, typer.Option(help="Which cluster, where a folder holds several.")] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Name the cause: one sentence, the evidence of both layers, the next step."""
    moments = _moments(target, cluster, kubeconfig, context)
    found = Diagnosis.from_dict(masked(diagnose_moments(moments).to_dict()))
    with _for_whoever_reads():
        if json_output:
            typer.echo(json.dumps(report.as_json(found), indent=1))
        elif markdown:
            typer.echo(report.markdown(found, moments), nl=False)
        else:
            from rayflight.cli.printing import show

            show(found, moments)
    raise typer.Exit(_CODES[found.verdict])


@contextmanager
def _for_whoever_reads() -> Iterator[None]:
    """A reader who has seen enough (``| head``) changes no verdict: rich and click end with 1 for it."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@app.command()
def snapshot(
    target: Annotated[str, typer.Argument(help="NAMESPACE/CLUSTER.")],
    *,
    output: Annotated[Path, typer.Option("-o", "--output", help="The bundle to write (tar.gz).")],
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Save objects and logs of both layers as plain files, with secrets masked."""
    from rayflight.cli.live import saved

    access, name = _live(target, kubeconfig, context, "Cannot save", "it is no NAMESPACE/CLUSTER")
    if not output.parent.is_dir():
        raise InvalidSpec(
            "Cannot write the bundle",
            which=str(output),
            why="its folder does not exist",
            next_step="make it, or another",
        )
    missing = asyncio.run(saved(access, name, output))
    typer.echo(f"Wrote {output} ({output.stat().st_size} bytes)")
    for line in missing:
        typer.echo(f"Not collected: {line}", err=True)


@app.command()
def check(
    shapes: Annotated[list[Path], typer.Argument(help="YAML files of shapes, or folders of them.")],
) -> None:
    """Check shapes of clusters without any cluster: exit code 0, or 3 when one is refused."""
    from rayflight.cli.shapes import judged

    refused = 0
    for said, error in judged(shapes):
        typer.echo(f"rayflight: {error}" if error else said, err=bool(error))
        refused += bool(error)
    raise typer.Exit(BAD_INPUT if refused else HEALTHY)


def _moments(target: str, cluster: str | None, kubeconfig: str | None, context: str | None) -> Sequence[Snapshot]:
    path = Path(target)
    if path.exists():
        from rayflight.archive.dumps import SeveralClusters, opened, read

        with opened(path) as folder:
            try:
                return read(folder, cluster).moments
            except SeveralClusters as several:
                return _the_ill_one(folder, several)
    from rayflight.cli.live import observed

    why = "it is no file, no folder and no NAMESPACE/CLUSTER"
    access, name = _live(target, kubeconfig, context, "Cannot diagnose", why)
    return (asyncio.run(observed(access, name)),)


def _the_ill_one(folder: Path, several: SeveralClusters) -> Sequence[Snapshot]:
    """Of several clusters the only one in which a fault is found; who wants another names it."""
    from rayflight.archive.dumps import read

    judged = [(name, read(folder, name).moments) for name in several.names]
    ill = [(name, moments) for name, moments in judged if diagnose_moments(moments).verdict == "cause"]
    if len(ill) != 1:
        raise several
    name, moments = ill[0]
    others = ", ".join(item for item in several.names if item != name)
    typer.echo(f"rayflight: judged is RayCluster {name}, the only one with a fault (--cluster for {others})", err=True)
    return moments


def _live(target: str, kubeconfig: str | None, context: str | None, what: str, why: str) -> tuple[KubeAccess, str]:
    found = _LIVE.fullmatch(target)
    if found is None:
        raise InvalidSpec(
            what,
            which=repr(target),
            why=why,
            next_step="write it like ml/rf-train-0123456789-a1" + (", or name what is there" if "file" in why else ""),
        )
    from rayflight.kube.access import KubeAccess

    return KubeAccess(kubeconfig=kubeconfig, context=context, namespace=found["namespace"]), found["name"]


def main() -> None:
    """The console script. Whatever is wrong with the input is one sentence and exit code 3, never a traceback."""
    try:
        code = app(standalone_mode=False)
    except RayflightError as error:
        sys.exit(_refuse(of_the_command(str(error))))
    except Exception as error:
        # Typer brings its own copy of click: its errors are known by what they can do.
        if not hasattr(error, "format_message"):
            raise
        sys.exit(_refuse(error.format_message()))
    sys.exit(code if isinstance(code, int) else 0)


def _refuse(sentence: str) -> int:
    if sentence:  # none where the help was printed instead
        typer.echo(f"rayflight: {' '.join(sentence.split())}", err=True)
    return BAD_INPUT
