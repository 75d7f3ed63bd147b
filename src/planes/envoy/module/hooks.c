/* The hooks that Envoy calls. */
#include <stdlib.h>
#include <string.h>

#include "tollgate.h"

#define ON(name) envoy_dynamic_module_on_##name

/* NULL: Envoy rejects the configuration. */
HOOK const char *ON(program_init)(void) { return envoy_is_supported() ? ABI_VERSION : NULL; }

/* Envoy Gateway passes on text as JSON, so in quotes. */
static struct abi_buffer without_quotes(struct abi_buffer text) {
  bool quoted = text.length >= 2 && text.ptr[0] == '"' && text.ptr[text.length - 1] == '"';
  return quoted ? abi_text(text.ptr + 1, text.length - 2) : text;
}

/* The configuration is the path of the script. NULL: Envoy does not start, or keeps its earlier configuration. */
HOOK const void *ON(http_filter_config_new)(void *envoy, struct abi_buffer name, struct abi_buffer path) {
  (void)name;
  path = without_quotes(path);
  struct node *node = node_of(path.ptr, path.length);
  struct config *config = calloc(1, sizeof *config);
  if (node == NULL || config == NULL || !node_load(node)) {
    free(config);
    return NULL;
  }
  config->node = node;
  config->envoy = envoy;
  if (CALLBACK(is_validation_mode)()) return config;
  config->scheduler = CALLBACK(http_filter_config_scheduler_new)(envoy);
  node_add(node, config);
  return config;
}

HOOK void ON(http_filter_config_destroy)(const void *given) {
  struct config *config = (struct config *)given;
  if (config == NULL) return;
  if (config->scheduler != NULL) {
    node_remove(config);
    CALLBACK(http_filter_config_scheduler_delete)(config->scheduler);
  }
  free(config);
}

HOOK void ON(http_filter_config_scheduled)(void *envoy, const void *given, uint64_t event) {
  (void)envoy, (void)event;
  if (given == NULL) return;
  node_woken(((const struct config *)given)->node);
  exit_continue();
}

HOOK void ON(http_filter_config_http_callout_done)(void *envoy, const void *given, uint64_t id,
                                                   enum abi_call_result result, struct abi_header *headers,
                                                   size_t count, struct abi_buffer *chunks, size_t chunk_count) {
  (void)envoy;
  if (given == NULL) return;
  struct state *main = ((const struct config *)given)->node->plane->main;
  double status = 0, overloaded = 0;
  state_enter(main, NULL);
  main->copied.size = 0;
  for (size_t i = 0; result == ABI_CALL_SUCCESS && i < chunk_count; i++) {
    text_add(&main->copied, chunks[i].ptr, chunks[i].length);
  }
  for (size_t i = 0; result == ABI_CALL_SUCCESS && i < count; i++) {
    const struct abi_header *header = &headers[i];
    if (header->key_length == 7 && memcmp(header->key_ptr, ":status", 7) == 0) {
      for (size_t j = 0; j < header->value_length; j++) status = status * 10 + (header->value_ptr[j] - '0');
    }
    if (header->key_length == 18 && memcmp(header->key_ptr, "x-envoy-overloaded", 18) == 0) overloaded = 1;
  }
  main->context.data = main->copied.data;
  main->context.size = (int)main->copied.size;
  state_call(main, "tollgate_replied", (double[]){call_number(((const struct config *)given)->serial, id), status, overloaded}, 3);
  state_leave(main);
  exit_continue();
}

/* Without a stream Envoy 1.38 and 1.39 would end. */
const struct stream failed_stream;

static void refuse_failed(void *filter) {
  struct abi_header type = {"content-type", 12, "application/json", 16};
  static const char BODY[] = "{\"error\":\"service_unavailable\",\"reason\":\"plane_error\"}";
  CALLBACK(http_send_response)(filter, 503, &type, 1, abi_text(BODY, sizeof BODY - 1), abi_text("tollgate_error", 14));
}

