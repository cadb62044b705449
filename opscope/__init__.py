"""opscope: a test-and-regression harness for ML compilers."""

from opscope.base import old_names
from opscope.base.places import HOME

if str(HOME) not in __path__:  # the rooms of a checkout lie beside this folder
    __path__.append(str(HOME))

old_names.install()
