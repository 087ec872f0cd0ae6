"""The recipes of a run: plan, provision, wait, verify, train, collect, tear down. Async, idempotent, no Airflow.

A recipe reads the world through a ClusterBackend, decides by pure code, acts, and can be started again at any point:
what it did before stands on the cluster. Recipes wait only through ``backend.changes``; they hold no state that a
restart loses.
"""
