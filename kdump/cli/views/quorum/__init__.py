"""The reports of ``quorum``.

names       Names of copies and nodes, alone and in lists.
replacement The steps that give a quorum whose disks are lost a leader again, in sentences.
verdict     What to do, in sentences, and the exit code.
text        The copies, the elections between them, problems and the verdict, for people.
json_lines  JSON Lines: a line for each copy, set of voters, leader change, election and problem.
"""
