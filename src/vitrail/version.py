"""One place for the version, for everyone: the package, the build, the files that are written."""

__version__ = "0.1.0"
