# The app in public mode; how it is built and run says docs/deploy.md.
# The digest is that of the tag at the time of writing; both are raised together.
FROM python:3.12.14-slim-trixie@sha256:09f7da3bc104798d0afb40bc08d23ab2da20a76130cec1f2ef170848f5d85217 AS packages

COPY requirements-cpu.lock /tmp/
# PyTorch's index of CPU builds, which are not on PyPI. Whatever it gives, the hashes decide.
ARG TORCH_INDEX
RUN python -m venv /opt/heads \
    && /opt/heads/bin/python -m pip install --no-cache-dir --only-binary=:all: --require-hashes --extra-index-url "$TORCH_INDEX" -r /tmp/requirements-cpu.lock

FROM python:3.12.14-slim-trixie@sha256:09f7da3bc104798d0afb40bc08d23ab2da20a76130cec1f2ef170848f5d85217

# All that is written lies in one place, so that everything else can be read-only.
ENV PATH=/opt/heads/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/data \
    TMPDIR=/data/tmp \
    GRADIO_TEMP_DIR=/data/tmp/gradio \
    GRADIO_ANALYTICS_ENABLED=False \
    GRADIO_SERVER_NAME=0.0.0.0 \
    GRADIO_SERVER_PORT=7860 \
    HEADS_PUBLIC=1

RUN useradd --uid 1000 --no-create-home --home-dir /data --shell /usr/sbin/nologin heads \
    && install --directory --owner=heads --group=heads --mode=0700 /data

COPY --from=packages /opt/heads /opt/heads
WORKDIR /app
COPY app.py LICENSE ./
COPY assets/examples assets/examples
COPY heads heads
RUN python -m compileall -q heads

USER 1000:1000
VOLUME /data
EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=10s --start-period=120s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:7860/', timeout=8)"]
# The first process of a container ends by no signal but one that it listens to.
STOPSIGNAL SIGINT
# A volume that was mounted may be empty.
CMD ["sh", "-c", "mkdir -p \"$TMPDIR\" && exec python app.py"]
