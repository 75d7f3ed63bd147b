/*
 * A small layer between Envoy and the Lua code of this plane. The process has one node per script: its memory is shared by all
 * workers. Each worker thread has a Lua state that decides; the main thread has one that alone talks to the service.
 *
 * Lua never calls a function that ends or continues a stream, because Envoy would call hooks from inside it: it returns an
 * action, and C performs it after the call.
 */
#ifndef TOLLGATE_H
#define TOLLGATE_H

#include <lua.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "abi.h"

/* Functions that Lua calls through its FFI. */
#define FOR_LUA __attribute__((visibility("default")))

struct text {
  char *data;
  size_t size;
  size_t room;
};

/* Replaces or extends the content. False if there is no memory. */
bool text_set(struct text *text, const char *data, size_t size);
bool text_add(struct text *text, const char *data, size_t size);

/* A queue of texts: first in, first out. */
struct item {
  struct item *next;
  size_t size;
  char data[];
};
struct queue {
  struct item *first;
  struct item *last;
  size_t length;
};
bool queue_add(struct queue *queue, const char *data, size_t size);
struct item *queue_take(struct queue *queue);

/* memory.c: a dictionary that all threads share. */
struct memory;
struct memory *memory_new(void);

/* A request that waits for an answer of the main thread, or a connection that it may close (WAITER_KEPT). */
struct waiter {
  void *scheduler;
  struct text answer;
  uint32_t generation;
  double due; /* when it continues without an answer, milliseconds of the monotonic clock; 0: never */
  int close_code; /* of a connection that the main thread closes */
  enum { WAITER_FREE, WAITER_WAITS, WAITER_ANSWERED, WAITER_GONE, WAITER_KEPT } phase;
  size_t next_free; /* the number of another free one plus 1; 0: there is none */
};

/* One node: everything that belongs to one script. It lives as long as the process. */
struct node {
  char *path;
  struct memory *memory;
  struct node *next;

  pthread_mutex_t lock; /* of all that follows */
  pthread_cond_t alarm_changed;
  struct config *configs;
  double config_count; /* so far */
  struct plane *plane; /* the current one */
  struct plane *retired;
  struct queue mail; /* from workers to the main thread */
  bool wake_sent;
  bool alarm_running;
  bool alarm_stops;
  pthread_t alarm_thread;
  double alarm_at; /* when the main thread wants to be woken, milliseconds of the monotonic clock; 0: not */
  struct waiter *waiters;
  double next_due; /* no waiter is due before; 0: none is */
  size_t waiter_count;
  size_t kept_count; /* of WAITER_KEPT */
  size_t free_waiters; /* the number of the first plus 1; 0: there is none */

  atomic_bool leaving; /* Envoy exits: requests are reset */
  double leave_by; /* when it exits at the latest; 0: it does not */
  bool left; /* tokens and slots are returned */
};

/* One filter configuration of Envoy. */
struct config {
  struct config *next;
  struct node *node;
  void *envoy;
  void *scheduler;
  double serial; /* from 1, of its node */
};

/* One version of the script, with its Lua states. */
struct plane {
  struct plane *next;
  uint64_t id;
  struct node *node;
  struct text code;
  struct state *main;
  struct state *workers; /* protected by the lock of the node */
  atomic_int streams;
  long long version[3]; /* of the file */
};

/* What Lua sees of its state: the result of the last call. Declared again in module-api.ts. */
struct context {
  const char *data;
  int size;
  double number;
};

enum { MAX_REPLY_HEADERS = 32, MAX_SPARE_THREADS = 256 };

struct reply {
  struct text bytes; /* names and values of headers, then the body */
  size_t ends[2 * MAX_REPLY_HEADERS];
  size_t headers;
  size_t body;
  uint32_t status;
};

struct state {
  struct context context; /* first, because Lua has a pointer to it */
  struct plane *plane;
  struct state *next;
  lua_State *lua;
  pthread_mutex_t lock;
  bool claimed; /* by the thread that follows */
  pthread_t owner;
  void *filter; /* of the current stream; NULL outside of its hooks */
  struct stream *stream;
  struct text copied;
  struct reply reply;
  uint32_t error_status;
  struct text error_body;
  lua_State *threads[MAX_SPARE_THREADS];
  int thread_refs[MAX_SPARE_THREADS];
  int spare_threads;
  int streams; /* highest stream number in use so far */
  struct stream *free_numbers;
  _Atomic(struct stream *) all_streams; /* also those of free numbers */
};

/* The frames that a pod sends. */
struct frames {
  bool known; /* it is a WebSocket, and nothing was missed */
  bool closed; /* a close frame has begun */
  enum { FRAME_START, FRAME_LENGTH, FRAME_EXTENDED, FRAME_PAYLOAD } stage;
  uint64_t left; /* missing bytes of the stage */
  uint64_t length;
  unsigned char key_bytes;
};

