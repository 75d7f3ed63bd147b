#!/bin/sh
# Creates the secrets of docker-compose.prod.yml in deploy/compose/secrets: tokens, the password and ACL of Redis, and a CA with a
# certificate for Redis. Existing files are kept, so that it can be run again. Only your user can enter the folder; within it the files
# are readable for the users of the containers, because Compose mounts them as they are.
set -eu
umask 077
mkdir -p "$(dirname "$0")/secrets"
cd "$(dirname "$0")/secrets"
redis=${REDIS_SERVICE_NAME:-redis-connection-tracker}

random() { head -c 30 /dev/urandom | base64 | tr '+/' '-_' | tr -d '\n'; }
for name in admin-token plane-token redis-password; do
  [ -s "$name" ] || random >"$name"
done

# The user of Tollgate may use its own keys and channels, and the commands that its functions run. Nobody can log in as the user "default".
# It may do everything because Redis loads the append-only file as that user, and otherwise drops what functions wrote.
if [ ! -s redis-acl ]; then
  hash=$(printf %s "$(cat redis-password)" | sha256sum | cut -d ' ' -f 1)
  cat >redis-acl <<EOF
user default off ~* &* +@all
user tollgate on #$hash ~ratelimit:* ~ws:* &ratelimit:* +@read +@write +@connection +@pubsub -@dangerous +fcall +function|load +function|list +function|delete +time +info +config|get
EOF
fi

if [ ! -s redis-cert.pem ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj "/CN=tollgate redis CA" \
    -keyout redis-ca-key.pem -out redis-ca.pem 2>/dev/null
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$redis" -keyout redis-key.pem -out redis.csr 2>/dev/null
  printf 'subjectAltName=DNS:%s\nextendedKeyUsage=serverAuth\n' "$redis" >redis.ext
  openssl x509 -req -in redis.csr -CA redis-ca.pem -CAkey redis-ca-key.pem -CAcreateserial -days 825 -extfile redis.ext \
    -out redis-cert.pem 2>/dev/null
  rm -f redis.csr redis.ext redis-ca.srl
fi

chmod 444 admin-token plane-token redis-password redis-acl redis-ca.pem redis-cert.pem redis-key.pem
