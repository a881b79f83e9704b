"""Starts the report of a program's training steps, then the `sitecustomize` that this file hides."""

import importlib.machinery
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))

try:
    import epochcost_profile

    epochcost_profile.install()
except Exception as error:  # The program runs whatever happens here.
    print(f"epochcost: the steps are not reported: {error!r}", file=sys.stderr)

_others = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _here]
_spec = importlib.machinery.PathFinder.find_spec("sitecustomize", _others)
if _spec is not None and _spec.loader is not None:
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["sitecustomize"] = _module
    _spec.loader.exec_module(_module)
