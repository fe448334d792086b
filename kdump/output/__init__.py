"""Files that kdump makes, beside those of a broker: their place, their rights, how they appear.

files        The files of states: where they may be, whose rights write them, how they are replaced.
upload       New objects in a store, visible once closed.
destination  The directory or prefix that new files appear in: a new one of an export, or one that
             grows.
"""
