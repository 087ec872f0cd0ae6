"""`python -m testbed fault VERB`: reads arguments, calls one verb of `Faults`, prints what it did and its undo."""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from testbed import gpu
from testbed.errors import TestbedError
from testbed.faults import Done, Faults
from testbed.faults_proxy import Answer, Cut, Drop, Hang, Outcome, Pass
from testbed.paths import Layout

Run = Callable[[Faults, argparse.Namespace], Iterable[Done]]
_ENDLESS = 10.0**6  # seconds; until somebody ends it
_ACTIONS = ("stop", "start", "pause", "resume")


def add_fault_parsers(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the verb `fault` with all its own verbs; the chosen one is left in `options.fault` for `run`."""
    fault = verbs.add_parser("fault", help="break something on purpose, or undo it")
    faults = fault.add_subparsers(dest="fault_verb", required=True, metavar="FAULT")
    _add_components(faults)
    _add_nodes(faults)
    _add_pods(faults)
    _add(faults, "clear", "undo every fault that can be undone", lambda f, _: f.clear())
    proxy = _add(faults, "proxy", "an API server that refuses and drops, until Ctrl-C or --seconds", _proxy)
    proxy.add_argument("--port", type=int, default=0, help="loopback port (default: a free one)")
    proxy.add_argument("--seconds", type=float, help="end by itself after that time")
    proxy.add_argument("--match", default="", help="regular expression on `METHOD PATH`; other requests pass")
    proxy.add_argument(
        "outcomes",
        nargs="+",
        type=outcome,
        metavar="OUTCOME",
        help="in turn: pass, drop, lose, hang, cut:BYTES, 429, 503",
    )


def run(options: argparse.Namespace, layout: Layout) -> int:
    """Carry the chosen fault out and print what it did."""
    chosen: Run = options.fault
    for done in chosen(Faults(layout), options):
        print(done.what)
        if done.undo:
            print(f"  undo: python -m testbed {done.undo}")
    return 0


def outcome(text: str) -> Outcome:
    """Read one outcome of the flaky proxy from the command line."""
    simple: dict[str, Outcome] = {"pass": Pass(), "drop": Drop(), "lose": Drop(after_request=True), "hang": Hang()}
    if text in simple:
        return simple[text]
    if text.isdigit() and 400 <= int(text) < 600:
        return Answer(int(text), retry_after=1 if text == "429" else None)
    name, _, number = text.partition(":")
    if name == "cut" and number.isdigit():
        return Cut(int(number))
    raise argparse.ArgumentTypeError(f"{text!r} is none of pass, drop, lose, hang, cut:BYTES, 4xx, 5xx")


def _add(
    faults: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, help_text: str, call: Run, *arguments: str
) -> argparse.ArgumentParser:
    parser = faults.add_parser(name, help=help_text, description=help_text)
    for argument in arguments:
        parser.add_argument(argument)
    parser.set_defaults(fault=call)
    return parser


def _add_components(faults: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    def act(name_of: Callable[[argparse.Namespace], str]) -> Run:
        return lambda f, o: [getattr(f, o.action)(name_of(o))]

    for name, help_text, argument, call in (
        ("component", "any component by name, as `status` lists them", "name", act(lambda o: str(o.name))),
        ("kubelet", "a node's kubelet: its pods run on", "node", act(lambda o: f"kubelet-{o.node}")),
        ("plugin", "a node's device plugin: its GPUs vanish", "node", act(lambda o: gpu.daemon_name(o.node))),
        ("apiserver", "the API server", None, act(lambda _: "kube-apiserver")),
        ("operator", "the KubeRay operator", None, act(lambda _: "kuberay-operator")),
    ):
        parser = _add(faults, name, help_text, call)
        parser.add_argument("action", choices=_ACTIONS)
        if argument is not None:
            parser.add_argument(argument)
    _add(faults, "lose-node", "kill a node's kubelet and all its pods", lambda f, o: [f.lose_node(o.node)], "node")


def _add_nodes(faults: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    _add(faults, "cordon", "nothing new is scheduled there", lambda f, o: [f.cordon(o.node)], "node")
    _add(faults, "uncordon", "undo cordon", lambda f, o: [f.uncordon(o.node)], "node")
    _add(faults, "taint", "add KEY[=VALUE]:EFFECT", lambda f, o: [f.taint(o.node, o.taint)], "node", "taint")
    _add(faults, "untaint", "undo taint", lambda f, o: [f.untaint(o.node, o.taint)], "node", "taint")
    for name, call in (
        ("gpu-unhealthy", lambda f, o: [f.make_gpu_unhealthy(*_gpu(o.gpu))]),
        ("gpu-healthy", lambda f, o: [f.make_gpu_healthy(*_gpu(o.gpu))]),
    ):
        parser = _add(faults, name, "one GPU, as NODE INDEX or by UUID", call)
        parser.add_argument("gpu", nargs="+", metavar="GPU")
    tell = _add(faults, "gpu-tell", "nvidia-smi tells something else of one GPU", _tell, "node")
    tell.add_argument("index", type=int)
    tell.add_argument("fields", nargs="+", metavar="FIELD=VALUE", help="such as uuid=... or name='SIMULATED ...'")
    truth = _add(faults, "gpu-truth", "undo gpu-tell", lambda f, o: [f.make_gpu_truthful(o.node, o.index)], "node")
    truth.add_argument("index", type=int)
    _add(faults, "gpus", "list the simulated GPUs", _list_gpus)


def _add_pods(faults: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    quota = _add(faults, "quota", "limit a namespace", lambda f, o: [f.set_quota(o.namespace, _limits(o.limits))])
    quota.add_argument("namespace")
    quota.add_argument("limits", nargs="+", metavar="RESOURCE=VALUE", help="such as requests.nvidia.com/gpu=1")
    _add(faults, "unquota", "undo quota", lambda f, o: [f.drop_quota(o.namespace)], "namespace")
    kill = _add(
        faults, "signal", "a signal to processes of a pod, from the host", _signal, "namespace", "pod", "pattern"
    )
    kill.add_argument("--signal", default="KILL", help="KILL (default), TERM, STOP, CONT, ...")
    kill.add_argument("--container", default="")
    delete = _add(faults, "delete-pod", "delete a pod", _delete_pod, "namespace", "pod")
    delete.add_argument("--grace", type=int, help="seconds (default: the pod's own; 0 does not wait)")


def _gpu(words: list[str]) -> tuple[str, int]:
    if len(words) == 1:
        return gpu.find(words[0])
    if len(words) == 2 and words[1].isdigit():
        return words[0], int(words[1])
    raise TestbedError(f"{' '.join(words)!r} is no GPU; write NODE INDEX or a UUID of `python -m testbed fault gpus`")


def _tell(faults: Faults, options: argparse.Namespace) -> list[Done]:
    return [faults.make_gpu_tell(options.node, options.index, _limits(options.fields))]


def _limits(words: list[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    if not all(name and value for name, _, value in pairs):
        raise TestbedError(f"{' '.join(words)!r}: write NAME=VALUE, such as requests.nvidia.com/gpu=1")
    return {name: value for name, _, value in pairs}


def _signal(faults: Faults, options: argparse.Namespace) -> list[Done]:
    name = options.signal.upper().removeprefix("SIG")
    if f"SIG{name}" not in signal.Signals.__members__:
        raise TestbedError(f"there is no signal {options.signal!r}; write KILL, TERM, STOP or CONT")
    number = signal.Signals[f"SIG{name}"]
    return [
        faults.signal_in_pod(
            options.namespace, options.pod, options.pattern, number=number, container=options.container
        )
    ]


def _delete_pod(faults: Faults, options: argparse.Namespace) -> list[Done]:
    return [faults.delete_pod(options.namespace, options.pod, grace=options.grace)]


def _list_gpus(faults: Faults, _: argparse.Namespace) -> list[Done]:
    return [
        Done(f"{node} {index} {gpu.uuid(node, index)} {'ok' if gpu.is_healthy(faults.layout, node, index) else 'SICK'}")
        for node in gpu.NODES
        for index in range(gpu.PER_NODE)
    ]


def _proxy(faults: Faults, options: argparse.Namespace) -> Iterable[Done]:
    with faults.flaky_proxy(port=options.port) as proxy:
        proxy.follow(options.outcomes, options.match)
        yield Done(f"{proxy.url} stands before the API server; export KUBECONFIG={proxy.kubeconfig}")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            time.sleep(options.seconds if options.seconds is not None else _ENDLESS)
        hit = sum(not isinstance(seen.outcome, Pass) for seen in proxy.seen)
        yield Done(f"{len(proxy.seen)} requests, {hit} of them with a fault")
