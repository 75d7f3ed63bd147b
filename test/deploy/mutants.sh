#!/bin/sh
# mutants.sh [PATTERN]: breaks the deployment files in one place after the other, and expects a test to fail each time. Run it after
# `make test-deploy`, in a clean working tree. PATTERN selects mutants by name.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
. deploy/test/engine.sh
chart=deploy/helm/tollgate
# Written by vitest as its configuration says.
results=$cache/test-results.json
survived=0

if [ -n "$(git status --porcelain)" ]; then
  echo "commit your changes first: mutants are undone with git checkout" >&2
  exit 1
fi
trap 'git checkout --quiet -- deploy monitoring .github' EXIT

# images FILE: builds the service image again if the file is part of it.
images() { case "$1" in deploy/docker/*) deploy/test/images.sh tollgate >/dev/null ;; esac; }

# mutant NAME FILE SED-EXPRESSION TEST-FILE TEST-NAME
mutant() {
  case "$1" in *"${pattern:-}"*) ;; *) return 0 ;; esac
  sed -i -E "$3" "$2"
  if git diff --quiet -- "$2"; then
    echo "NOT CHANGED  $1: $2 has nothing that matches $3"
    survived=1
    return 0
  fi
  images "$2"
  rm -f "$results"
  node_modules/.bin/vitest run --config test/deploy/vitest.config.ts "test/deploy/$4" -t "$5" >"$cache/mutant.log" 2>&1 || true
  git checkout --quiet -- "$2"
  images "$2"
  failed=$(node -p 'JSON.parse(require("fs").readFileSync(process.argv[1])).testResults
    .flatMap(({ assertionResults }) => assertionResults).filter(({ status }) => status === "failed").map(({ title }) => title)[0] ?? ""' "$results")
  if [ -n "$failed" ]; then echo "killed       $1: \"$failed\""; else
    echo "SURVIVED     $1"
    survived=1
  fi
}

pattern=${1:-}
mutant "a stale manifest" deploy/kubernetes/trial/pdb.yaml 's/maxUnavailable: 1/maxUnavailable: 2/' files "up to date"
mutant "a manifest with a wrong type" deploy/kubernetes/trial/deployment.yaml 's/replicas: 2/replicas: "two"/' files "Kubernetes 1.37"
mutant "a value that the schema does not know" $chart/values.yaml 's/^envoy_replicas:/envoy_replica:/' files "helm lint"
mutant "no readiness probe" $chart/templates/deployment.yaml '/readinessProbe:/,/failureThreshold/d' files "accepts the values for trial"
mutant "a grace period without the drain" $chart/templates/_helpers.tpl 's/\.Values\.drain_seconds/0/' files "grace period"
mutant "Redis open to nginx" $chart/templates/redis.yaml 's/"component" "service"/"component" "nginx"/' network-policies "Redis"
mutant "no default-deny policy" $chart/templates/networkpolicy.yaml 's/policyTypes: \[Ingress, Egress\]/policyTypes: []/' network-policies "Redis"
mutant "a workflow with all permissions" .github/workflows/ci.yml 's/permissions: \{ contents: read \}/permissions: write-all/' release "zizmor"
mutant "pods that may run as root" $chart/templates/_helpers.tpl 's/runAsNonRoot: true/runAsNonRoot: false/' kubernetes "values for trial"
mutant "an upgrade that stops a pod first" $chart/templates/deployment.yaml 's/maxUnavailable: 0/maxUnavailable: 1/' kubernetes "installs with|upgrades without"
mutant "a budget that allows everything" $chart/templates/pdb.yaml 's/maxUnavailable: .*/maxUnavailable: 100%/' kubernetes "installs with|evicted at a time"
mutant "an autoscaler without a maximum" $chart/templates/hpa.yaml 's/maxReplicas: .*/maxReplicas: 9/' kubernetes "installs with|scales out"
mutant "a variable that accepts anything" deploy/terraform/modules/tollgate/variables.tf 's/contains\(\[.*\], var\.environment\)/true/' terraform "environment=prod"
mutant "a wrong attribute of ElastiCache" deploy/terraform/modules/elasticache/main.tf 's/multi_az_enabled/multi_az/' terraform "are valid"
mutant "Redis without TLS" deploy/terraform/modules/elasticache/outputs.tf 's/rediss:/redis:/' terraform "invented replies"
mutant "a handler that does not restart" deploy/ansible/roles/tollgate/handlers/main.yml 's/state: restarted/state: started/' ansible "deploy a version|update to another"
mutant "planes that are not validated" deploy/ansible/roles/tollgate/files/check-plane.sh 's/nginx -t/nginx -v/' ansible "deploy a version|invalid for nginx"
mutant "planes that keep an old token" deploy/ansible/roles/tollgate/vars/main.yml 's/ \+ \[tollgate_render_environment\]//' ansible "deploy a version|changed token"
mutant "files of a plane for everybody" deploy/ansible/roles/tollgate/tasks/prepare.yml 's/g=rX,o=/g=rX,o=rX/' ansible "deploy a version|keep the admin token"
mutant "an image that runs as root" deploy/docker/Dockerfile 's/^USER 10001:10001/USER 0:0/' service-image "numeric user|without root"
mutant "an image that is killed when it stops" deploy/docker/Dockerfile 's/^STOPSIGNAL SIGTERM/STOPSIGNAL SIGKILL/' service-image "drain on SIGTERM"
mutant "three connections per pod" deploy/compose/tollgate.yaml 's/max_per_pod: 2/max_per_pod: 3/' compose "exactly two"
mutant "a Redis that forgets when it restarts" deploy/compose/make-secrets.sh 's/^user default off .*/user default off/' compose "keeps its data"
mutant "a service that is not scraped" monitoring/prometheus/targets/services.yml 's/tollgate-2:9145/tollgate-2:9/' compose "Prometheus"
exit "$survived"
