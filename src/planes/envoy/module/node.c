#define _GNU_SOURCE
/* Nodes: loading their script, waking the main thread, messages to it, and its calls to a service. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "tollgate.h"

static struct node *nodes;

void log_text(enum abi_log_level level, const char *format, ...) {
  char line[1024];
  va_list values;
  va_start(values, format);
  int size = vsnprintf(line, sizeof line, format, values);
  va_end(values);
  if (size < 0) return;
  CALLBACK(log)(level, abi_text(line, (size_t)size < sizeof line ? (size_t)size : sizeof line - 1));
}

double monotonic_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1000 + (double)now.tv_nsec / 1e6;
}

/* On the main thread. */
struct node *node_of(const char *path, size_t size) {
  for (struct node *node = nodes; node != NULL; node = node->next) {
    if (strlen(node->path) == size && memcmp(node->path, path, size) == 0) return node;
  }
  struct node *node = calloc(1, sizeof *node);
  if (node == NULL) return NULL;
  node->path = strndup(path, size);
  node->memory = memory_new();
  if (node->path == NULL || node->memory == NULL) return NULL;
  pthread_mutex_init(&node->lock, NULL);
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&node->alarm_changed, &attributes);
  node->next = nodes;
  nodes = node;
  return node;
}

static bool read_file(const char *path, struct text *into) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) return false;
  char part[65536];
  size_t size;
  bool fine = true;
  while (fine && (size = fread(part, 1, sizeof part, file)) > 0) fine = text_add(into, part, size);
  fine = fine && ferror(file) == 0 && into->size > 0;
  fclose(file);
  return fine;
}

/* On the main thread: loads the script if it has changed. If that fails, an earlier version stays in force. */
bool node_load(struct node *node) {
  struct stat file;
  struct text code = {NULL, 0, 0};
  if (stat(node->path, &file) != 0) {
    if (node->plane == NULL) log_text(ABI_LOG_ERROR, "tollgate: cannot read %s", node->path);
    return node->plane != NULL;
  }
  long long version[3] = {(long long)file.st_ino, (long long)file.st_mtim.tv_sec, (long long)file.st_mtim.tv_nsec};
  if (node->plane != NULL && memcmp(version, node->plane->version, sizeof version) == 0) return true;
  struct plane *plane = read_file(node->path, &code) ? plane_load(node, &code) : NULL;
  free(code.data);
  if (plane == NULL) {
    log_text(ABI_LOG_ERROR, "tollgate: cannot load %s", node->path);
    /* Not again before the file changes. */
    if (node->plane != NULL) memcpy(node->plane->version, version, sizeof version);
    return node->plane != NULL;
  }
  memcpy(plane->version, version, sizeof version);
  if (node->plane != NULL) {
    /* It hands its waiting requests over to the new one. */
    state_enter(node->plane->main, NULL);
    state_call(node->plane->main, "tollgate_retire", NULL, 0);
    state_leave(node->plane->main);
  }
  pthread_mutex_lock(&node->lock);
  if (node->plane != NULL) {
    node->plane->next = node->retired;
    node->retired = node->plane;
  }
  node->plane = plane;
  pthread_mutex_unlock(&node->lock);
  log_text(ABI_LOG_INFO, "tollgate: loaded %s", node->path);
  return true;
}

/* With the lock. */
static void wake(struct node *node) {
  if (node->wake_sent || node->configs == NULL) return;
  node->wake_sent = true;
  CALLBACK(http_filter_config_scheduler_commit)(node->configs->scheduler, 1);
}

/* The main thread may be busy for seconds, with its own work or that of Envoy. */
static void *alarm_clock(void *given) {
  struct node *node = given;
  pthread_mutex_lock(&node->lock);
  while (!node->alarm_stops) {
    waiters_expire(node);
    double at = node->alarm_at;
    if (node->next_due != 0 && (at == 0 || node->next_due < at)) at = node->next_due;
    if (node->alarm_at != 0 && monotonic_ms() >= node->alarm_at) {
      node->alarm_at = 0;
      wake(node);
    } else if (at == 0) pthread_cond_wait(&node->alarm_changed, &node->lock);
    else {
      struct timespec until = {(time_t)(at / 1000), 0};
      until.tv_nsec = (long)((at - (double)until.tv_sec * 1000) * 1e6);
      pthread_cond_timedwait(&node->alarm_changed, &node->lock, &until);
    }
  }
  pthread_mutex_unlock(&node->lock);
  return NULL;
}

