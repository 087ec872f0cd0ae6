"""Distributed training over worker pods (PyTorch, or numpy where there is none): what the demos fly, on any backend."""

from pathlib import Path

from airflow.sdk import DAG, Param

from rayflight.airflow import training_run

TRAINING = Path(__file__).parent.parent / "include" / "training"

PARAMS = {
    "shape": Param("testbed-2x1", type="string", title="Cluster shape", description="A file of include/clusters."),
    "workers": Param(2, type="integer", minimum=1, maximum=64, title="Worker pods"),
    "gpus_per_worker": Param(1, type="integer", minimum=0, maximum=8, title="GPUs per worker pod"),
    "image": Param(None, type=["null", "string"], title="Image", description="Empty: the shape's own image."),
    "namespace": Param(None, type=["null", "string"], title="Namespace", description="Empty: the connection's own."),
    "claim": Param(None, type=["null", "string"], title="Checkpoint claim", description="A ReadWriteMany claim."),
    "epochs": Param(5, type="integer", minimum=1, maximum=1000, title="Epochs", section="Training"),
    "accuracy": Param(
        0.95,
        type="number",
        minimum=0,
        maximum=1,
        title="Accuracy on held-out data",
        description="Below it the training fails: 0.95 takes 4 epochs. 0: whatever is reached.",
        section="Training",
    ),
    "script_args": Param("", type="string", title="More arguments of the script", section="Training"),
    "verify": Param(True, type="boolean", title="Verify the GPUs first", section="Flight"),  # noqa: FBT003
    "on_fail": Param(
        None,
        type=["null", "string"],
        enum=[None, "fail", "warn", "replace"],
        title="When the verification fails",
        description="Empty: what the shape says. replace: other worker pods in place of those that failed.",
        section="Flight",
    ),
    "teardown": Param("always", enum=["always", "on_success"], title="Tear down", section="Flight"),
}

with DAG("train_ddp", params=PARAMS, schedule=None, catchup=False, tags=["rayflight"], doc_md=__doc__) as dag:
    training_run(
        cluster="{{ params.shape }}",
        resize={
            "replicas": "{{ params.workers }}",
            "gpus": "{{ params.gpus_per_worker }}",
            "image": "{{ params.image or '' }}",
        },
        namespace="{{ params.namespace or '' }}",
        job={
            "entrypoint": "python3 train.py --workers {{ params.workers }}"
            " --gpus-per-worker {{ params.gpus_per_worker }} --epochs {{ params.epochs }}"
            " --accuracy {{ params.accuracy }} {{ params.script_args }}",
            "working_dir": str(TRAINING),
            "storage": "{{ params.claim or '' }}",
        },
        verify="{{ params.verify }}",
        on_fail="{{ params.on_fail or '' }}",
        teardown="{{ params.teardown }}",
    )
