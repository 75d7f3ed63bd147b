#define _GNU_SOURCE
/* Lua states: one per worker thread and version of the script, and one for the main thread. */
#include <dlfcn.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

#include "tollgate.h"

/* All hooks of a request must fit into compiled code. */
static const char TUNING[] = "require('jit.opt').start('maxrecord=16000', 'maxtrace=8000', 'maxmcode=16384')";

static const char *message_of(lua_State *lua) {
  const char *message = lua_tostring(lua, -1);
  return message == NULL ? "an error that is not a text" : message;
}

static void state_free(struct state *state) {
  if (state->lua != NULL) lua_close(state->lua);
  pthread_mutex_destroy(&state->lock);
  while (state->free_numbers != NULL) {
    struct stream *stream = state->free_numbers;
    state->free_numbers = stream->next_free;
    free(stream);
  }
  free(state->copied.data);
  free(state->reply.bytes.data);
  free(state->error_body.data);
  free(state);
}

static int add_code(lua_State *lua, const void *part, size_t size, void *code) {
  (void)lua;
  return !text_add(code, part, size);
}

/* Loads the script as a function. The first time it is compiled, which takes longer than all the rest. */
static bool load_code(struct plane *plane, lua_State *lua) {
  struct text compiled = {NULL, 0, 0};
  if (luaL_loadbuffer(lua, plane->code.data, plane->code.size, "=tollgate") != 0) return false;
  if (plane->main != NULL || lua_dump(lua, add_code, &compiled) != 0) free(compiled.data);
  else {
    free(plane->code.data);
    plane->code = compiled;
  }
  return true;
}

/* Runs the script in a new state, and then its function of this name. NULL, with a log line, if it fails. */
static struct state *state_new(struct plane *plane, const char *start) {
  struct state *state = calloc(1, sizeof *state);
  if (state == NULL) return NULL;
  state->plane = plane;
  state->error_status = 500;
  pthread_mutex_init(&state->lock, NULL);
  lua_State *lua = state->lua = luaL_newstate();
  Dl_info library;
  if (lua == NULL || dladdr((void *)state_of_thread, &library) == 0) {
    state_free(state);
    return NULL;
  }
  luaL_openlibs(lua);
  lua_pushstring(lua, library.dli_fname);
  lua_setglobal(lua, "tollgate_library");
  lua_pushlightuserdata(lua, state);
  lua_setglobal(lua, "tollgate_state");
  if (luaL_dostring(lua, TUNING) != 0 || !load_code(plane, lua) || lua_pcall(lua, 0, 0, 0) != 0) {
    log_text(ABI_LOG_ERROR, "tollgate: %s: %s", plane->node->path, message_of(lua));
    state_free(state);
    return NULL;
  }
  if (!state_call(state, start, NULL, 0)) {
    state_free(state);
    return NULL;
  }
  return state;
}

/* Takes the code. States for all workers are created at once, so that no request waits for it. */
struct plane *plane_load(struct node *node, struct text *code) {
  static uint64_t planes;
  struct plane *plane = calloc(1, sizeof *plane);
  if (plane == NULL) return NULL;
  plane->id = ++planes;
  plane->node = node;
  plane->code = *code;
  memset(code, 0, sizeof *code);
  plane->main = state_new(plane, "tollgate_main");
  uint32_t workers = CALLBACK(is_validation_mode)() ? 1 : CALLBACK(get_concurrency)();
  for (uint32_t i = 0; plane->main != NULL && i < workers; i++) {
    struct state *state = state_new(plane, "tollgate_worker");
    if (state == NULL) {
      plane_free(plane);
      return NULL;
    }
    state->next = plane->workers;
    plane->workers = state;
  }
  if (plane->main != NULL) return plane;
  plane_free(plane);
  return NULL;
}

void plane_free(struct plane *plane) {
  while (plane->workers != NULL) {
    struct state *state = plane->workers;
    plane->workers = state->next;
    state_free(state);
  }
  if (plane->main != NULL) state_free(plane->main);
  free(plane->code.data);
  free(plane);
}

/* Of the states that this thread has claimed, those that it used last. */
enum { REMEMBERED = 8 };
static __thread struct {
  uint64_t plane; /* 0: none */
  struct state *state;
} claimed[REMEMBERED];
static __thread unsigned next_claim;

