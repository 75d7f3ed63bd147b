#!/bin/bash
# Two clusters on one Redis: eu with its gateway on localhost:8081, us on localhost:8082.
. "$(dirname "$0")/../common.sh"
start redis-server --port 6390 --save "" --appendonly no --maxmemory-policy noeviction --loglevel warning
start node dist/cli/main.js demo --backend 127.0.0.1:9001 >/dev/null
start node dist/cli/main.js serve --config examples/advanced/eu.yaml
start node dist/cli/main.js serve --config examples/advanced/us.yaml
ready http://127.0.0.1:9145 http://127.0.0.1:9155
running "The gateways are running: cluster eu on http://127.0.0.1:8081, cluster us on http://127.0.0.1:8082."
