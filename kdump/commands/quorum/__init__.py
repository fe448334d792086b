"""``kdump quorum``: the state of a KRaft quorum.

election          The votes that a copy gets from the others, and whether it can lead.
problems          Problems and notes: their kinds, and those of a single copy.
replacement       New disks for voters whose disks are lost, so that the others elect a leader
                  again.
state             The state of the quorum: elections, losses, problems, and what to do.
names             Names of replicas and nodes, alone and in lists.
replacement_text  The steps that give a quorum whose disks are lost a leader again, in sentences.
verdict           What to do, in sentences, and the exit code.
json_lines        JSON Lines: a line for each copy, set of voters, leader change, election and
                  problem.
text              The verdict, the replicas, the elections between them and problems, for people.
pictures          The picture of a quorum: the logs of its controllers on one scale of offsets.
command           ``kdump quorum``: the state of a KRaft quorum, from the disks of its controllers.
"""
