"""The type checker of the test run: an int is accepted where a float is asked for, as Python's own types say."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
