"""The commands for a cluster in kdump-spark(7), run as they stand there, on a cluster here."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.documents import EXAMPLE, TEXTS
from support.object_stores import free_port
from support.shown import environment

pyspark = pytest.importorskip("pyspark")

import kdump  # noqa: E402
from fleet.spark_cluster import await_port, packages, standalone  # noqa: E402

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

PACK, VERIFY, SUBMIT, SERVE, CONNECT = re.findall(
    r"^```bash\n(.*?)^```", TEXTS["kdump-spark"], re.MULTILINE | re.DOTALL
)
DIRECTORY = Path(__file__).parents[2] / "fixtures/brokers/4.3.1/clean"


class Shell:
    """Runs what the guide says, with the addresses of this cluster."""

    def __init__(self, top: Path, master: str) -> None:
        self.top = top
        self.port = free_port()
        self._addresses = {
            "spark://master:7077": master,
            "sc://localhost:15002": f"sc://localhost:{self.port}",
            "/srv/kafka/data": str(top / "data"),
            'master("local[2]")': f'remote("sc://localhost:{self.port}")',
            '("damaged': f'("{top / "data"}',
            # Nothing is fetched: they are copied from what is installed here.
            "pip install --target packed . 'pandas<3' botocore pyarrow": "test -d packed",
        }

    def start(self, commands: str) -> subprocess.Popen[str]:
        for there, here in self._addresses.items():
            commands = commands.replace(there, here)
        spark = Path(pyspark.__file__).parent
        path = f"{spark / 'bin'}:{environment()['PATH']}"
        return subprocess.Popen(
            ["bash", "-ec", commands],
            cwd=self.top,
            env=environment()
            | {"PATH": path, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(spark)},
            stdout=subprocess.PIPE,
            stderr=(self.top / "stderr").open("wb"),
            text=True,
            process_group=0,
        )

    def report(self, commands: str) -> tuple[int, list[str]]:
        """The exit code, and what was printed but for times."""
        process = self.start(commands)
        words, _ = process.communicate()
        return process.returncode, re.sub(r"\(--info\);.*", "", " ".join(words.split())).split()


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    top = tmp_path_factory.mktemp("cluster")
    shutil.copytree(DIRECTORY, top / "data")
    with (top / "data/codec-zstd-0/00000000000000000000.log").open("r+b") as log:
        log.seek(600)
        log.write(b"\377")
    for path in (Path(kdump.__file__).parent, *packages()):
        copy = shutil.copytree if path.is_dir() else shutil.copy
        (top / "packed").mkdir(exist_ok=True)
        copy(path, top / "packed" / path.name)
    bare = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    with standalone(top, bare) as master:
        one = Shell(top, master)
        assert one.report(PACK) == (0, [])
        with (top / "conf/spark-defaults.conf").open("a") as settings:
            settings.write(f"spark.connect.grpc.binding.port {one.port}\nspark.ui.enabled false\n")
        yield one


@pytest.fixture(scope="module")
def here(shell: Shell) -> tuple[int, list[str]]:
    """What is reported without a cluster."""
    code, words = shell.report("kdump verify /srv/kafka/data")
    assert code == 4
    assert "batch-crc-mismatch" in words
    return code, words


@pytest.mark.parametrize("commands", [VERIFY, SUBMIT], ids=["kdump", "spark-submit"])
def test_the_cluster_reports_the_same(
    shell: Shell, here: tuple[int, list[str]], commands: str
) -> None:
    assert shell.report(commands) == here


def test_the_tables_from_a_program_in_its_own_environment(shell: Shell) -> None:
    """Elsewhere than the guide's commands, by the path of its Python: no other one is that."""
    (program, output), *_ = EXAMPLE.findall(TEXTS["kdump-spark"])
    program = program.replace('master("local[2]")', 'master("spark://master:7077")')
    (shell.top / "elsewhere").mkdir()
    code, words = shell.report(
        'export SPARK_CONF_DIR=$PWD/conf PYSPARK_PYTHON=python3 PATH="$PWD/bin:$PATH"\n'
        f"cd elsewhere\n{sys.executable} -P - <<'END'\n{program}END\n"
    )
    assert (code, words) == (0, output.split()), (shell.top / "stderr").read_text()


@pytest.fixture(scope="module")
def server(shell: Shell) -> Iterator[None]:
    """The server of Connect."""
    process = shell.start(SERVE)
    try:
        await_port(shell.port, process)
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.usefixtures("server")
def test_the_same_over_connect(shell: Shell, here: tuple[int, list[str]]) -> None:
    assert shell.report(CONNECT) == here


@pytest.mark.usefixtures("server")
def test_the_tables_over_connect(shell: Shell) -> None:
    """The example in Python, on the cluster."""
    (program, output), *_ = EXAMPLE.findall(TEXTS["kdump-spark"])
    code, words = shell.report(f"python - <<'END'\n{program}END\n")
    assert (code, words) == (0, output.split())
