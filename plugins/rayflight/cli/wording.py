"""What the clients say of a connection of Airflow, in the words of the command line, which has none. Pure."""

from __future__ import annotations

# In this order: the longer phrase first.
_WORDS = (
    (", or put the file there on every worker and triggerer", ""),
    ("kube_config_path of the connection", "--kubeconfig"),
    ("set a kubeconfig in the connection", "name a kubeconfig with --kubeconfig"),
    ("the connection's kubeconfig", "the kubeconfig (--kubeconfig, --context)"),
    ("kubeconfig of the connection", "kubeconfig (--kubeconfig, --context)"),
    ("the connection", "the kubeconfig"),
)


def of_the_command(sentence: str) -> str:
    """The sentence, for a person who gave ``--kubeconfig`` and ``--context`` or neither."""
    for said, meant in _WORDS:
        sentence = sentence.replace(said, meant)
    return sentence
