"""Shared volumes of the testbed: a fixed set of ReadWriteMany folders on the host, used again after each claim.

Kubernetes has no recycler for them any more, so a process of the testbed empties a released volume and offers it
again. It touches folders below the testbed's own volumes folder only. Run as `python -m testbed.volumes STATE_DIR`.
"""

import shutil
import sys
import time
from pathlib import Path

from testbed.client import ApiClient, Json
from testbed.errors import TestbedError

STORAGE_CLASS = "rayflight-shared"
COUNT = 12
_COLLECTION = "/api/v1/persistentvolumes"
_EVERY_SECONDS = 2.0


def objects(folder: Path) -> list[tuple[str, Json]]:
    """The storage class and its volumes: (collection path, object)."""
    storage_class = {
        "metadata": {"name": STORAGE_CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        "reclaimPolicy": "Retain",
        "volumeBindingMode": "Immediate",
    }
    volumes = [(_COLLECTION, _volume(f"shared-{i}", folder / f"shared-{i}")) for i in range(1, COUNT + 1)]
    return [("/apis/storage.k8s.io/v1/storageclasses", storage_class), *volumes]


def released(volumes: Json) -> list[str]:
    """Names of the volumes whose claim is gone."""
    ours = (item for item in volumes["items"] if item["spec"].get("storageClassName") == STORAGE_CLASS)
    return [item["metadata"]["name"] for item in ours if item.get("status", {}).get("phase") == "Released"]


def offer_again(api: ApiClient, folder: Path) -> None:
    """Empty every released volume, then give up the claim, so that the next one finds it Available."""
    for name in released(api.get(_COLLECTION)):
        shutil.rmtree(folder / name, ignore_errors=True)
        api.patch(f"{_COLLECTION}/{name}", {"spec": {"claimRef": None}})


def _volume(name: str, path: Path) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteMany", "ReadWriteOnce", "ReadOnlyMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": STORAGE_CLASS,
            "hostPath": {"path": str(path), "type": "DirectoryOrCreate"},
        },
    }


def _serve(server: str, pki: Path, folder: Path) -> None:
    api = ApiClient(server, pki / "ca.crt", pki / "admin.crt", pki / "admin.key")
    while True:
        try:
            offer_again(api, folder)
        except (OSError, TestbedError) as error:  # the API server may be away; the next round tries again
            print(f"volumes: {error}", flush=True)
        time.sleep(_EVERY_SECONDS)


if __name__ == "__main__":
    _serve(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