/* On the main thread. The newest configuration carries the calls of the node. */
void node_add(struct node *node, struct config *config) {
  pthread_mutex_lock(&node->lock);
  config->serial = ++node->config_count;
  config->next = node->configs;
  node->configs = config;
  node->alarm_at = monotonic_ms();
  node->wake_sent = false;
  if (!node->alarm_running) {
    node->alarm_stops = false;
    node->alarm_running = pthread_create(&node->alarm_thread, NULL, alarm_clock, node) == 0;
  }
  pthread_cond_signal(&node->alarm_changed);
  pthread_mutex_unlock(&node->lock);
}

void node_remove(struct config *config) {
  struct node *node = config->node;
  pthread_mutex_lock(&node->lock);
  struct config **place = &node->configs;
  while (*place != config) place = &(*place)->next;
  bool carried = place == &node->configs;
  *place = config->next;
  bool stops = node->configs == NULL && node->alarm_running;
  if (stops) {
    node->alarm_stops = true;
    node->alarm_running = false;
  }
  if (carried) node->wake_sent = false;
  /* Envoy cancels its calls without a word: the main thread learns it here, or when another configuration is added. */
  char lost[32];
  int size = snprintf(lost, sizeof lost, "lost %.0f", config->serial);
  queue_add(&node->mail, lost, (size_t)size);
  wake(node);
  pthread_cond_signal(&node->alarm_changed);
  pthread_mutex_unlock(&node->lock);
  if (stops) pthread_join(node->alarm_thread, NULL);
}

/* On the main thread: it was woken. */
void node_woken(struct node *node) {
  pthread_mutex_lock(&node->lock);
  node->wake_sent = false;
  pthread_mutex_unlock(&node->lock);
  if (!node->leaving) node_load(node);
  state_enter(node->plane->main, NULL);
  bool fine = state_call(node->plane->main, "tollgate_wake", NULL, 0);
  state_leave(node->plane->main);
  if (fine) return;
  pthread_mutex_lock(&node->lock);
  if (node->alarm_at == 0) node->alarm_at = monotonic_ms() + 100;
  pthread_cond_signal(&node->alarm_changed);
  pthread_mutex_unlock(&node->lock);
}

/* Called by Lua. */

/* The main thread wants to be woken in so many milliseconds. */
FOR_LUA void tollgate_alarm(struct state *state, double milliseconds) {
  struct node *node = state->plane->node;
  pthread_mutex_lock(&node->lock);
  node->alarm_at = monotonic_ms() + milliseconds;
  if (node->leave_by != 0 && node->alarm_at > node->leave_by) node->alarm_at = node->leave_by;
  pthread_cond_signal(&node->alarm_changed);
  pthread_mutex_unlock(&node->lock);
}

/* A message to the main thread. */
FOR_LUA int tollgate_tell(struct state *state, const char *text, size_t size) {
  struct node *node = state->plane->node;
  pthread_mutex_lock(&node->lock);
  bool queued = queue_add(&node->mail, text, size);
  if (queued) wake(node);
  pthread_mutex_unlock(&node->lock);
  return queued;
}

/* The next message. */
FOR_LUA int tollgate_message(struct state *state) {
  struct node *node = state->plane->node;
  pthread_mutex_lock(&node->lock);
  struct item *item = queue_take(&node->mail);
  pthread_mutex_unlock(&node->lock);
  if (item == NULL) return 0;
  bool copied = text_set(&state->copied, item->data, item->size);
  free(item);
  state->context.data = state->copied.data;
  state->context.size = (int)state->copied.size;
  return copied;
}

static void tick(struct plane *plane) {
  pthread_mutex_lock(&plane->node->lock);
  struct state *state = plane->workers;
  pthread_mutex_unlock(&plane->node->lock);
  for (; state != NULL; state = state->next) {
    state_enter(state, NULL);
    state_call(state, "tollgate_tick", NULL, 0);
    state_leave(state);
  }
}

