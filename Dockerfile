# The page, the wheel that carries it, and the image: each stage has only what it needs.
FROM node:20-slim AS page
WORKDIR /src/frontend
COPY frontend/package.json frontend/package-lock.json ./
RUN npm ci
COPY frontend/ ./
RUN npm run build

FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
# There is no npm here: the build hook takes the page that it finds.
COPY --from=page /src/backend/webui backend/webui
RUN pip wheel --no-cache-dir --wheel-dir /wheels .

FROM python:3.12-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-index --find-links /wheels shardwright \
    && rm -rf /wheels \
    && useradd --create-home --uid 1000 shardwright \
    && install -d -o shardwright -g shardwright /data
USER shardwright
# The database is on the volume, and so is what relative paths on the command line name (plans, exported bundles).
ENV SHARDWRIGHT_DATA=/data
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=3s --start-period=10s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
# Inside the container every interface, which takes a token in SHARDWRIGHT_TOKEN.
CMD ["python", "-m", "backend", "--host", "0.0.0.0", "--port", "8000"]
