"""What Rayflight registers with Airflow's plugin manager. Loaded by every Airflow process: no import that costs."""

from airflow.plugins_manager import AirflowPlugin


class RayflightPlugin(AirflowPlugin):
    """Registered once per process, from the entry point or from the plugins folder."""

    name = "rayflight"
