"""The examples that packages install, each held against the program that reads it."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from kdump.cli.main import cli
from project.monitoring import Prometheus, prometheus
from support.documents import TEXTS
from support.fixtures_loader import copy_fixture

pytestmark = pytest.mark.once

EXAMPLES = Path(__file__).parents[2] / "packaging/examples"
SERVICE = EXAMPLES / "kafka-kdump-scrub.service"
TIMER = EXAMPLES / "kafka-kdump-scrub.timer"
RULES = EXAMPLES / "kdump.rules.yml"
DASHBOARD = json.loads((EXAMPLES / "kdump-dashboard.json").read_text())
PANELS = {panel["title"]: panel for panel in DASHBOARD["panels"]}
DAY = 86400


def test_each_file_is_one_of_these() -> None:
    assert {path.name for path in EXAMPLES.iterdir()} == {
        "kafka-kdump-debug.pod.yaml",
        "kafka-kdump-next-start.patch.yaml",
        "kafka-kdump-scrub.cron",
        "kafka-kdump-scrub.cronjob.yaml",
        "kafka-kdump-scrub.service",
        "kafka-kdump-scrub.timer",
        "kafka-kdump-verify.job.yaml",
        "kdump-dashboard.json",
        "kdump.rules.yml",
        "kubectl-kdump",
    }


def documents(name: str) -> list[dict[str, Any]]:
    """The objects in an example for Kubernetes."""
    return [*yaml.safe_load_all((EXAMPLES / name).read_text())]


# --- systemd


def analyze(*arguments: str | Path) -> str:
    """What systemd-analyze prints; it must be satisfied."""
    done = subprocess.run(
        ["systemd-analyze", *arguments],
        env={"PATH": "/usr/bin:/bin", "SYSTEMD_COLORS": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def settings(unit: Path) -> dict[str, str]:
    lines = [line.partition("=") for line in unit.read_text().splitlines() if line[:1].isalpha()]
    return {name: value for name, _, value in lines}


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units, where the executable is one that this machine has."""
    for unit in (SERVICE, TIMER):
        text = unit.read_text().replace("/usr/bin/kafka-kdump", "/bin/true")
        (tmp_path / unit.name).write_text(text)
    return tmp_path


@pytest.mark.systemd
def test_systemd_warns_of_nothing_in_the_units(installed: Path) -> None:
    units = [installed / SERVICE.name, installed / TIMER.name]
    assert analyze("verify", "--man=no", "--generators=no", "--recursive-errors=no", *units) == ""


@pytest.mark.systemd
def test_the_service_is_exposed_to_little(installed: Path) -> None:
    threshold = ("--offline=true", "--threshold=15")  # tenths: 1.5 of 10
    analyze("security", "--no-pager", *threshold, installed / SERVICE.name)


@pytest.mark.systemd
def test_the_timer_elapses_each_night() -> None:
    calendar = settings(TIMER)["OnCalendar"]
    shown = analyze("calendar", "--iterations=2", "--base-time=2030-01-01 12:00:00", calendar)
    assert "Next elapse: Wed 2030-01-02 02:30:00" in shown
    assert "Thu 2030-01-03 02:30:00" in shown


def test_a_run_ends_before_systemd_ends_it() -> None:
    unit = settings(SERVICE)
    assert "--max-duration 3h" in unit["ExecStart"]
    assert unit["TimeoutStartSec"] == "4h"


# --- Prometheus


