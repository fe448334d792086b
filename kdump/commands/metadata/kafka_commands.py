"""Commands of Kafka's tools that make topics, configs, quotas and ACLs again.

What these tools cannot be given is a comment: secrets, what brokers make by themselves, and values
that no option can hold.

Spec: ``TopicCommand``, ``ConfigCommand``, ``AclCommand`` of Kafka 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from kdump.commands.metadata.entries import acl_name, feature_levels
from kdump.commands.metadata.problems import ending, problem_text, problems
from kdump.format.lines.shell import shell_text
from kdump.format.lines.text import printable
from kdump.format.messages.forms import enum_name, is_secret_setting
from kdump.metadata.image import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    AccessControlEntry,
    ConfigResource,
    MetadataImage,
    QuotaEntity,
    TopicImage,
)
from kdump.metadata.replay import MetadataState
from kdump.ui.units import count_text

#: Topics that brokers make by themselves.
_INTERNAL: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")
#: The names of ``--entity-type`` by the number of a resource.
_ENTITY_TYPES: Final = {
    TOPIC_RESOURCE: "topics",
    BROKER_RESOURCE: "brokers",
    16: "client-metrics",
    32: "groups",
}
_QUOTA_TYPES: Final = {"user": "users", "client-id": "clients", "ip": "ips"}
_RESOURCE_OPTIONS: Final = {
    "TOPIC": "--topic",
    "GROUP": "--group",
    "TRANSACTIONAL_ID": "--transactional-id",
    "DELEGATION_TOKEN": "--delegation-token",
    "USER": "--user-principal",
}
_CLUSTER: Final = "kafka-cluster"
_SETTING: Final = re.compile(r"[$a-zA-Z0-9._-]+")


def print_commands(emit: Callable[[str], None], state: MetadataState) -> int:
    """Print the commands, and return the exit code."""
    found = list(problems(state))
    image = state.image
    emit(_comment(f"The metadata of {state.path} before offset {state.end_offset}."))
    for problem in found:
        emit(_comment(problem_text(problem)))
    levels = ", ".join(f"{name}={level}" for name, level in feature_levels(image).items())
    emit(_comment(f"Finalized features: {levels or 'none'}."))
    emit(': "${BOOTSTRAP:?set it to HOST:PORT of a broker of the new cluster}"')
    for lines in (_topics(image), _configs(image), _quotas(image), _acls(image), _secrets(image)):
        for line in lines:
            emit(line)
    return ending(found).exit_code


def _comment(text: str) -> str:
    return f"# {printable(text)}"


def _command(tool: str, words: Iterable[str]) -> str:
    return f'{tool} --bootstrap-server "$BOOTSTRAP" {shell_text(words)}'


# --- topics


def _topics(image: MetadataImage) -> Iterator[str]:
    for topic in image.topics:
        numbers = list(topic.partitions)
        if topic.name in _INTERNAL:
            count = count_text(len(numbers), "partition")
            yield _comment(f"Topic {topic.name}, {count}: brokers make it by themselves.")
        elif topic.name is None or not numbers or numbers != list(range(len(numbers))):
            yield _comment(f"Topic {topic.name} of the id {topic.id}: its records are incomplete.")
        else:
            yield from _topic(topic, topic.name, image)


def _topic(topic: TopicImage, name: str, image: MetadataImage) -> Iterator[str]:
    # A topic is made with equal counts of replicas: without those that a reassignment adds.
    stable = [
        [node for node in each.replicas if node not in each.adding]
        for each in topic.partitions.values()
    ]
    least = min(map(len, stable))
    if least == 0:
        yield _comment(f"Topic {name} of the id {topic.id}: a partition has no replicas.")
        return
    if any(len(nodes) > least for nodes in stable):
        yield _comment(
            f"Topic {name}: its partitions have unequal counts of replicas; more than {least} are "
            "added by kafka-reassign-partitions.sh."
        )
    assignment = ",".join(":".join(map(str, nodes[:least])) for nodes in stable)
    words = ["--create", "--topic", name, "--replica-assignment", assignment]
    for setting, value in image.configs.get(ConfigResource(TOPIC_RESOURCE, name), {}).items():
        if _of_topic_tool(setting, value):
            words += ["--config", f"{setting}={value}"]
    yield _command("kafka-topics.sh", words)


def _of_topic_tool(setting: str, value: str) -> bool:
    """Return whether ``kafka-topics.sh --config`` can be given a setting."""
    fits = value and "=" not in value and value == value.strip() and _SETTING.fullmatch(setting)
    return bool(fits) and not is_secret_setting(setting)


# --- configs


def _configs(image: MetadataImage) -> Iterator[str]:
    names = {topic.name for topic in image.topics}
    for resource, values in image.configs.items():
        kind = _ENTITY_TYPES.get(resource.type)
        what = (
            f"{enum_name('ConfigRecord', 'resourceType', resource.type)} {resource.name}".rstrip()
        )
        of_topic = resource.type == TOPIC_RESOURCE
        if kind is None or (of_topic and resource.name not in names):
            yield _comment(f"Configs of {what}: there is no such resource.")
            continue
        if of_topic and resource.name in _INTERNAL:
            texts = ", ".join(f"{name}={_shown(name, value)}" for name, value in values.items())
            yield _comment(f"Configs of {what}, once it is there: {texts}")
            continue
        entity = _entity(kind, resource.name or None)
        pairs = []
        for name, value in values.items():
            if of_topic and _of_topic_tool(name, value):
                continue
            if is_secret_setting(name):
                yield _comment(f"Config {name} of {what} is a secret: set it by hand.")
            elif _of_config_tool(name, value):
                pairs.append(_pair(name, value))
            else:
                yield _comment(f"Config {name} of {what}: no option holds {value}")
        if pairs:
            yield _command(
                "kafka-configs.sh", ["--alter", *entity, "--add-config", ",".join(pairs)]
            )


def _of_config_tool(name: str, value: str) -> bool:
    """Return whether ``kafka-configs.sh --add-config`` can be given a setting."""
    fits = value == value.strip() and "[" not in value and "]" not in value
    return bool(fits and _SETTING.fullmatch(name))


def _pair(name: str, value: str) -> str:
    return f"{name}=[{value}]" if "," in value or "=" in value else f"{name}={value}"


def _entity(kind: str, name: str | None) -> list[str]:
    which = ["--entity-default"] if name is None else ["--entity-name", name]
    return ["--entity-type", kind, *which]


def _shown(name: str, value: str) -> str:
    return "a secret" if is_secret_setting(name) else value


# --- quotas and ACLs


def _quotas(image: MetadataImage) -> Iterator[str]:
    for entity, values in image.quotas.items():
        words = _quota_entity(entity)
        fits = all(
            value - value == 0 and _SETTING.fullmatch(name) for name, value in values.items()
        )
        if words is None or not fits:
            yield _comment(f"Quotas of {_entity_text(entity)}: no option holds {_pairs(values)}")
        else:
            words = ["--alter", *words, "--add-config", _pairs(values)]
            yield _command("kafka-configs.sh", words)


def _quota_entity(entity: QuotaEntity) -> list[str] | None:
    """Return the options for an entity; None if the tool has none for it."""
    kinds = [kind for kind, _ in entity]
    # The tool takes a user before a client.
    if kinds not in (["user"], ["client-id"], ["ip"], ["client-id", "user"]):
        return None
    if any(name == "" for _, name in entity):
        return None
    ordered = sorted(entity, key=lambda pair: pair[0] != "user")
    return [word for kind, name in ordered for word in _entity(_QUOTA_TYPES[kind], name)]


def _entity_text(entity: QuotaEntity) -> str:
    return ", ".join(f"{kind} {name}" for kind, name in entity)


def _pairs(values: Mapping[str, float]) -> str:
    return ",".join(f"{name}={value}" for name, value in values.items())


def _acls(image: MetadataImage) -> Iterator[str]:
    for acl in image.acls.values():
        words = _acl_words(acl)
        if words is None:
            yield _comment(
                f"ACL {acl.id} of {acl.principal} on {acl.resource}: no option holds it."
            )
        else:
            yield _command("kafka-acls.sh", ["--add", *words])


def _acl_words(acl: AccessControlEntry) -> list[str] | None:
    kind = acl_name("resourceType", acl.resource_type)
    pattern = acl_name("patternType", acl.pattern_type)
    permission = acl_name("permissionType", acl.permission_type)
    if pattern not in ("LITERAL", "PREFIXED") or permission not in ("ALLOW", "DENY"):
        return None
    if kind == "CLUSTER" and acl.resource == _CLUSTER and pattern == "LITERAL":
        words = ["--cluster"]
    elif kind in _RESOURCE_OPTIONS and acl.resource.strip() == acl.resource:
        words = [_RESOURCE_OPTIONS[kind], acl.resource]
    else:
        return None
    operation = acl_name("operation", acl.operation).title().replace("_", "")
    if not operation.isalpha() or ":" not in acl.principal:
        return None
    who = permission.lower()
    words += ["--resource-pattern-type", pattern.lower(), "--operation", operation]
    return [*words, f"--{who}-principal", acl.principal, f"--{who}-host", acl.host]


# --- what has to be set by hand


def _secrets(image: MetadataImage) -> Iterator[str]:
    for user, iterations in image.scram.items():
        mechanism = enum_name("UserScramCredentialRecord", "mechanism", user.mechanism)
        yield _comment(
            f"SCRAM user {user.name}, {mechanism}, {iterations} iterations: the password is not "
            "in the log, set it by hand."
        )
    for token in image.tokens.values():
        yield _comment(f"Delegation token {token.id} of {token.owner}: make a new one by hand.")
