"""``rayflight``: diagnose and snapshot without Airflow, on a live cluster or on a folder of plain dumps.

Reads clusters, never writes to them; imports nothing of Airflow.
"""