@pytest.mark.prometheus
def test_the_rules_fire_when_they_must_and_else_do_not() -> None:
    tests = Path(__file__).with_name("kdump.rules.test.yml")
    for kind, file in (("check", RULES), ("test", tests)):
        command = ["promtool", kind, "rules", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_cases_in_which_it_fires_and_does_not() -> None:
    named = {rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"]
             for rule in group["rules"]}  # fmt: skip
    cases = yaml.safe_load(Path(__file__).with_name("kdump.rules.test.yml").read_text())["tests"]
    checks = [check for case in cases for check in case["alert_rule_test"]]
    for fires in (True, False):
        assert {each["alertname"] for each in checks if ("exp_alerts" in each) is fires} == named


def exposition(now: float) -> str:
    """What kdump scrub writes of two log directories: one is read, the other has problems."""
    values: dict[str, list[tuple[str, float]]] = {
        "last_run_timestamp_seconds": [("", now - 3600), ("", now - 3600)],
        "last_success_timestamp_seconds": [("", now - 2 * 3600)],
        "last_run_duration_seconds": [("", 10800), ("", 10800)],
        "last_run_read_bytes": [("", 5e11), ("", 4e10)],
        "last_run_exit_code": [("", 0), ("", 4)],
        "log_bytes": [("", 0), ("", 8e12)],
        "due_bytes": [("", 0), ("", 2e12)],
        "oldest_read_timestamp_seconds": [("", now - 20 * DAY), ("", now - 40 * DAY)],
        "max_age_seconds": [("", 30 * DAY), ("", 30 * DAY)],
        "retention_overdue_bytes": [("", 0), ("", 1e9)],
        "full_earliest_seconds": [("", math.inf), ("", DAY)],
    }
    lines = []
    for name, each in values.items():
        lines += [f"# HELP kdump_scrub_{name} A gauge.", f"# TYPE kdump_scrub_{name} gauge"]
        lines += [
            f'kdump_scrub_{name}{{log_dir="/var/lib/kafka/{number}"}} {value!r}'
            for number, (_, value) in enumerate(each)
        ]
    lines += ["# HELP kdump_scrub_findings A gauge.", "# TYPE kdump_scrub_findings gauge"]
    for severity, code, count in (("error", "bad-crc", 2), ("warning", "index-missing", 3)):
        labels = f'log_dir="/var/lib/kafka/1",severity="{severity}",code="{code}"'
        lines.append(f"kdump_scrub_findings{{{labels}}} {count}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    textfiles = tmp_path_factory.mktemp("textfiles")
    (textfiles / "kdump.prom").write_text(exposition(time.time()))
    directory = tmp_path_factory.mktemp("prometheus") / "server"
    awaited = 'ALERTS{alertname="KdumpScrubBehind"}'  # after the metrics that it is made from
    with prometheus(textfiles, RULES, directory, awaited) as here:
        yield here


@pytest.mark.slow
@pytest.mark.prometheus
def test_a_server_takes_the_rules_and_what_is_written(server: Prometheus) -> None:
    assert server.query("node_textfile_scrape_error") == [
        ({"__name__": "node_textfile_scrape_error", "instance": "broker7", "job": "node"}, 0)
    ]
    (group,) = server.ask("rules")["groups"]
    assert {rule["name"]: (rule["health"], rule["state"]) for rule in group["rules"]} == {
        "KdumpProblemsFound": ("ok", "firing"),
        "KdumpScrubMissing": ("ok", "inactive"),
        "KdumpScrubBehind": ("ok", "pending"),
        "KdumpRetentionBehind": ("ok", "inactive"),
        "KdumpDiskFilling": ("ok", "pending"),
    }


# --- Grafana


def queries(panel: dict[str, Any]) -> list[str]:
    return [
        target["expr"].replace("$instance", ".*").replace("$log_dir", ".*")
        for target in panel["targets"]
    ]


@pytest.mark.slow
@pytest.mark.prometheus
@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Problems", [[2, 3]]),
        ("Time since the last run without problems", [[7200, -1]]),
        ("Exit code of the last run", [[0, 4]]),
        ("Share of the logs that was read within the longest age", [[1, 0.75]]),
        ("Age of what was not read for longest", [[20 * DAY, 40 * DAY], [30 * DAY, 30 * DAY]]),
        ("Bytes to read", [[0, 2e12]]),
        ("Bytes read by each run", [[5e11, 4e10]]),
        ("Duration of each run", [[10800, 10800]]),
    ],
)
def test_each_query_of_the_dashboard_has_its_values_and_labels(
    server: Prometheus, title: str, expected: list[list[float]]
) -> None:
    panel = PANELS[title]
    assert len(panel["targets"]) == len(expected)
    names = {"instance", "log_dir"} | ({"severity", "code"} if panel["type"] == "table" else set())
    for query, values in zip(queries(panel), expected, strict=True):
        found = sorted(server.query(query), key=lambda one: (one[0]["log_dir"], one[1]))
        assert [value for _, value in found] == [pytest.approx(each, abs=120) for each in values]
        for labels, _ in found:
            assert {*labels} - {"__name__", "job"} == names
            assert labels["instance"] == "broker7"


