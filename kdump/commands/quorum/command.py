"""``kdump quorum``: the state of a KRaft quorum, from the disks of its controllers.

Spec: ``KafkaRaftClient``, ``QuorumState`` (KIP-595, KIP-630, KIP-853, KIP-996).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from kdump.ui.command import Command
from kdump.ui.options.reports import format_option
from kdump.ui.options.targets import LOCATED_HELP, LogPath, TargetOptions, located
from kdump.ui.units import LARGEST_INT

if TYPE_CHECKING:
    from kdump.storage.paths import AnyPath


@click.command(
    cls=Command,
    short_help="Show which controller can lead, and what is lost.",
    epilog="Exit codes: 0 a leader can be elected from the given disks, and no change of the "
    "metadata is lost; 2 wrong usage; 4 no leader can be elected, changes are lost, replicas "
    "diverge, or a node does not start; 5 something could not be read, which comes before 4; "
    "130, 143 ended by a signal; 141 the reader of the output went away.",
)
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Take the directory of the metadata log (if there is no PATH), the static voters and the "
    f"roles of its node from this server.properties. {LOCATED_HELP}",
)
@click.option(
    "--leader-changes",
    metavar="N",
    type=click.IntRange(0, LARGEST_INT),
    default=5,
    show_default=True,
    help="Show the last N leader changes of each log; JSON Lines have all of them.",
)
@format_option(
    "Text for people, or JSON Lines; html is the text as one file, with a picture.", "html"
)
@click.argument("paths", nargs=-1, metavar="[PATH...]", type=LogPath())
def quorum(
    paths: Sequence[AnyPath],
    config: Path | None,
    leader_changes: int,
    form: Literal["text", "json", "html"],
) -> int:
    """Show the replicas of the metadata log at PATH, and whether they can elect a leader.

    PATH is a log directory with __cluster_metadata-0, or that partition; several PATHs are the
    disks of several controllers or brokers. For each replica, kdump shows the node, the directory
    id, quorum-state, the voters and how they were written, the leader changes, and the log end
    offset after the next startup, which truncates a corrupt log. For all replicas together, it
    shows which of them agree, which can be elected leader, which records the others then lose, and
    which node to start first; or why no leader can be elected. If the disks of a majority are lost,
    it says which to replace, and in which order. It knows only the given disks.

    quorum changes nothing, and can run while a broker is running.
    """
    from kdump.audit.facts.settings import metadata_directory
    from kdump.audit.targets.target import open_roots
    from kdump.commands.quorum.json_lines import print_json
    from kdump.commands.quorum.state import Quorum
    from kdump.commands.quorum.text import print_text
    from kdump.quorum.reading import is_lost_disk, read_replicas
    from kdump.storage.workers import default_jobs
    from kdump.ui.exits import NOTHING_READ
    from kdump.ui.options.targets import named_paths, say_wrong_paths

    named, configs = named_paths(located(TargetOptions(paths, config)))
    if not paths and configs is not None:
        own = metadata_directory(configs)
        named = named if own is None else (own,)
    roots = tuple(open_roots(named))
    given = tuple(root for root in roots if not is_lost_disk(root))
    if say_wrong_paths(given or roots):
        return NOTHING_READ.exit_code
    found = Quorum(tuple(read_replicas(roots, configs, jobs=default_jobs())))
    if form == "json":
        return print_json(found, click.echo)
    if form == "text":
        return print_text(found, click.echo, leader_changes)
    from kdump.commands.quorum.pictures import replicas_picture
    from kdump.ui.html.page import HtmlPage

    page = HtmlPage("kdump quorum")
    code = print_text(found, page.emit, leader_changes)
    page.draw(replicas_picture(found))
    click.echo(page.html())
    return code