/* NULL if there is none and none can be created. A thread keeps its state as long as the plane has streams. */
struct state *state_of_thread(struct plane *plane) {
  for (int i = 0; i < REMEMBERED; i++) {
    if (claimed[i].plane == plane->id) return claimed[i].state;
  }
  pthread_mutex_lock(&plane->node->lock);
  pthread_t self = pthread_self();
  struct state *state = plane->workers, *unclaimed = NULL;
  for (; state != NULL && !(state->claimed && pthread_equal(state->owner, self)); state = state->next) {
    if (!state->claimed) unclaimed = state;
  }
  if (state == NULL && unclaimed != NULL) {
    state = unclaimed;
    state->claimed = true;
    state->owner = self;
  }
  pthread_mutex_unlock(&plane->node->lock);
  if (state == NULL) {
    state = state_new(plane, "tollgate_worker");
    if (state == NULL) return NULL;
    state->claimed = true;
    state->owner = self;
    pthread_mutex_lock(&plane->node->lock);
    state->next = plane->workers;
    plane->workers = state;
    pthread_mutex_unlock(&plane->node->lock);
  }
  claimed[next_claim % REMEMBERED].plane = plane->id;
  claimed[next_claim % REMEMBERED].state = state;
  next_claim++;
  return state;
}

void state_enter(struct state *state, struct stream *stream) {
  pthread_mutex_lock(&state->lock);
  state->stream = stream;
  state->filter = stream == NULL ? NULL : stream->filter;
}

void state_leave(struct state *state) {
  state->stream = NULL;
  state->filter = NULL;
  pthread_mutex_unlock(&state->lock);
}

bool state_call(struct state *state, const char *function, const double *arguments, int count) {
  lua_State *lua = state->lua;
  lua_getglobal(lua, function);
  for (int i = 0; i < count; i++) lua_pushnumber(lua, arguments[i]);
  if (lua_pcall(lua, count, 0, 0) == 0) return true;
  log_text(ABI_LOG_ERROR, "tollgate: %s: %s", function, message_of(lua));
  lua_settop(lua, 0);
  return false;
}

/* A request runs in a coroutine, because it may have to wait. Those that have ended are used again. */
static void take_thread(struct state *state, struct stream *stream) {
  if (state->spare_threads > 0) {
    state->spare_threads--;
    stream->thread = state->threads[state->spare_threads];
    stream->thread_ref = state->thread_refs[state->spare_threads];
    return;
  }
  stream->thread = lua_newthread(state->lua);
  stream->thread_ref = luaL_ref(state->lua, LUA_REGISTRYINDEX);
}

void state_drop_thread(struct state *state, struct stream *stream) {
  luaL_unref(state->lua, LUA_REGISTRYINDEX, stream->thread_ref);
  stream->thread = NULL;
}

static enum action resume(struct state *state, struct stream *stream, int arguments) {
  int status = lua_resume(stream->thread, arguments);
  if (status == LUA_YIELD) return ACTION_WAIT;
  if (status != 0) {
    log_text(ABI_LOG_ERROR, "tollgate: %s", message_of(stream->thread));
    state_drop_thread(state, stream);
    return ACTION_ERROR;
  }
  /* A script that names no action must not let the request pass. */
  enum action action = lua_isnumber(stream->thread, 1) ? (enum action)lua_tointeger(stream->thread, 1) : ACTION_ERROR;
  lua_settop(stream->thread, 0);
  if (state->spare_threads < MAX_SPARE_THREADS) {
    state->threads[state->spare_threads] = stream->thread;
    state->thread_refs[state->spare_threads] = stream->thread_ref;
    state->spare_threads++;
    stream->thread = NULL;
  } else state_drop_thread(state, stream);
  return action;
}

static enum action start(struct state *state, struct stream *stream, const char *function, bool argument) {
  take_thread(state, stream);
  lua_getglobal(stream->thread, function);
  lua_pushnumber(stream->thread, stream->number);
  lua_pushboolean(stream->thread, argument);
  return resume(state, stream, 2);
}

enum action state_start_request(struct state *state, struct stream *stream, bool end_of_stream) {
  /* Envoy exits: as without the module, the client is disconnected, so that it can ask another Envoy. */
  if (atomic_load(&state->plane->node->leaving)) return ACTION_RESET;
  return start(state, stream, "tollgate_request", end_of_stream);
}

enum action state_start_bytes(struct state *state, struct stream *stream, bool too_many) {
  /* Envoy exits: the exchange is settled already. */
  if (atomic_load(&state->plane->node->leaving)) return ACTION_CONTINUE;
  return start(state, stream, "tollgate_bytes", too_many);
}

enum action state_continue(struct state *state, struct stream *stream) { return resume(state, stream, 0); }