def test_no_panel_is_without_a_case() -> None:
    (cases,) = [
        mark.args[1]
        for mark in test_each_query_of_the_dashboard_has_its_values_and_labels.pytestmark  # type: ignore[attr-defined]
        if mark.name == "parametrize"
    ]
    assert [title for title, _ in cases] == [*PANELS]


@pytest.mark.prometheus
def test_the_variables_of_the_dashboard_have_values(server: Prometheus) -> None:
    source, *others = DASHBOARD["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == (
        "datasource", "datasource", "prometheus"
    )  # fmt: skip
    values = {}
    for variable in others:
        query = variable["query"].replace("$instance", ".*")
        selector, label = query.removeprefix("label_values(").removesuffix(")").rsplit(", ", 1)
        values[variable["name"]] = server.ask(f"label/{label}/values", **{"match[]": selector})
    assert values == {
        "instance": ["broker7"],
        "log_dir": ["/var/lib/kafka/0", "/var/lib/kafka/1"],
    }


def test_grafana_knows_every_field_of_the_dashboard() -> None:
    """Its own classes drop what they do not know."""
    register_default_plugins()
    written = json.loads(JSONEncoder().encode(Dashboard.from_json(DASHBOARD)))
    assert_held(DASHBOARD, written, "dashboard")


def assert_held(wanted: Any, found: Any, where: str) -> None:
    """``found`` has all that ``wanted`` has, and may have defaults beside it."""
    if isinstance(wanted, dict):
        assert {*wanted} <= {*found}, where
        for name, value in wanted.items():
            assert_held(value, found[name], f"{where}.{name}")
    elif isinstance(wanted, list):
        assert len(wanted) == len(found), where
        for number, (value, other) in enumerate(zip(wanted, found, strict=True)):
            assert_held(value, other, f"{where}[{number}]")
    else:
        assert wanted == found, where


def test_panels_lie_beside_each_other_and_ask_the_chosen_server() -> None:
    panels = [*PANELS.values()]
    assert len({panel["id"] for panel in panels}) == len(panels) == len(DASHBOARD["panels"])
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    places = []
    for panel in panels:
        assert [panel["datasource"], *(each["datasource"] for each in panel["targets"])] == [
            chosen
        ] * (1 + len(panel["targets"]))
        place = panel["gridPos"]
        assert place["x"] >= 0 and place["x"] + place["w"] <= 24
        places.append(
            {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
        )
    assert not any(one & other for one, other in combinations(places, 2))


# --- Kubernetes


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("kafka-*.yaml")), ids=lambda path: path.name)
def test_each_resource_is_as_its_schema_says(path: Path) -> None:
    for resource in documents(path.name):
        if path.name.endswith(".patch.yaml"):
            resource = patched(resource)
        kubernetes_validate.validate(resource, "1.37", strict=True)


