"""Pipeline schedules as data: the table, its checks, and the published ones. Knows no tensor, module or rank group."""
