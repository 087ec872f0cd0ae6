# Airflow with Rayflight in it, on the official image: what docker-compose.yaml and the Helm values run.
#   docker build --tag rayflight-airflow:3.3.2 .
# Behind a package index of your own: --build-arg PIP_INDEX_URL=... . No `# syntax=` line: any builder takes it.
ARG AIRFLOW_IMAGE=docker.io/apache/airflow:3.3.2-python3.11

FROM ${AIRFLOW_IMAGE} AS wheel
ARG PIP_INDEX_URL
# WORKDIR alone would make it root's.
RUN mkdir /tmp/rayflight
WORKDIR /tmp/rayflight
COPY --chown=50000:0 pyproject.toml README.md LICENSE requirements.lock ./
COPY --chown=50000:0 plugins ./plugins
# Of the lock only what Rayflight adds to Airflow: the official image has its own versions of everything else.
RUN grep -E '^(apache-airflow-providers-cncf-kubernetes|kubernetes|kubernetes-asyncio|pathspec|setuptools)==' \
        requirements.lock | sed 's/ *\\$//' > constraints.txt \
    && PIP_CONSTRAINT=constraints.txt pip wheel --no-cache-dir --no-deps --wheel-dir dist .

FROM ${AIRFLOW_IMAGE}
ARG AIRFLOW_VERSION=3.3.2
ARG PIP_INDEX_URL
COPY --from=wheel --chown=50000:0 /tmp/rayflight/dist /tmp/rayflight/constraints.txt /tmp/rayflight/
# Airflow is named too: whatever Rayflight needs, it is never changed on the way.
RUN pip install --no-cache-dir --constraint /tmp/rayflight/constraints.txt \
        "apache-airflow==${AIRFLOW_VERSION}" /tmp/rayflight/*.whl \
    && pip check \
    && mkdir -p /opt/airflow/archive /opt/airflow/logs /opt/airflow/kube
USER 50000:0
