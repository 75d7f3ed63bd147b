/* Requests that wait for an answer of the main thread, and connections that it may close. */
#include <stdlib.h>
#include <string.h>

#include "tollgate.h"

/* Of one node, at a time. Further requests are decided without waiting. */
enum { MAX_WAITERS = 65536, FIRST_WAITERS = 64 };

static struct waiter *waiter_of(struct node *node, double id) {
  if (id < 0) return NULL;
  size_t index = (size_t)((uint64_t)id % MAX_WAITERS);
  if (index >= node->waiter_count) return NULL;
  struct waiter *waiter = &node->waiters[index];
  bool current = waiter->phase != WAITER_FREE && waiter->generation == (uint32_t)((uint64_t)id / MAX_WAITERS);
  return current ? waiter : NULL;
}

static double id_of(struct node *node, struct waiter *waiter) {
  return (double)waiter->generation * MAX_WAITERS + (double)(waiter - node->waiters);
}

static void add_free(struct node *node, size_t index) {
  node->waiters[index].next_free = node->free_waiters;
  node->free_waiters = index + 1;
}

static void free_waiter(struct node *node, struct waiter *waiter) {
  CALLBACK(http_filter_scheduler_delete)(waiter->scheduler);
  free(waiter->answer.data);
  memset(&waiter->answer, 0, sizeof waiter->answer);
  waiter->phase = WAITER_FREE;
  waiter->generation++;
  add_free(node, (size_t)(waiter - node->waiters));
}

static void more_waiters(struct node *node) {
  size_t old = node->waiter_count, count = old == 0 ? FIRST_WAITERS : old * 2;
  if (count > MAX_WAITERS) return;
  struct waiter *more = realloc(node->waiters, count * sizeof *more);
  if (more == NULL) return;
  memset(more + old, 0, (count - old) * sizeof *more);
  node->waiters = more;
  node->waiter_count = count;
  for (size_t index = count; index > old; index--) add_free(node, index - 1);
}

static double new_waiter(struct state *state, int phase, double due) {
  struct node *node = state->plane->node;
  if (state->filter == NULL) return -1;
  pthread_mutex_lock(&node->lock);
  if (node->free_waiters == 0) more_waiters(node);
  double id = -1;
  if (node->free_waiters != 0) {
    size_t index = node->free_waiters - 1;
    struct waiter *waiter = &node->waiters[index];
    node->free_waiters = waiter->next_free;
    waiter->scheduler = CALLBACK(http_filter_scheduler_new)(state->filter);
    waiter->phase = phase;
    waiter->due = due;
    if (due != 0 && (node->next_due == 0 || due < node->next_due)) {
      node->next_due = due;
      pthread_cond_signal(&node->alarm_changed);
    }
    if (phase == WAITER_KEPT) node->kept_count++;
    id = id_of(node, waiter);
  }
  pthread_mutex_unlock(&node->lock);
  return id;
}

/*
 * The current request is going to wait. Returns a number for the answer; -1 if too many wait. If the main thread has not
 * answered after so many milliseconds, the request continues without an answer; 0: it waits until then.
 */
FOR_LUA double tollgate_wait(struct state *state, double milliseconds) {
  /* An earlier one was not used, or is already forgotten. */
  if (state->filter != NULL) waiter_release(state->plane->node, state->stream);
  double id = new_waiter(state, WAITER_WAITS, milliseconds == 0 ? 0 : monotonic_ms() + milliseconds);
  if (id >= 0) state->stream->waiter = id;
  return id;
}

/* A number by which the main thread can close the current stream, until it ends. -1 if there are too many. */
FOR_LUA double tollgate_keep(struct state *state) {
  if (state->filter != NULL && state->stream->kept < 0) state->stream->kept = new_waiter(state, WAITER_KEPT, 0);
  return state->filter == NULL ? -1 : state->stream->kept;
}

size_t waiters_in_use(struct node *node) {
  size_t count = 0;
  pthread_mutex_lock(&node->lock);
  for (size_t index = 0; index < node->waiter_count; index++) count += node->waiters[index].phase != WAITER_FREE;
  pthread_mutex_unlock(&node->lock);
  return count;
}

