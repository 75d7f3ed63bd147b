#!/bin/sh
# Entrypoint of the images.
#
#   serve    validate the configuration and run the service (default of the service image)
#   nginx    render and validate the configuration of nginx, and run it (default of the nginx image)
#   envoy    the same for Envoy (default of the Envoy image)
#   health   exit code 0 if what runs in this container is live ("health"), ready ("health ready") or, for a service, serving
#   drain    before a container is stopped: make Envoy fail its health checks, then wait for DRAIN_SECONDS (default 5), so
#            that no new connections arrive
#   other    any command of tollgate, for example "check-config FILE"
#
# Arguments after nginx and envoy are passed to `tollgate render`. Variables:
#   TOLLGATE_CONFIG          the configuration (default /etc/tollgate/tollgate.yaml)
#   TOLLGATE_SERVICES        control listeners of the services for nginx and Envoy: "host:port host:port"
#   TOLLGATE_ENVOY_MODE      module (default): Envoy decides in its dynamic module. rls: it calls the services for each request
#   TOLLGATE_ENVOY_SERVICES  for rls: the listeners of the services for Envoy
#   TOLLGATE_WORKERS         worker processes of nginx, threads of Envoy (default 2)
#   TOLLGATE_WATCH_SECONDS   how often nginx and Envoy are checked for a changed configuration or DNS answer (default 5)
#   NAME_FILE                a file with the value of NAME, for secrets
set -eu

config=${TOLLGATE_CONFIG:-/etc/tollgate/tollgate.yaml}
run=/var/lib/tollgate

log() { echo "docker-entrypoint.sh: $1" >&2; }
fail() {
  log "$1"
  exit 1
}

read_secrets() {
  for name in TOLLGATE_ADMIN_TOKEN TOLLGATE_PLANE_TOKEN REDIS_PASSWORD; do
    eval "file=\${${name}_FILE:-}"
    [ -n "$file" ] || continue
    [ -r "$file" ] || fail "${name}_FILE: $file cannot be read"
    value=$(cat "$file")
    [ -n "$value" ] || fail "${name}_FILE: $file is empty"
    export "$name=$value"
  done
}

# The name server of this container, for names that nginx resolves itself.
name_server() { awk '$1 == "nameserver" { print $2; exit }' /etc/resolv.conf; }

# render FOLDER ARGUMENT...: writes the files of the plane to the folder, to be used there.
render() {
  to=$1
  shift
  set -- --config "$config" --out "$to" --workers "${TOLLGATE_WORKERS:-2}" --resolve "$@"
  for service in ${TOLLGATE_SERVICES:-}; do set -- "$@" --service "$service"; done
  if [ "$plane" = nginx ]; then
    server=$(name_server)
    [ -z "$server" ] || set -- --resolver "$server" "$@"
    # Not root: nginx cannot raise this limit.
    files=$(ulimit -Hn)
    [ "$files" = unlimited ] || set -- --open-files "$files" "$@"
    tollgate render nginx --run "$to" --status 0.0.0.0:9146 "$@" >/dev/null
  else
    mode=${TOLLGATE_ENVOY_MODE:-module}
    if [ "$mode" = rls ]; then
      for service in ${TOLLGATE_ENVOY_SERVICES:-}; do set -- "$@" --envoy-service "$service"; done
    fi
    tollgate render envoy --mode "$mode" --listen 0.0.0.0:8080 "$@" >/dev/null
  fi
}

# Renders to another folder and lets the plane validate all of it.
check() {
  rm -rf "$run/check"
  render "$run/check" "$@" || return 1
  if [ "$plane" = nginx ]; then
    nginx -t -q -c "$run/check/nginx.conf"
  else
    envoy --mode validate -l error -c "$run/check/envoy.yaml" >/dev/null
  fi
}

# Envoy gets files that it reloads when they are replaced.
write() {
  if [ "$plane" = nginx ]; then render "$run" "$@"; else render "$run" --dynamic "$@"; fi
}

# Changes when the configuration or the address of a name in it changes.
state() {
  cksum <"$config"
  while read -r name _; do
    echo "$name" "$(getent ahosts "$name" | awk '{ print $1 }' | sort -u | tr '\n' ' ')"
  done <"$run/addresses.txt"
}

# Applies changes of the configuration and of addresses. An invalid configuration changes nothing.
watch() {
  last=$1
  shift
  while sleep "${TOLLGATE_WATCH_SECONDS:-5}"; do
    next=$(state) || continue
    [ "$next" != "$last" ] || continue
    last=$next
    if check "$@" && write "$@"; then
      [ "$plane" = envoy ] || kill -HUP "$(cat "$run/nginx.pid")"
      log "applied the changed configuration"
    else
      log "the change was not applied"
    fi
  done
}

run_plane() {
  plane=$1
  shift
  # The configuration may name a user of the store. Planes do not use it, and must not have its password.
  export REDIS_PASSWORD="${REDIS_PASSWORD:-not-used-by-planes}"
  [ -w "$run" ] || fail "$run is not writable: mount an empty volume there"
  # The names of backends may not exist yet when this container starts.
  attempts=30
  until check "$@"; do
    attempts=$((attempts - 1))
    [ "$attempts" -gt 0 ] || fail "the configuration is invalid, or a name in it cannot be resolved"
    sleep 1
  done
  write "$@"
  [ "$plane" = envoy ] || ln -sf /dev/stderr "$run/error.log"
  [ "$plane" = envoy ] || ln -sf /dev/stdout "$run/access.log"
  watch "$(state)" "$@" &
  # The plane replaces this shell, so that it gets the signals.
  if [ "$plane" = nginx ]; then
    exec nginx -c "$run/nginx.conf" -g "daemon off;"
  fi
  exec envoy -c "$run/envoy.yaml" --concurrency "${TOLLGATE_WORKERS:-2}" --disable-hot-restart --drain-time-s 10 \
    -l "${ENVOY_LOG_LEVEL:-warning}"
}

# call METHOD URL [SOCKET]: succeeds if the response is 200.
call() {
  node -e '
    const [method, url, socketPath] = process.argv.slice(1);
    const request = require("node:http").request(url, { method, socketPath, timeout: 4000 }, (response) => {
      response.resume();
      if (response.statusCode === 200) return;
      console.error(`${url}: ${response.statusCode}`);
      process.exitCode = 1;
    });
    request.on("timeout", () => request.destroy(new Error("timeout")));
    request.on("error", (error) => {
      console.error(`${url}: ${error.message}`);
      process.exitCode = 1;
    });
    request.end();
  ' "$@"
}
envoy_admin() { call "$1" "http://localhost$2" "$run/admin.sock"; }

health() {
  check=${1:-live}
  case "${TOLLGATE_PLANE:-}" in
    nginx) call GET "http://127.0.0.1:9146/health/$check" ;;
    envoy) envoy_admin GET /ready ;;
    *)
      read_secrets
      exec tollgate health "$check" --config "$config"
      ;;
  esac
}

command=${1:-serve}
[ $# -eq 0 ] || shift
case "$command" in
  serve | nginx | envoy)
    [ -r "$config" ] || fail "there is no configuration: mount it as $config, or set TOLLGATE_CONFIG"
    read_secrets
    [ "$command" = serve ] || run_plane "$command" "$@"
    exec tollgate serve --config "$config" "$@"
    ;;
  health) health "$@" ;;
  drain)
    [ "${TOLLGATE_PLANE:-}" != envoy ] || envoy_admin POST /healthcheck/fail || true
    sleep "${DRAIN_SECONDS:-5}"
    ;;
  *)
    read_secrets
    exec tollgate "$command" "$@"
    ;;
esac
