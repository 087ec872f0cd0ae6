"""Rayflight: distributed GPU training on Ray and Kubernetes, flown from Airflow."""
