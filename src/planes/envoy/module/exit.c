/*
 * The bootstrap extension: it is told when Envoy exits, and Envoy waits for it. Tokens and slots are returned meanwhile. Envoy
 * requires all hooks of a bootstrap extension.
 */
#include <stddef.h>

#include "tollgate.h"

#define ON(name) envoy_dynamic_module_on_bootstrap_extension_##name

/* Envoy exits after this time, even if no service replies. */
static const double LONGEST_MS = 3000;

typedef void (*done)(void *context);

static struct {
  done call;
  void *context;
  double until;
} leaving;

/* Envoy only compares pointers with NULL. */
static const char extension;

HOOK const void *ON(config_new)(void *envoy, struct abi_buffer name, struct abi_buffer given) {
  (void)name, (void)given;
  CALLBACK(bootstrap_extension_config_signal_init_complete)(envoy);
  return &extension;
}

HOOK const void *ON(new)(const void *config, void *envoy) {
  (void)envoy;
  return config;
}

/* On the main thread. After a second signal Envoy exits at once. */
HOOK void ON(shutdown)(void *envoy, const void *given, done call, void *context) {
  (void)envoy, (void)given;
  if (leaving.call != NULL) {
    call(context);
    return;
  }
  leaving.call = call;
  leaving.context = context;
  leaving.until = monotonic_ms() + LONGEST_MS;
  nodes_leave(leaving.until);
  exit_continue();
}

void exit_continue(void) {
  if (leaving.context == NULL || (!nodes_have_left() && monotonic_ms() < leaving.until)) return;
  void *context = leaving.context;
  leaving.context = NULL;
  leaving.call(context);
}

#pragma GCC diagnostic ignored "-Wunused-parameter"
HOOK void ON(config_destroy)(const void *config) {}
HOOK void ON(destroy)(const void *given) {}
HOOK void ON(server_initialized)(void *envoy, const void *given) {}
HOOK void ON(worker_thread_initialized)(void *envoy, const void *given) {}
HOOK void ON(drain_started)(void *envoy, const void *given) {}
HOOK void ON(config_scheduled)(void *envoy, const void *config, uint64_t event) {}
HOOK void ON(http_callout_done)(void *envoy, const void *config, uint64_t id, int result, void *headers, size_t count,
                                void *chunks, size_t chunk_count) {}
HOOK void ON(timer_fired)(void *envoy, const void *config, void *timer) {}
HOOK void ON(file_changed)(void *envoy, const void *config, struct abi_buffer path, uint32_t events) {}
HOOK uint32_t ON(admin_request)(void *envoy, const void *config, struct abi_buffer method, struct abi_buffer path,
                                struct abi_buffer body) {
  return 404;
}
HOOK void ON(cluster_add_or_update)(void *envoy, const void *config, struct abi_buffer name) {}
HOOK void ON(cluster_removal)(void *envoy, const void *config, struct abi_buffer name) {}
HOOK void ON(listener_add_or_update)(void *envoy, const void *config, struct abi_buffer name) {}
HOOK void ON(listener_removal)(void *envoy, const void *config, struct abi_buffer name) {}