HOOK const void *ON(http_filter_new)(const void *given, void *filter) {
  struct node *node = ((const struct config *)given)->node;
  pthread_mutex_lock(&node->lock);
  struct plane *plane = node->plane;
  atomic_fetch_add(&plane->streams, 1);
  pthread_mutex_unlock(&node->lock);
  struct state *state = state_of_thread(plane);
  struct stream *stream = NULL;
  if (state != NULL) {
    stream = state->free_numbers;
    if (stream != NULL) state->free_numbers = stream->next_free;
    else {
      stream = calloc(1, sizeof *stream);
      if (stream != NULL) {
        stream->number = ++state->streams;
        stream->next = atomic_load(&state->all_streams);
        atomic_store(&state->all_streams, stream);
      }
    }
  }
  if (stream == NULL) {
    atomic_fetch_sub(&plane->streams, 1);
    log_text(ABI_LOG_ERROR, "tollgate: no memory for a request");
    return &failed_stream;
  }
  stream->state = state;
  stream->filter = filter;
  stream->phase = STREAM_NEW;
  stream->thread = NULL;
  stream->waiter = stream->kept = -1;
  stream->local_reply = stream->responds = false;
  stream->request_bytes = stream->response_bytes = 0;
  stream->frames.known = false;
  bodies_begin(&stream->bodies);
  return stream;
}

void stream_reply(struct stream *stream, bool failed) {
  struct state *state = stream->state;
  struct abi_header headers[MAX_REPLY_HEADERS];
  if (failed) {
    headers[0] = (struct abi_header){"content-type", 12, "application/json", 16};
    CALLBACK(http_send_response)(stream->filter, state->error_status, headers, 1,
                                 abi_text(state->error_body.data, state->error_body.size), abi_text("tollgate_error", 14));
    return;
  }
  struct reply *reply = &state->reply;
  const char *bytes = reply->bytes.data;
  size_t start = 0;
  for (size_t i = 0; i < reply->headers; i++) {
    size_t middle = reply->ends[2 * i], end = reply->ends[2 * i + 1];
    headers[i] = (struct abi_header){bytes + start, middle - start, bytes + middle, end - middle};
    start = end;
  }
  CALLBACK(http_send_response)(stream->filter, reply->status, headers, reply->headers,
                               abi_text(bytes + reply->bytes.size - reply->body, reply->body), abi_text("tollgate", 8));
}

/* Outside of the state: Envoy may call other hooks meanwhile. False if the request must not go on now. */
static bool perform(struct stream *stream, enum action action) {
  if (action == ACTION_WAIT) {
    stream->phase = STREAM_WAITS;
    return false;
  }
  stream->phase = action == ACTION_CONTINUE ? STREAM_ADMITTED : action == ACTION_ERROR ? STREAM_FAILED : STREAM_REFUSED;
  if (action == ACTION_RESET) CALLBACK(http_filter_reset_stream)(stream->filter, ABI_LOCAL_RESET, abi_text("tollgate", 8));
  else if (action != ACTION_CONTINUE) stream_reply(stream, action != ACTION_REPLY);
  return action == ACTION_CONTINUE;
}

HOOK enum abi_headers_status ON(http_filter_request_headers)(void *filter, const void *given, bool end_of_stream) {
  struct stream *stream = (struct stream *)given;
  if (stream == &failed_stream) {
    refuse_failed(filter);
    return ABI_HEADERS_STOP;
  }
  state_enter(stream->state, stream);
  enum action action = state_start_request(stream->state, stream, end_of_stream);
  state_leave(stream->state);
  if (perform(stream, action)) return ABI_HEADERS_CONTINUE;
  return action == ACTION_WAIT ? ABI_HEADERS_STOP_ALL_AND_WATERMARK : ABI_HEADERS_STOP;
}

/* Also in messages.ts: the pod has not answered. */
enum { UPSTREAM_TIMEOUT = 504 };

/* The main thread closes the stream. */
static void close_kept(struct stream *stream) {
  struct state *state = stream->state;
  int code = waiter_close_code(state->plane->node, stream);
  if (frames_close(stream, code)) return;
  if (code == UPSTREAM_TIMEOUT && stream->phase == STREAM_ADMITTED && !stream->responds) {
    state_enter(state, stream);
    bool prepared = state_call(state, "tollgate_late", NULL, 0);
    state_leave(state);
    stream_reply(stream, !prepared);
  } else CALLBACK(http_filter_reset_stream)(stream->filter, ABI_LOCAL_RESET, abi_text("tollgate", 8));
}

/* The stream may end meanwhile. */
static void continue_request(struct stream *stream) {
  struct plane *plane = stream->state->plane;
  void *filter = stream->filter;
  atomic_fetch_add(&plane->streams, 1);
  stream->bodies.continuing = true;
  CALLBACK(http_filter_continue_decoding)(filter);
  stream->bodies.continuing = false;
  atomic_fetch_sub(&plane->streams, 1);
}

