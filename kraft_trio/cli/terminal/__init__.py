"""What the commands share: option types, printing, progress, exit codes, and advice for what was mistyped."""
