"""Entry for Airflow's plugins folder: hands over the plugin, and only where nobody else does.

Airflow imports every module of the plugins folder as a top-level module named by its file; `.airflowignore` keeps the
package itself out of that. Where Rayflight is installed as a distribution, its entry point already registers the
plugin, and a second registration under the same name would be skipped with a warning.
"""

from importlib.metadata import PackageNotFoundError, distribution

try:
    distribution("rayflight")
except PackageNotFoundError:
    from rayflight.airflow.plugin import RayflightPlugin

    __all__ = ["RayflightPlugin"]
