"""What Rayflight registers with Airflow's plugin manager. Loaded by every Airflow process: no import that costs."""

# The SDK's class: the one in airflow.plugins_manager would pull Airflow's core into every task process.
from airflow.sdk.plugins_manager import AirflowPlugin


class RayflightPlugin(AirflowPlugin):
    """Registered once per process, from the entry point or from the plugins folder."""

    name = "rayflight"
