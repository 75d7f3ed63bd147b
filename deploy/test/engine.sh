# Sourced by the scripts in this folder: paths, and a container engine of our own, so that nothing of the machine's is changed.
# shellcheck shell=sh
cache=$root/.cache/deploy
engine=$cache/engine
mkdir -p "$engine"

# Overlay needs support of the kernel and of the file system below; vfs works everywhere, but copies every layer.
storage_driver() {
  mkdir -p "$engine/probe/lower" "$engine/probe/upper" "$engine/probe/work" "$engine/probe/merged"
  if mount -t overlay overlay -o "lowerdir=$engine/probe/lower,upperdir=$engine/probe/upper,workdir=$engine/probe/work" \
    "$engine/probe/merged" 2>/dev/null; then
    umount "$engine/probe/merged"
    echo overlay
  else
    echo vfs
  fi
}

if [ ! -e "$engine/storage.conf" ]; then
  cat >"$engine/storage.conf.new" <<EOF
[storage]
driver = "$(storage_driver)"
runroot = "$engine/run"
graphroot = "$engine/storage"
EOF
  mv "$engine/storage.conf.new" "$engine/storage.conf"
  cat >"$engine/containers.conf" <<EOF
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
[network]
network_backend = "netavark"
network_config_dir = "$engine/networks"
EOF
fi
export CONTAINERS_STORAGE_CONF="$engine/storage.conf" CONTAINERS_CONF="$engine/containers.conf"
export BUILDAH_ISOLATION=chroot
