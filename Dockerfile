# Two stages: the first builds the wheel and installs it with its pinned packages; the second contains
# only the interpreter and that environment. Runs as a non-root user, needs no writable file system.
# docs/image.md explains the build, and the checks without a container engine.

# The Python version of the tests. Set a digest to build the same image again.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
# Two environments: /opt/tools builds the wheel and stays in this stage; /opt/understudy is copied, and
# has no pip. Only packages that the lock files pin by hash are installed, and nothing is compiled.
COPY requirements.lock requirements-build.lock ./
RUN python -m venv /opt/tools \
 && /opt/tools/bin/pip install --require-hashes --no-deps --only-binary=:all: -r requirements-build.lock \
 && python -m venv --without-pip /opt/understudy \
 && /opt/tools/bin/pip --python /opt/understudy install --require-hashes --no-deps --only-binary=:all: \
      -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY proxy ./proxy
RUN /opt/tools/bin/pip wheel --no-index --no-deps --no-build-isolation --wheel-dir /dist . \
 && /opt/tools/bin/pip --python /opt/understudy install --no-index --no-deps /dist/*.whl

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="Understudy" \
      org.opencontainers.image.description="Impersonating reverse proxy that implements constrained impersonation (KEP-5284) for any cluster" \
      org.opencontainers.image.licenses="Apache-2.0"
# Remove the base image's package installers: nothing is installed at run time.
RUN python -m pip uninstall --yes pip setuptools wheel \
 && rm -r /usr/local/lib/python3.11/ensurepip
COPY --from=build /opt/understudy /opt/understudy
# The installation compiled the bytecode, and the file system is read-only. A numeric user has no home
# directory, but the client library requires HOME to be set.
ENV PATH=/opt/understudy/bin:$PATH HOME=/ PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# Numeric, so that a kubelet can check `runAsNonRoot`.
USER 65532:65532
EXPOSE 8443
ENTRYPOINT ["understudy"]
CMD ["serve", "--config", "/etc/understudy/config.yaml"]
