"""The only package that imports Airflow: operators, sensors, triggers, links, the task group and the UI.

It translates between Airflow and the core and decides nothing that the core could decide.
"""
