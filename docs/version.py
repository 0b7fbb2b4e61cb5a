"""Shows the version below each page of the site."""

from mkdocs.config.defaults import MkDocsConfig

from saltwise import __version__


def on_config(config: MkDocsConfig) -> None:
    config.copyright = f"Saltwise {__version__}"
