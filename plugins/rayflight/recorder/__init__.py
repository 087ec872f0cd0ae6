"""The flight recorder: every change of a cluster, in both layers, kept as a timeline. Nothing is decided from it.

Fed with the Snapshots that the recipes take anyway, so its cost does not grow with the number of waits. Knows neither
Airflow nor any API; its failures are said and never raised.
"""

from rayflight.recorder.change import Change
from rayflight.recorder.columns import columns
from rayflight.recorder.compare import changes
from rayflight.recorder.facts import POD
from rayflight.recorder.reading import FOLDER as TIMELINE
from rayflight.recorder.reading import timeline
from rayflight.recorder.recorder import Recorder

__all__ = ["POD", "TIMELINE", "Change", "Recorder", "changes", "columns", "timeline"]
