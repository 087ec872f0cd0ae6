"""The archive of a run: what happened, kept outside the cluster. Nothing is ever *decided* from it (decision 1).

Works on any path object with pathlib's methods (Airflow's ObjectStoragePath is one) and knows no Airflow. S3 and GCS
have no append, so logs are immutable segments named by the byte offsets of their source. All I/O runs in threads.
"""

from rayflight.archive.ledger import Ledger
from rayflight.archive.segments import SegmentedLog
from rayflight.archive.store import Archive, ArchivePath
from rayflight.masking import Masker

__all__ = ["Archive", "ArchivePath", "Ledger", "Masker", "SegmentedLog"]