/* The bodies of a stream, as bits. */
enum way { WAY_REQUEST = 1, WAY_RESPONSE = 2 };

/* One request. */
struct stream {
  void *filter;
  struct state *state;
  int number; /* by which Lua knows it */
  enum {
    STREAM_NEW,
    STREAM_WAITS, /* for the decision */
    STREAM_ADMITTED,
    STREAM_HOLDS, /* admitted; its bytes wait for tokens */
    STREAM_CUT, /* admitted; no more of its bytes pass */
    STREAM_REFUSED,
    STREAM_FAILED, /* by an error of the script, which may have admitted it */
    STREAM_ENDED
  } phase;
  lua_State *thread; /* while it waits */
  int thread_ref;
  double waiter;
  double kept; /* by which the main thread can close it; -1: it cannot */
  bool local_reply; /* Envoy itself answers it */
  bool responds; /* a response has begun */
  struct frames frames;
  double request_bytes; /* that have passed */
  double response_bytes;
  struct bodies {
    int metered; /* ways whose bytes are charged while they pass */
    int stopped; /* ways that Envoy holds back */
    double held[3]; /* bytes that it holds back, by way */
    double bytes; /* of the metered ways, passed and held */
    double due_at; /* Lua is asked when so many bytes have arrived */
    double most_request_bytes; /* it refuses more */
    bool response_ended;
    bool probing; /* see bodies.c */
    bool continuing; /* Envoy passes on what it buffered while the request waited */
  } bodies;
  struct stream *next_free;
  struct stream *next; /* of all_streams */
};

/* state.c */
struct plane *plane_load(struct node *node, struct text *code);
void plane_free(struct plane *plane);
struct state *state_of_thread(struct plane *plane);
void state_enter(struct state *state, struct stream *stream);
void state_leave(struct state *state);
/* Calls a global function with numbers. False, with a log line, if it fails. */
bool state_call(struct state *state, const char *function, const double *arguments, int count);

enum action { ACTION_CONTINUE = 0, ACTION_REPLY = 1, ACTION_RESET = 2, ACTION_WAIT = 3, ACTION_ERROR = 4 };
/* Starts the request function, or continues it after an answer. The caller has entered the state. */
enum action state_start_request(struct state *state, struct stream *stream, bool end_of_stream);
/* The same for a body: its bytes need tokens, or there are too many of them. */
enum action state_start_bytes(struct state *state, struct stream *stream, bool too_many);
/* Continues either. */
enum action state_continue(struct state *state, struct stream *stream);
void state_drop_thread(struct state *state, struct stream *stream);

/* hooks.c: sends the reply that Lua has prepared, or that for a script that has failed. */
void stream_reply(struct stream *stream, bool failed);

/* Instead of a stream for which there is no memory: its hooks refuse the request. */
extern const struct stream failed_stream;

/* bodies.c */
void bodies_begin(struct bodies *bodies);
/* Lua has decided about bytes that are held back. */
void bodies_decided(struct stream *stream, enum action action);

/* version.c: false, with a message, if the module does not know the Envoy that loads it. */
bool envoy_is_supported(void);
/* A filter's stop and continue in one direction count for the other, too. */
bool envoy_joins_directions(void);

/* node.c */
struct node *node_of(const char *path, size_t size);
bool node_load(struct node *node);
void node_add(struct node *node, struct config *config);
void node_remove(struct config *config);
void node_woken(struct node *node);
/* Calls of one configuration, at most; also in service-calls.ts. */
#define CALLS_OF_CONFIG 4294967296.0
double call_number(double serial, uint64_t id);
/* Begins to return everything. The node calls exit_continue when it has left. */
void nodes_leave(double until);
bool nodes_have_left(void);
double monotonic_ms(void);
void log_text(enum abi_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* waiters.c: the code with which the main thread closes a stream. A stream ends: it waits no more, and cannot be closed. */
size_t waiters_in_use(struct node *node);
void waiters_expire(struct node *node);
int waiter_close_code(struct node *node, struct stream *stream);
void waiter_release(struct node *node, struct stream *stream);
void waiter_cancel(struct node *node, struct stream *stream);
void waiter_unkeep(struct node *node, struct stream *stream);

/* frames.c: tracks what a pod sends; ends the stream by a close frame with a code of frames.c, or returns false if none may stand here. */
void frames_pass(struct stream *stream);
bool frames_close(struct stream *stream, int code);

/* exit.c: to be called on the main thread after every call of Lua there. */
void exit_continue(void);

#endif