def patched(patch: dict[str, Any]) -> dict[str, Any]:
    """A StatefulSet with a patch."""
    container = {"name": "kafka", "image": "registry.example/kafka:4.3.1"}
    pod: dict[str, Any] = {"containers": [container], **patch["spec"]["template"]["spec"]}
    labels = {"app": "kafka"}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "kafka"},
        "spec": {
            "serviceName": "kafka",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def test_a_resource_that_is_not_as_its_schema_says_is_found() -> None:
    (pod,) = documents("kafka-kdump-debug.pod.yaml")
    pod["spec"]["containers"][0]["volumeMount"] = pod["spec"]["containers"][0].pop("volumeMounts")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(pod, "1.37", strict=True)


def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """What a container's command does where kdump, and what is in ``cwd``/bin, is installed."""
    path = f"{cwd}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def init_container() -> dict[str, Any]:
    (patch,) = documents("kafka-kdump-next-start.patch.yaml")
    (container,) = patch["spec"]["template"]["spec"]["initContainers"]
    assert isinstance(container, dict)
    return container


@pytest.mark.slow
@pytest.mark.parametrize(("broken", "starts"), [(False, True), (True, False)])
def test_a_start_that_would_lose_records_is_held_back(
    tmp_path: Path, broken: bool, starts: bool
) -> None:
    data = copy_fixture("4.3.1/killed", tmp_path / "data")
    if broken:
        with (data / "groups-0" / f"{0:020}.log").open("r+b") as log:
            log.seek(200)
            log.write(b"damage")
    done = start(tmp_path, data)
    assert (done.returncode == 0) is starts, done.stdout
    assert ("groups-0" in done.stdout) is broken


@pytest.mark.parametrize(
    ("names", "starts"),
    [
        ([], True),
        (["lost+found"], True),
        (["lost+found", "other"], False),
    ],
    ids=str,
)
def test_an_empty_volume_is_that_of_a_new_broker(
    tmp_path: Path, names: list[str], starts: bool
) -> None:
    for name in ("", *names):
        (tmp_path / "data" / name).mkdir(parents=True, exist_ok=True)
    done = start(tmp_path, tmp_path / "data")
    assert ("a new broker" in done.stdout) is starts
    assert (done.returncode == 0) is starts


def test_what_cannot_be_read_does_not_start(tmp_path: Path) -> None:
    """Exit code 5, and volumes that are not mounted, or cannot be listed."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "notes").touch()
    assert start(tmp_path, tmp_path / "data").returncode == 5
    assert start(tmp_path, tmp_path / "absent").returncode != 0
    (tmp_path / "data" / "notes").unlink()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ls").symlink_to("/bin/false")
    assert start(tmp_path, tmp_path / "data").returncode != 0


def start(cwd: Path, data: Path) -> subprocess.CompletedProcess[str]:
    """What the init container does before a start from ``data``."""
    container = init_container()
    (mount,) = container["volumeMounts"]
    (script,) = container["args"]
    assert script.count(mount["mountPath"]) == 2
    return run([*container["command"], script.replace(mount["mountPath"], str(data))], cwd)


#: The log directories that the steps of the guide have, below the path of the volume.
VOLUMES = {
    "Strimzi": ("/var/lib/kafka/data-0", "kafka-log0"),
    "Confluent for Kubernetes": ("/mnt/data/data0", "logs"),
    "Any other StatefulSet": ("/var/lib/kafka/data", ""),
}
#: Writes down what it is asked, and runs what is to be run in a pod.
KUBECTL = """#!/bin/sh
echo "$@" >>said
if [ "$1" = exec ]; then shift 3; exec "$@"; fi
"""


def shell_lines(title: str) -> str:
    """The lines that the guide has for ``title``, up to the next one."""
    _, _, rest = TEXTS["kdump-install"].partition(f"**{title}**")
    steps = re.split(r"^\*\*|(?<=\n)If all", rest, flags=re.MULTILINE)[0]
    return "".join(re.findall(r"```sh\n(.*?)```", steps, re.DOTALL))


@pytest.mark.slow
@pytest.mark.parametrize("title", VOLUMES)
def test_the_steps_of_the_guide_run_on_a_volume_that_looks_like_the_pods(
    title: str, tmp_path: Path
) -> None:
    mount, below = VOLUMES[title]
    volume = tmp_path / "volume"
    copy_fixture("4.3.1/clean", volume / below)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/kubectl").write_text(KUBECTL)
    (tmp_path / "bin/kubectl").chmod(0o755)
    lines = shell_lines(title).replace(mount, str(volume))
    done = run(["bash", "-ec", lines], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "22 OK" in done.stdout
    said = (tmp_path / "said").read_text().splitlines()
    kinds = [" ".join(line.split()[:2]) for line in said]
    assert kinds.index("apply -f") > kinds.index("delete pod")
    removed = next(line for line in said if line.startswith("delete") and "set" in line)
    assert removed.endswith("--cascade=orphan")
    assert said.index(removed) < kinds.index("delete pod")
    assert "delete pod kafka-kdump" in said[-2:]
    if title != "Any other StatefulSet":  # what was blocked is permitted again, at the end
        assert said[0].startswith("annotate kafka ")
        name = said[0].split()[3].partition("=")[0]
        assert said[-1].split()[3] == f"{name}-"


PLUGIN_KUBECTL = """#!/bin/sh
echo "$@" >>said
case "$*" in
*'id -u') echo 1001 ;;
*'id -g') echo 0 ;;
debug*) for word; do case $word in --custom=*) cp "${word#--custom=}" rights ;; esac; done ;;
esac
"""


@pytest.mark.parametrize("namespace", [[], ["-n", "kafka"]], ids=str)
def test_the_plugin_runs_kdump_as_the_brokers_user(namespace: list[str], tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/kubectl").write_text(PLUGIN_KUBECTL)
    (tmp_path / "bin/kubectl").chmod(0o755)
    plugin = str(EXAMPLES / "kubectl-kdump")
    done = run([plugin, *namespace, "kafka-0", "verify", "--quick"], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    rights = json.loads((tmp_path / "rights").read_text())
    assert rights == {"securityContext": {"runAsUser": 1001, "runAsGroup": 0}}
    where = " --namespace=kafka" if namespace else ""
    *_, last = (tmp_path / "said").read_text().splitlines()
    assert last.startswith(f"debug{where} -it kafka-0 --target=kafka --image=registry.example/")
    custom = re.search(r"--custom=(\S+)", last)
    assert custom is not None
    assert not Path(custom[1]).exists()
    assert last.endswith("-- kdump verify --quick")
    assert run([plugin, *namespace, "kafka-0"], tmp_path).returncode == 2


def test_the_debug_pod_has_the_claim_and_the_path_of_the_guide() -> None:
    (pod,) = documents("kafka-kdump-debug.pod.yaml")
    spec = pod["spec"]
    (volume,), (container,) = spec["volumes"], spec["containers"]
    guide = TEXTS["kdump-install"]
    assert f"`{volume['persistentVolumeClaim']['claimName']}`" in guide
    (mount,) = container["volumeMounts"]
    assert (mount["name"], mount["mountPath"]) == (volume["name"], VOLUMES["Strimzi"][0])
    assert f"kubectl exec {pod['metadata']['name']} -- kdump" in guide
    assert spec["securityContext"]["runAsNonRoot"] is True
    rights = container["securityContext"]
    assert rights["readOnlyRootFilesystem"] is True
    assert rights["capabilities"] == {"drop": ["ALL"]}


def pod(job: dict[str, Any]) -> dict[str, Any]:
    """The specification of the pods of a Job or a CronJob."""
    spec = job["spec"]["jobTemplate"]["spec"] if job["kind"] == "CronJob" else job["spec"]
    assert spec["backoffLimit"] == 0
    found = spec["template"]["spec"]
    assert found["restartPolicy"] == "Never"
    assert isinstance(found, dict)
    return found


def test_no_container_has_rights_that_it_does_not_need() -> None:
    (job,) = documents("kafka-kdump-verify.job.yaml")
    *_, taking, scrub = documents("kafka-kdump-scrub.cronjob.yaml")
    pods = [pod(each) for each in (job, taking, scrub)]
    containers = [container for each in pods for container in each["containers"]]
    assert len(containers) == 3
    for container in (*containers, init_container()):
        rights = container["securityContext"]
        assert rights["readOnlyRootFilesystem"] is True
        assert rights["allowPrivilegeEscalation"] is False
        assert rights["capabilities"] == {"drop": ["ALL"]}
        data = [mount for mount in container.get("volumeMounts", ()) if mount["name"] == "data"]
        assert all(mount["readOnly"] is True for mount in data)
    for one in (*pods, init_container()):
        rights = one["securityContext"]
        assert rights["runAsNonRoot"] is True
        assert rights["runAsUser"] > 0


def test_a_scrub_reads_the_snapshot_that_was_just_taken(tmp_path: Path) -> None:
    state, account, role, binding, taking, scrub = documents("kafka-kdump-scrub.cronjob.yaml")
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "kubectl").write_text(
        '#!/bin/sh\necho "$@" >>said\nif [ "$1" = create ]; then cat >made; fi\n'
    )
    (commands / "kubectl").chmod(0o755)
    (container,) = pod(taking)["containers"]
    assert run([*container["command"], *container["args"]], tmp_path).returncode == 0
    snapshot = yaml.safe_load((tmp_path / "made").read_text())
    name = snapshot["metadata"]["name"]
    deleted, created, waited = (tmp_path / "said").read_text().splitlines()
    assert deleted == f"delete volumesnapshot {name} --ignore-not-found"
    assert created == "create -f -"
    ready = "--for=jsonpath={.status.readyToUse}=true"
    assert waited.startswith(f"wait volumesnapshot {name} {ready}")

    assert pod(taking)["serviceAccountName"] == account["metadata"]["name"]
    assert binding["subjects"] == [{"kind": account["kind"], "name": account["metadata"]["name"]}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    (rule,) = role["rules"]
    group, _, _ = snapshot["apiVersion"].partition("/")
    assert (rule["apiGroups"], rule["resources"]) == ([group], ["volumesnapshots"])
    assert {"create", "delete", "get", "list", "watch"} == {*rule["verbs"]}

    volumes = {volume["name"]: volume for volume in pod(scrub)["volumes"]}
    claim = volumes["data"]["ephemeral"]["volumeClaimTemplate"]["spec"]
    assert claim["dataSource"] == {"apiGroup": group, "kind": snapshot["kind"], "name": name}
    kept = volumes["state"]["persistentVolumeClaim"]["claimName"]
    assert (state["kind"], kept) == ("PersistentVolumeClaim", state["metadata"]["name"])
    (container,) = pod(scrub)["containers"]
    *arguments, path = container["args"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert path == mounts["data"]
    assert arguments[arguments.index("--state") + 1] == f"{mounts['state']}/scrub.db"


def test_a_scrub_comes_after_its_snapshot_and_ends_before_the_next() -> None:
    *_, taking, scrub = documents("kafka-kdump-scrub.cronjob.yaml")
    minutes = []
    for job in (taking, scrub):
        minute, hour, *days = job["spec"]["schedule"].split()
        assert days == ["*", "*", "*"]
        assert job["spec"]["concurrencyPolicy"] == "Forbid"
        minutes.append(60 * int(hour) + int(minute))
    limits = [job["spec"]["jobTemplate"]["spec"] for job in (taking, scrub)]
    assert minutes[0] * 60 + limits[0]["activeDeadlineSeconds"] < minutes[1] * 60
    assert limits[1]["activeDeadlineSeconds"] > 3 * 3600
    assert limits[1]["activeDeadlineSeconds"] + limits[1]["ttlSecondsAfterFinished"] < DAY


# --- the command lines


def scheduled() -> str:
    """The command in the crontab line, after the user; cron would replace a % in it."""
    (line,) = [
        line
        for line in (EXAMPLES / "kafka-kdump-scrub.cron").read_text().splitlines()
        if not line.startswith("#")
    ]
    minute, hour, *days, user, command = line.split(maxsplit=6)
    assert (int(minute), int(hour), days, user) == (30, 2, ["*", "*", "*"], "kafka")
    assert "%" not in command
    return command.removeprefix("nice -n 19 ")


def command_lines() -> dict[str, list[str]]:
    """What each example runs, from the name of the command on."""
    (job,) = documents("kafka-kdump-verify.job.yaml")
    *_, scrub = documents("kafka-kdump-scrub.cronjob.yaml")
    (script,) = init_container()["args"]
    contained = {"verify.job": pod(job), "scrub.cronjob": pod(scrub)}
    hosts = {"scrub.service": settings(SERVICE)["ExecStart"], "scrub.cron": scheduled()}
    lines = {name: one["containers"][0]["args"] for name, one in contained.items()}
    for name, text in hosts.items():
        executable, *lines[name] = shlex.split(text)
        assert executable == "/usr/bin/kafka-kdump"
    last = script.strip().split("\n")[-1]
    shell, executable, *lines["next-start.patch"] = shlex.split(last)
    assert (shell, executable) == ("exec", "kdump")
    return lines


@pytest.mark.parametrize("name", command_lines())
def test_kdump_takes_each_command_line(name: str, tmp_path: Path) -> None:
    command, *arguments = command_lines()[name]
    for number, argument in enumerate(arguments):
        if argument.startswith("/"):  # some options ask for files that exist
            path = tmp_path / argument[1:]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            arguments[number] = str(path)
    top = click.Context(cli, info_name="kdump", **cli.context_settings)
    found = cli.get_command(top, command)
    assert found is not None, f"there is no kdump {command}"
    found.make_context(command, arguments, parent=top)  # refuses what it does not know


def test_systemd_and_cron_run_the_same() -> None:
    lines = command_lines()
    assert lines["scrub.service"] == lines["scrub.cron"]
