#!/bin/bash
# A gateway on localhost:8080 with a backend.
. "$(dirname "$0")/../common.sh"
start node dist/cli/main.js demo --backend 127.0.0.1:9001 >/dev/null
start node dist/cli/main.js serve --config examples/simple/tollgate.yaml
ready http://127.0.0.1:9145
running "The gateway is running on http://127.0.0.1:8080, the dashboard on http://127.0.0.1:9145."
