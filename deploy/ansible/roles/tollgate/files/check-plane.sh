# Run with `sh -c`: $0 is nginx or envoy, the arguments are the command that renders, standard input is the configuration. Lets the
# plane validate what is rendered from it, as the user that will run it, and leaves nothing behind.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/tollgate.yaml"
[ "$0" != nginx ] || set -- "$@" --run "$folder"
"$@" --config "$folder/tollgate.yaml" --out "$folder/files" >/dev/null
chown -R tollgate: "$folder"
if [ "$0" = nginx ]; then
  runuser -u tollgate -- /usr/sbin/nginx -t -q -e stderr -c "$folder/files/nginx.conf"
else
  runuser -u tollgate -- envoy --mode validate -l error -c "$folder/files/envoy.yaml" >/dev/null
fi