/* Calls the script's tick function in the states of all workers, which have no timers. Only on the main thread. */
FOR_LUA void tollgate_tick_workers(struct state *main) {
  struct node *node = main->plane->node;
  tick(main->plane);
  for (struct plane **place = &node->retired; *place != NULL;) {
    struct plane *plane = *place;
    bool unused = atomic_load(&plane->streams) == 0;
    tick(plane);
    if (unused) {
      *place = plane->next;
      plane_free(plane);
    } else place = &plane->next;
  }
}

/* Exchanges that have not ended are settled with the bytes that have passed until now: Envoy interrupts them. */
static void settle_open(struct plane *plane) {
  pthread_mutex_lock(&plane->node->lock);
  struct state *state = plane->workers;
  pthread_mutex_unlock(&plane->node->lock);
  for (; state != NULL; state = state->next) {
    state_enter(state, NULL);
    for (struct stream *stream = atomic_load(&state->all_streams); stream != NULL; stream = stream->next) {
      double arguments[] = {stream->number, 0, 0};
      /* The worker may be counting. */
      __atomic_load(&stream->request_bytes, &arguments[1], __ATOMIC_RELAXED);
      __atomic_load(&stream->response_bytes, &arguments[2], __ATOMIC_RELAXED);
      state_call(state, "tollgate_end", arguments, 3);
    }
    state_leave(state);
  }
}

/* On the main thread. Workers reset new requests from now on. */
void nodes_leave(double until) {
  for (struct node *node = nodes; node != NULL; node = node->next) {
    pthread_mutex_lock(&node->lock);
    bool works = node->plane != NULL && node->configs != NULL;
    node->leave_by = until;
    node->left = !works;
    pthread_mutex_unlock(&node->lock);
    atomic_store(&node->leaving, true);
    if (!works) continue;
    settle_open(node->plane);
    for (struct plane *plane = node->retired; plane != NULL; plane = plane->next) settle_open(plane);
    tollgate_tick_workers(node->plane->main);
    state_enter(node->plane->main, NULL);
    if (!state_call(node->plane->main, "tollgate_leave", NULL, 0)) node->left = true;
    state_leave(node->plane->main);
  }
}

bool nodes_have_left(void) {
  for (struct node *node = nodes; node != NULL; node = node->next) {
    if (!node->left) return false;
  }
  return true;
}

/* Everything is returned. */
FOR_LUA void tollgate_left(struct state *state) {
  struct node *node = state->plane->node;
  size_t waiting = waiters_in_use(node);
  if (waiting > 0) log_text(ABI_LOG_WARN, "tollgate: exits while %zu requests or WebSockets are not finished", waiting);
  node->left = true;
}

/* Envoy numbers the calls of each configuration. */
double call_number(double serial, uint64_t id) { return serial * CALLS_OF_CONFIG + (double)id; }

/* A call to a service, answered by the function `tollgate_replied` with the same number. 0 if it cannot be made. */
FOR_LUA double tollgate_call(struct state *state, const char *cluster, size_t cluster_size, const char *path,
                             size_t path_size, const char *body, size_t body_size, double timeout_ms) {
  static const char HOST[] = "localhost", POST[] = "POST", PLAIN[] = "text/plain";
  struct abi_header headers[] = {{":method", 7, POST, sizeof POST - 1},
                                 {":path", 5, path, path_size},
                                 {":authority", 10, HOST, sizeof HOST - 1},
                                 {"content-type", 12, PLAIN, sizeof PLAIN - 1}};
  struct node *node = state->plane->node;
  uint64_t id = 0;
  pthread_mutex_lock(&node->lock);
  void *config = node->configs == NULL ? NULL : node->configs->envoy;
  double serial = config == NULL ? 0 : node->configs->serial;
  pthread_mutex_unlock(&node->lock);
  if (config == NULL) return 0;
  enum abi_call_started started = CALLBACK(http_filter_config_http_callout)(
      config, &id, abi_text(cluster, cluster_size), headers, 4, abi_text(body, body_size), (uint64_t)timeout_ms);
  return started == ABI_CALL_STARTED ? call_number(serial, id) : 0;
}