/* The number of streams that the main thread can close. */
FOR_LUA double tollgate_kept(struct state *state) {
  struct node *node = state->plane->node;
  pthread_mutex_lock(&node->lock);
  double count = (double)node->kept_count;
  pthread_mutex_unlock(&node->lock);
  return count;
}

/* On the main thread: closes a stream, a WebSocket with this code if possible. Does nothing if it has ended. */
FOR_LUA void tollgate_close(struct state *state, double id, int code) {
  struct node *node = state->plane->node;
  pthread_mutex_lock(&node->lock);
  struct waiter *waiter = waiter_of(node, id);
  if (waiter != NULL && waiter->phase == WAITER_KEPT) {
    waiter->close_code = code;
    CALLBACK(http_filter_scheduler_commit)(waiter->scheduler, (uint64_t)id);
  }
  pthread_mutex_unlock(&node->lock);
}

int waiter_close_code(struct node *node, struct stream *stream) {
  pthread_mutex_lock(&node->lock);
  struct waiter *waiter = waiter_of(node, stream->kept);
  int code = waiter == NULL ? 0 : waiter->close_code;
  pthread_mutex_unlock(&node->lock);
  return code;
}

void waiter_unkeep(struct node *node, struct stream *stream) {
  pthread_mutex_lock(&node->lock);
  struct waiter *waiter = waiter_of(node, stream->kept);
  if (waiter != NULL && waiter->phase == WAITER_KEPT) {
    free_waiter(node, waiter);
    node->kept_count--;
  }
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
  } else if (waiter != NULL && waiter->phase == WAITER_GONE) free_waiter(node, waiter);
  pthread_mutex_unlock(&node->lock);
  return delivered;
}

/* With the lock: requests whose time is over, because the main thread is late, continue without an answer. */
void waiters_expire(struct node *node) {
  double now = monotonic_ms(), next_due = 0;
  if (node->next_due == 0 || now < node->next_due) return;
  for (size_t index = 0; index < node->waiter_count; index++) {
    struct waiter *waiter = &node->waiters[index];
    if (waiter->phase != WAITER_WAITS || waiter->due == 0) continue;
    if (waiter->due > now) {
      if (next_due == 0 || waiter->due < next_due) next_due = waiter->due;
      continue;
    }
    waiter->phase = WAITER_GONE;
    CALLBACK(http_filter_scheduler_commit)(waiter->scheduler, (uint64_t)id_of(node, waiter));
  }
  node->next_due = next_due;
}

/* On the worker: the answer for the current request. 0 if there is none. */
FOR_LUA int tollgate_answered(struct state *state) {
  struct node *node = state->plane->node;
  pthread_mutex_lock(&node->lock);
  struct waiter *waiter = state->stream == NULL ? NULL : waiter_of(node, state->stream->waiter);
  int answered = waiter != NULL && waiter->phase == WAITER_ANSWERED &&
                 text_set(&state->copied, waiter->answer.data, waiter->answer.size);
  if (answered) {
    free_waiter(node, waiter);
    state->stream->waiter = -1;
    state->context.data = state->copied.data;
    state->context.size = (int)state->copied.size;
  }
  pthread_mutex_unlock(&node->lock);
  return answered;
}

/* The request has not waited after all: nobody was asked. */
void waiter_release(struct node *node, struct stream *stream) {
  if (stream->waiter < 0) return;
  pthread_mutex_lock(&node->lock);
  struct waiter *waiter = waiter_of(node, stream->waiter);
  if (waiter != NULL && waiter->phase == WAITER_WAITS) free_waiter(node, waiter);
  pthread_mutex_unlock(&node->lock);
  stream->waiter = -1;
}

/* The request ends while it waits. If it was answered meanwhile, Lua continues it; otherwise it is forgotten. */
void waiter_cancel(struct node *node, struct stream *stream) {
  pthread_mutex_lock(&node->lock);
  struct waiter *waiter = waiter_of(node, stream->waiter);
  bool answered = waiter != NULL && waiter->phase == WAITER_ANSWERED;
  if (waiter != NULL && !answered) waiter->phase = WAITER_GONE;
  pthread_mutex_unlock(&node->lock);
  struct state *state = stream->state;
  state_enter(state, stream);
  state->filter = NULL;
  if (answered) state_continue(state, stream);
  if (stream->thread != NULL) state_drop_thread(state, stream);
  state_leave(state);
}
