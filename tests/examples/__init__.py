"""One small made-up cluster for every kind of finding: there its rule must speak, and without what it quotes not."""

from __future__ import annotations

from tests.examples import admission, around, hangs, jobs, nodes, pods, processes, queues
from tests.examples.shape import Example

EXAMPLES: dict[str, Example] = {}
for _family in (nodes, pods, admission, queues, around, processes, jobs, hangs):
    for _name, _example in _family.EXAMPLES.items():
        assert _name not in EXAMPLES, _name
        EXAMPLES[_name] = _example
