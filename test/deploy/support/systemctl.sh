#!/bin/sh
# Stand-in for systemctl where no systemd runs: starts what the unit says, without its restrictions. State is in $UNITS_STATE.
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
stop() {
  ! running || { kill "$(cat "$pid")"; while running; do sleep 0.1; done; }
  rm -f "$pid"
}
start() {
  set -a
  . "$(sed -n 's/^EnvironmentFile=//p' "$file")"
  set +a
  $(sed -n 's/^ExecStart=//p' "$file") </dev/null >>"$UNITS_STATE/$unit.log" 2>&1 &
  echo $! >"$pid"
  echo "$verb $unit" >>"$UNITS_STATE/calls"
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
