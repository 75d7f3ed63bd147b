#!/bin/sh
# Stand-in for systemctl where no systemd runs: starts what the unit says as its user without capabilities, but without its other
# restrictions. State is in $UNITS_STATE.
set -eu
verb="" unit=""
for word in "$@"; do
  case "$word" in
    -*) ;;
    *) if [ -z "$verb" ]; then verb=$word; else unit=${word%.service}; fi ;;
  esac
done
file=/etc/systemd/system/$unit.service
pid=$UNITS_STATE/$unit.pid
running() { [ -e "$pid" ] && kill -0 "$(cat "$pid")" 2>/dev/null; }
option() { sed -n "s/^$1=//p" "$file"; }
as_user="setpriv --reuid=tollgate --regid=tollgate --init-groups --no-new-privs --inh-caps=-all --bounding-set=-all --"
each() { option "$1" | while read -r line; do eval "$as_user ${line#-}" >>"$UNITS_STATE/$unit.log" 2>&1; done; }
stop() {
  if running; then
    each ExecStop
    signal=$(option KillSignal)
    : "${signal:=SIGTERM}"
    kill -s "${signal#SIG}" "$(cat "$pid")"
    while running; do sleep 0.1; done
  fi
  rm -f "$pid"
}
start() {
  echo "$verb $unit" >>"$UNITS_STATE/calls"
  folder=$(option RuntimeDirectory)
  [ -z "$folder" ] || install -d -o tollgate -g tollgate "/run/$folder"
  set -a
  eval "$(option Environment)"
  each ExecStartPre
  environment=$(option EnvironmentFile)
  [ -z "$environment" ] || . "$environment"
  set +a
  eval "exec $as_user $(option ExecStart)" </dev/null >>"$UNITS_STATE/$unit.log" 2>&1 &
  echo $! >"$pid"
}
case "$verb" in
  daemon-reload) ;;
  show)
    if [ -e "$file" ]; then echo LoadState=loaded; else echo LoadState=not-found; fi
    if running; then echo ActiveState=active; else echo ActiveState=inactive; fi
    ;;
  is-active) running ;;
  is-enabled) if [ -e "$UNITS_STATE/$unit.enabled" ]; then echo enabled; else echo disabled; exit 1; fi ;;
  enable) touch "$UNITS_STATE/$unit.enabled" ;;
  start) running || start ;;
  restart) stop; start ;;
  stop) stop ;;
  *) echo "systemctl.sh: $verb is not supported" >&2; exit 1 ;;
esac
