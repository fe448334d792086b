"""``kdump explain``: finding codes and lines of a server.log.

broker_log/  Messages in a broker's server.log about its log directories.
text         The report of ``explain`` on a server.log.
command      ``kdump explain``: finding codes and lines of a server.log.
"""
