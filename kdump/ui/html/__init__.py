"""Reports as HTML: one file, without a script and without an address.

pictures  Bars in SVG: logs as their segments, replicas by their offsets, topics by their size.
page      HtmlPage: the lines of a text report, and pictures, as one page.
"""
