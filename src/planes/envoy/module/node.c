#define _GNU_SOURCE
/* Nodes: loading their script, waking the main thread, messages to it, and the answers to waiting requests. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "tollgate.h"

static struct node *nodes;

/* Of one node, at a time. Further requests are decided without waiting. */
enum { MAX_WAITERS = 65536 };

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

static void *alarm_clock(void *given) {
  struct node *node = given;
  pthread_mutex_lock(&node->lock);
  while (!node->alarm_stops) {
    double at = node->alarm_at;
    if (at == 0) pthread_cond_wait(&node->alarm_changed, &node->lock);
    else if (monotonic_ms() >= at) {
      node->alarm_at = 0;
      wake(node);
    } else {
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
  } else if (carried) {
    /* Envoy cancels its calls without a word: the main thread learns it here. */
    node->wake_sent = false;
    queue_add(&node->mail, "lost", 4);
    wake(node);
  }
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
FOR_LUA void tollgate_left(struct state *state) { state->plane->node->left = true; }

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
  pthread_mutex_unlock(&node->lock);
  if (config == NULL) return 0;
  enum abi_call_started started = CALLBACK(http_filter_config_http_callout)(
      config, &id, abi_text(cluster, cluster_size), headers, 4, abi_text(body, body_size), (uint64_t)timeout_ms);
  return started == ABI_CALL_STARTED ? (double)id : 0;
}

static struct waiter *waiter_of(struct node *node, double id) {
  if (id < 0) return NULL;
  size_t index = (size_t)((uint64_t)id % MAX_WAITERS);
  if (index >= node->waiter_count) return NULL;
  struct waiter *waiter = &node->waiters[index];
  bool current = waiter->phase != WAITER_FREE && waiter->generation == (uint32_t)((uint64_t)id / MAX_WAITERS);
  return current ? waiter : NULL;
}

static void free_waiter(struct waiter *waiter) {
  CALLBACK(http_filter_scheduler_delete)(waiter->scheduler);
  free(waiter->answer.data);
  memset(&waiter->answer, 0, sizeof waiter->answer);
  waiter->phase = WAITER_FREE;
  waiter->generation++;
}

static double new_waiter(struct state *state, int phase) {
  struct node *node = state->plane->node;
  if (state->filter == NULL) return -1;
  pthread_mutex_lock(&node->lock);
  size_t index = 0;
  while (index < node->waiter_count && node->waiters[index].phase != WAITER_FREE) index++;
  if (index == node->waiter_count && index < MAX_WAITERS) {
    size_t count = index == 0 ? 64 : index * 2;
    struct waiter *more = realloc(node->waiters, count * sizeof *more);
    if (more != NULL) {
      memset(more + index, 0, (count - index) * sizeof *more);
      node->waiters = more;
      node->waiter_count = count;
    }
  }
  double id = -1;
  if (index < node->waiter_count) {
    struct waiter *waiter = &node->waiters[index];
    waiter->scheduler = CALLBACK(http_filter_scheduler_new)(state->filter);
    waiter->phase = phase;
    id = (double)waiter->generation * MAX_WAITERS + (double)index;
  }
  pthread_mutex_unlock(&node->lock);
  return id;
}

/* The current request is going to wait. Returns a number for the answer; -1 if too many wait. */
FOR_LUA double tollgate_wait(struct state *state) {
  double id = new_waiter(state, WAITER_WAITS);
  if (id >= 0) state->stream->waiter = id;
  return id;
}

/* A number by which the main thread can close the current stream, until it ends. -1 if there are too many. */
FOR_LUA double tollgate_keep(struct state *state) {
  if (state->filter != NULL && state->stream->kept < 0) state->stream->kept = new_waiter(state, WAITER_KEPT);
  return state->filter == NULL ? -1 : state->stream->kept;
}

/* On the main thread: closes a stream. Does nothing if it has ended. */
FOR_LUA void tollgate_close(struct state *state, double id) {
  struct node *node = state->plane->node;
  pthread_mutex_lock(&node->lock);
  struct waiter *waiter = waiter_of(node, id);
  if (waiter != NULL && waiter->phase == WAITER_KEPT) {
    CALLBACK(http_filter_scheduler_commit)(waiter->scheduler, (uint64_t)id);
  }
  pthread_mutex_unlock(&node->lock);
}

void node_unkeep(struct node *node, struct stream *stream) {
  pthread_mutex_lock(&node->lock);
  struct waiter *waiter = waiter_of(node, stream->kept);
  if (waiter != NULL && waiter->phase == WAITER_KEPT) free_waiter(waiter);
  pthread_mutex_unlock(&node->lock);
  stream->kept = -1;
}

/* On the main thread. 0 if the request is gone. */
FOR_LUA int tollgate_answer(struct state *state, double id, const char *text, size_t size) {
  struct node *node = state->plane->node;
  pthread_mutex_lock(&node->lock);
  struct waiter *waiter = waiter_of(node, id);
  int delivered = 0;
  if (waiter != NULL && waiter->phase == WAITER_WAITS && text_set(&waiter->answer, text, size)) {
    waiter->phase = WAITER_ANSWERED;
    CALLBACK(http_filter_scheduler_commit)(waiter->scheduler, (uint64_t)id);
    delivered = 1;
  } else if (waiter != NULL && waiter->phase == WAITER_GONE) free_waiter(waiter);
  pthread_mutex_unlock(&node->lock);
  return delivered;
}

/* On the worker: the answer for the current request. 0 if there is none yet. */
FOR_LUA int tollgate_answered(struct state *state) {
  struct node *node = state->plane->node;
  pthread_mutex_lock(&node->lock);
  struct waiter *waiter = state->stream == NULL ? NULL : waiter_of(node, state->stream->waiter);
  int answered = waiter != NULL && waiter->phase == WAITER_ANSWERED &&
                 text_set(&state->copied, waiter->answer.data, waiter->answer.size);
  if (answered) {
    free_waiter(waiter);
    state->stream->waiter = -1;
    state->context.data = state->copied.data;
    state->context.size = (int)state->copied.size;
  }
  pthread_mutex_unlock(&node->lock);
  return answered;
}

/* The request ends while it waits. If it was answered meanwhile, Lua continues it; otherwise it is forgotten. */
void node_cancel(struct node *node, struct stream *stream) {
  pthread_mutex_lock(&node->lock);
  struct waiter *waiter = waiter_of(node, stream->waiter);
  bool answered = waiter != NULL && waiter->phase == WAITER_ANSWERED;
  if (waiter != NULL && !answered) waiter->phase = WAITER_GONE;
  pthread_mutex_unlock(&node->lock);
  struct state *state = stream->state;
  state_enter(state, stream);
  state->filter = NULL;
  if (answered) state_continue_request(state, stream);
  if (stream->thread != NULL) state_drop_thread(state, stream);
  state_leave(state);
}
