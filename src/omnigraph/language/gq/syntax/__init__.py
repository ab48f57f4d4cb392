"""The grammar of `.gq`, its syntax tree, and how the parser builds one from the other."""