HOOK void ON(http_filter_scheduled)(void *filter, const void *given, uint64_t event) {
  struct stream *stream = (struct stream *)given;
  (void)filter;
  if ((double)event == stream->kept) {
    close_kept(stream);
    return;
  }
  bool decides = stream->phase == STREAM_WAITS;
  if ((!decides && stream->phase != STREAM_HOLDS) || (double)event != stream->waiter) return;
  state_enter(stream->state, stream);
  enum action action = state_continue(stream->state, stream);
  state_leave(stream->state);
  if (!decides) bodies_decided(stream, action);
  else if (perform(stream, action)) continue_request(stream);
}

HOOK enum abi_headers_status ON(http_filter_response_headers)(void *filter, const void *given, bool end_of_stream) {
  struct stream *stream = (struct stream *)given;
  (void)filter, (void)end_of_stream;
  if (stream == &failed_stream) return ABI_HEADERS_CONTINUE;
  stream->responds = true;
  if (stream->phase != STREAM_ADMITTED && stream->phase != STREAM_HOLDS) return ABI_HEADERS_CONTINUE;
  state_enter(stream->state, stream);
  /* After an error the response passes unchanged. */
  state_call(stream->state, "tollgate_response", (double[]){stream->number, stream->local_reply}, 2);
  state_leave(stream->state);
  return ABI_HEADERS_CONTINUE;
}

static void end(struct stream *stream) {
  if (stream == &failed_stream) return;
  struct node *node = stream->state->plane->node;
  bool waits = stream->phase == STREAM_WAITS || stream->phase == STREAM_HOLDS;
  if (waits) waiter_cancel(node, stream);
  else waiter_release(node, stream);
  if (stream->kept >= 0) waiter_unkeep(node, stream);
  if (waits || stream->phase == STREAM_ADMITTED || stream->phase == STREAM_CUT || stream->phase == STREAM_FAILED) {
    state_enter(stream->state, stream);
    double arguments[] = {stream->number, stream->request_bytes, stream->response_bytes};
    state_call(stream->state, "tollgate_end", arguments, 3);
    state_leave(stream->state);
  }
  stream->phase = STREAM_ENDED;
}

HOOK void ON(http_filter_stream_complete)(void *filter, const void *given) {
  struct stream *stream = (struct stream *)given;
  (void)filter;
  end(stream);
}

HOOK void ON(http_filter_destroy)(const void *given) {
  struct stream *stream = (struct stream *)given;
  if (stream == NULL || stream == &failed_stream) return;
  struct state *state = stream->state;
  stream->filter = NULL;
  end(stream);
  stream->next_free = state->free_numbers;
  state->free_numbers = stream;
  atomic_fetch_sub(&state->plane->streams, 1);
}

/* Envoy's own response: the backend could not be reached, or a later filter answers. */
HOOK int ON(http_filter_local_reply)(void *filter, const void *given, uint32_t status, struct abi_buffer details,
                                     bool reset_imminent) {
  (void)filter, (void)status, (void)details, (void)reset_imminent;
  if (given != NULL && given != &failed_stream) ((struct stream *)given)->local_reply = true;
  return 0;
}

/* Hooks that Envoy requires and this module does not need. */
#define UNUSED(name, ...) \
  HOOK void ON(name)(void *filter, const void *stream, ##__VA_ARGS__) { (void)filter, (void)stream; }

#pragma GCC diagnostic ignored "-Wunused-parameter"
UNUSED(http_filter_http_callout_done, uint64_t id, int result, void *headers, size_t count, void *body, size_t chunks)
UNUSED(http_filter_http_stream_headers, uint64_t id, void *headers, size_t count, bool end_stream)
UNUSED(http_filter_http_stream_data, uint64_t id, const void *data, size_t count, bool end_stream)
UNUSED(http_filter_http_stream_trailers, uint64_t id, void *trailers, size_t count)
UNUSED(http_filter_http_stream_complete, uint64_t id)
UNUSED(http_filter_http_stream_reset, uint64_t id, int reason)
UNUSED(http_filter_downstream_above_write_buffer_high_watermark)
UNUSED(http_filter_downstream_below_write_buffer_low_watermark)
