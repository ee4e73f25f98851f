# pyscheduler as an image.
#
#   docker build --tag pyscheduler:0.2.0 .
#   docker build --tag pyscheduler:mine --build-arg PLUGINS="my-plugin==1.2 another-plugin" .
#
# The base is pinned by the digest of its index, for all architectures; the tag says to people what that is. To take a newer
# one: --build-arg BASE=python:3.13-slim-bookworm
ARG BASE=python:3.13.15-slim-bookworm@sha256:2325bb286ec344af3e5898cc224b5844e2707ac6e26b1632516fd3edc84a5e26

FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE kube_pyscheduler.py ./
COPY pyscheduler pyscheduler
COPY examples/16-every-point examples/16-every-point
COPY lab lab
COPY packages packages
COPY plugins plugins
# An environment without pip of its own: nothing is installed into a running image.
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels ./packages/* . ./plugins/* ./lab \
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
