# pyscheduler as an image.
#
#   docker build --tag pyscheduler:0.1.0 .
#   docker build --tag pyscheduler:mine --build-arg PLUGINS="my-plugin==1.2 another-plugin" .
#
# The base is pinned by its tag. To pin what you have tested, give the digest, too:
#   --build-arg BASE=python:3.13-slim@sha256:...
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY pyscheduler pyscheduler
COPY plugins plugins
# An environment without pip of its own: nothing is installed into a running image.
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . ./plugins/* \
 && python -m venv --without-pip /opt/pyscheduler
# Wheels only, so that no compiler is needed. PLUGINS is a list of words, whose versions are the builder's to pin.
ARG PLUGINS=""
# hadolint ignore=SC2086,DL3013
RUN pip --python /opt/pyscheduler install --no-cache-dir --only-binary=:all: /wheels/*.whl ${PLUGINS}

FROM ${BASE}
COPY --from=build /opt/pyscheduler /opt/pyscheduler
ENV PATH="/opt/pyscheduler/bin:${PATH}" \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["pyscheduler"]
CMD ["run"]
