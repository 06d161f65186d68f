"""What every other file may use: conventions, dtypes, refusals, lazy names. It imports the compiled module only."""
