#!/bin/bash
# Two Envoys in front of two WebSocket pods, with one service and Redis. Envoy: TOLLGATE_ENVOY, or the one in .cache (build/ensure-envoy.sh).
# Its dynamic module: in ENVOY_DYNAMIC_MODULES_SEARCH_PATH, or the one in .cache.
. "$(dirname "$0")/../common.sh"
build/ensure-envoy.sh
export ENVOY_DYNAMIC_MODULES_SEARCH_PATH=${ENVOY_DYNAMIC_MODULES_SEARCH_PATH:-$PWD/.cache/envoy-module/release}
envoy=${TOLLGATE_ENVOY:-$(printf "%s\n" .cache/envoy/*/envoy/_bin/envoy | sort -V | tail -n 1)}
export TOLLGATE_PLANE_TOKEN=${TOLLGATE_PLANE_TOKEN:-replace-this-token-of-the-planes}
export TOLLGATE_ADMIN_TOKEN=${TOLLGATE_ADMIN_TOKEN:-replace-this-token-of-admins}
here=examples/envoy-websockets
files=$(mktemp -d)

start redis-server --port 6379 --save "" --appendonly no --maxmemory-policy noeviction --loglevel warning
start node_modules/.bin/tsx "$here/pods.ts" >/dev/null
start node dist/cli/main.js serve --config "$here/tollgate.yaml"
ready http://127.0.0.1:9145
for name in a b; do
  port=$([ $name = a ] && echo 8081 || echo 8082)
  node dist/cli/main.js render envoy --config "$here/tollgate.yaml" --out "$files/$name" --node "envoy-$name" --listen "127.0.0.1:$port" --workers 2 >/dev/null
  start "$envoy" -c "$files/$name/envoy.yaml" --use-dynamic-base-id --concurrency 2 -l error
  until curl --silent --output /dev/null "127.0.0.1:$port/"; do sleep 0.1; done
done
running "The Envoys are running: ws://127.0.0.1:8081/ws/ and ws://127.0.0.1:8082/ws/."
