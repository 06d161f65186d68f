"""What every other file may use: constants, conventions, dtypes, refusals. It imports the compiled module only."""
