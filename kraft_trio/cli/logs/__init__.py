"""Commands on the log: `kraft log`, `kraft dump-log` and `kraft records`."""
