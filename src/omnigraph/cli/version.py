"""`omnigraph version`: this program and the format that it writes."""

from omnigraph import __version__
from omnigraph.cli.arguments import Json
from omnigraph.cli.output import say, say_json


def version(json: Json = False) -> None:
    """Print the version of this program and of its format.

    $ omnigraph version
    """
    from omnigraph.manifest.stamp import CURRENT

    if json:
        say_json({"version": __version__, "internal_schema_version": CURRENT})
        return
    say(f"omnigraph {__version__}")
    say(f"internal-schema {CURRENT}")
