"""One module per benchmark, each with a function `run() -> Report`."""
