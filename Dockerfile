# Two stages: the first makes the wheel and installs it with its pinned packages; the second holds
# nothing but the interpreter, them and us. Runs as nobody, needs no writable file system.
# How to build it, and what was checked without an engine: docs/image.md.

# The Python that the tests run with. Give a digest here to build the same image again.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
# Two environments: /opt/tools makes the wheel and stays here; /opt/understudy goes on, and has not
# even pip. Only what the lock files name by hash is installed, and nothing is compiled.
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
      org.opencontainers.image.description="Constrained impersonation (KEP-5284) before any kube-apiserver" \
      org.opencontainers.image.licenses="Apache-2.0"
# The base image brings tools that install packages; nobody is to install any here.
RUN python -m pip uninstall --yes pip setuptools wheel \
 && rm -r /usr/local/lib/python3.11/ensurepip
COPY --from=build /opt/understudy /opt/understudy
# The bytecode was made with the install, and there is nowhere to write more. A number has no home,
# and the client library wants to know one, though nothing is there.
ENV PATH=/opt/understudy/bin:$PATH HOME=/ PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# A number, so that `runAsNonRoot` can be checked by a kubelet.
USER 65532:65532
EXPOSE 8443
ENTRYPOINT ["understudy"]
CMD ["serve", "--config", "/etc/understudy/config.yaml"]
