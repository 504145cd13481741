# syntax=docker/dockerfile:1
# Two stages: the wheel and its pinned packages are installed in the first; the second holds
# nothing but the interpreter, them and us. Runs as nobody, needs no writable file system.
FROM python:3.13-slim-bookworm AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY requirements.lock requirements-dev.lock ./
RUN python -m venv /opt/tools \
 && /opt/tools/bin/pip install --require-hashes -r requirements-dev.lock \
 && python -m venv /opt/understudy \
 && /opt/understudy/bin/pip install --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY proxy ./proxy
RUN /opt/tools/bin/python -m build --wheel --no-isolation --outdir /dist . \
 && /opt/understudy/bin/pip install --no-deps --no-index /dist/*.whl

FROM python:3.13-slim-bookworm
COPY --from=build /opt/understudy /opt/understudy
ENV PATH=/opt/understudy/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 8443
ENTRYPOINT ["understudy"]
CMD ["serve", "--config", "/etc/understudy/config.yaml"]
