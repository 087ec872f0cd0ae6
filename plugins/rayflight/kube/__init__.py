"""Async client of the Kubernetes API. Deadlines on every call; decides nothing."""
