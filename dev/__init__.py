"""Tools for developing Rayflight: a real Airflow as a context manager, the demo, the benchmarks. Not in the wheel."""
