"""The bulk load: `input` is read once by tasks, which write `pieces`; `rules` over all rows are checked by `numbers`.

`operation` is the whole as one operation of the commit protocol, and `quarantine` what it does with bad rows.
"""
