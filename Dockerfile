# isocapsnet on a CPU: docker build -t isocapsnet . && docker run --rm -v "$PWD:/data" isocapsnet benchmark /data/study
FROM python:3.11-slim

WORKDIR /opt/isocapsnet
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
# torch from its CPU index, in the tested version: the default one brings gigabytes of GPU packages.
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu \
        "torch==$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' constraints.txt)+cpu" \
    && pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu -c constraints.txt ".[all]"

# Small networks are fastest with one thread per process; a benchmark starts one process per core.
ENV OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
RUN useradd --create-home researcher
USER researcher
WORKDIR /data
ENTRYPOINT ["isocapsnet"]
CMD ["--help"]
