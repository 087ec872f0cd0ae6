"""Runs that were under way when their Airflow was stopped: failed in its database, so that no later start goes on.

Airflow itself would: the next triggerer takes a deferred task up, sees its cluster gone, and the retry trains again on
one that nobody asked for. Writes to the database of an Airflow that does not run, and to nothing else.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

WHY = "Airflow was stopped while this run was under way; its cluster was ended with it."
_LIVING = "('queued', 'running')"
_ENDED = "('success', 'failed', 'skipped', 'upstream_failed', 'removed')"
_OF_THEM = f"(dag_id, run_id) IN (SELECT dag_id, run_id FROM dag_run WHERE state IN {_LIVING})"


def end(database: Path) -> int:
    """Fail what was under way: how many runs that were."""
    if not database.exists():
        return 0
    now = datetime.now(UTC).isoformat(sep=" ")
    with closing(sqlite3.connect(database)) as connection, connection:
        # What had begun failed; what had not never will.
        connection.execute(
            "UPDATE task_instance SET state = CASE WHEN state IS NULL THEN 'skipped' ELSE 'failed' END,"
            f" end_date = ?, trigger_id = NULL WHERE {_OF_THEM} AND (state IS NULL OR state NOT IN {_ENDED})",
            (now,),
        )
        connection.execute(
            "INSERT OR IGNORE INTO dag_run_note (dag_run_id, content, created_at, updated_at)"
            f" SELECT id, ?, ?, ? FROM dag_run WHERE state IN {_LIVING}",
            (WHY, now, now),
        )
        ended = connection.execute(
            f"UPDATE dag_run SET state = 'failed', end_date = ? WHERE state IN {_LIVING}", (now,)
        )
        return ended.rowcount
