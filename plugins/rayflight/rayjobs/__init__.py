"""Async client of Ray's dashboard: jobs, state, logs. Deadlines on every call; decides nothing."""
