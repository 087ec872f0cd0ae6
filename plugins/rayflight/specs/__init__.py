"""What people write: cluster shapes, jobs, teardown policies. Validated here, before anything is created."""
