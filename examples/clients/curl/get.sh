#!/bin/bash
# GET with curl that backs off: examples/clients/curl/get.sh URL [HEADER…]
# Waits as long as Retry-After says, plus jitter, and gives up after five attempts or 60 seconds. Prints the body; the exit code is 1 for
# a refusal. One request at a time, so its retry budget is the number of attempts.
set -euo pipefail
url=$1
shift
headers=()
for header in "$@"; do headers+=(--header "$header"); done
answer=$(mktemp -d)
trap 'rm -rf "$answer"' EXIT

for attempt in 1 2 3 4 5; do
  status=$(curl --silent --show-error --max-time 20 "${headers[@]}" --dump-header "$answer/head" --output "$answer/body" \
    --write-out '%{http_code}' "$url") || status=000
  case $status in
    2??) cat "$answer/body" && exit 0 ;;
    # Refused before anything was done, or no answer to a GET: it is safe to send it again.
    429 | 503 | 000) ;;
    *) cat "$answer/body" >&2 && exit 1 ;;
  esac
  seconds=$(sed -n 's/\r$//; s/^[Rr]etry-[Aa]fter: \([0-9]*\)$/\1/p' "$answer/head" 2>/dev/null || true)
  # 429 without Retry-After: the request costs more than the limit allows at all. To send it again cannot help.
  [ "$status" != 429 ] || [ -n "$seconds" ] || break
  # Without Retry-After: 1, 2, 4 … seconds. Jitter of up to a half keeps clients from coming back at the same moment.
  wait=$(awk -v s="${seconds:-$((2 ** (attempt - 1)))}" -v seed="$RANDOM$$" 'BEGIN { srand(seed); printf "%.2f", s * (1 + rand() / 2) }')
  { [ "$attempt" -lt 5 ] && [ "$((SECONDS + ${wait%.*}))" -lt 60 ]; } || break
  echo "refused ($status): next attempt in $wait s" >&2
  sleep "$wait"
done
[ ! -s "$answer/body" ] || cat "$answer/body" >&2
exit 1
