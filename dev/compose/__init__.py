"""A Docker of our own and docker-compose.yaml on it, where no image registry can be reached: for tests/compose only."""
