/*
 * Bodies: counts them, asks Lua when bytes have to be paid, and holds them back until it has decided. Envoy buffers what is
 * held back, and reads no further when its buffer is full. While one body of a stream is held back, the other one is, too.
 */
#include <math.h>
#include <string.h>

#include "tollgate.h"

#define ON(name) envoy_dynamic_module_on_##name

void bodies_begin(struct bodies *bodies) {
  memset(bodies, 0, sizeof *bodies);
  bodies->due_at = bodies->most_request_bytes = INFINITY;
}

static void pass(struct stream *stream, enum way way, double bytes) {
  if (way == WAY_REQUEST) stream->request_bytes += bytes;
  else stream->response_bytes += bytes;
}

/* The stream may be gone afterwards. */
static void cut(struct stream *stream, enum action action) {
  static const char DETAILS[] = "tollgate_body";
  stream->phase = STREAM_CUT;
  if (action == ACTION_REPLY && !stream->responds) stream_reply(stream, false);
  else CALLBACK(http_filter_reset_stream)(stream->filter, ABI_LOCAL_RESET, abi_text(DETAILS, sizeof DETAILS - 1));
}

static enum action ask(struct stream *stream, bool too_many) {
  /* A body that waits for tokens is refused at once when it becomes too large. */
  if (stream->phase == STREAM_HOLDS) waiter_cancel(stream->state->plane->node, stream);
  state_enter(stream->state, stream);
  enum action action = state_start_bytes(stream->state, stream, too_many);
  state_leave(stream->state);
  return action;
}

/* After an error of the script the rest passes, and is charged at its end. */
static void give_up(struct bodies *bodies) { bodies->due_at = bodies->most_request_bytes = INFINITY; }

static enum abi_data_status data(struct stream *stream, enum way way, double size) {
  struct bodies *bodies = &stream->bodies;
  if (stream == &failed_stream) return ABI_DATA_CONTINUE;
  if (bodies->probing) return ABI_DATA_STOP_AND_WATERMARK;
  if (stream->phase == STREAM_CUT) return ABI_DATA_STOP_NO_BUFFER;
  if (bodies->metered & way) bodies->bytes += size;
  bool too_many = way == WAY_REQUEST &&
                  stream->request_bytes + bodies->held[way] + size > bodies->most_request_bytes;
  bool holds = stream->phase == STREAM_HOLDS, open = holds || stream->phase == STREAM_ADMITTED;
  /* Envoy would ignore the next `continue`: these bytes are paid with the next piece, or at the end. */
  if (open && !bodies->continuing && (too_many || (!holds && (bodies->metered & way) && bodies->bytes >= bodies->due_at))) {
    enum action action = ask(stream, too_many);
    if (action == ACTION_REPLY || action == ACTION_RESET) {
      cut(stream, action);
      return ABI_DATA_STOP_NO_BUFFER;
    }
    if (action == ACTION_ERROR) give_up(bodies);
    holds = action == ACTION_WAIT;
    stream->phase = holds ? STREAM_HOLDS : STREAM_ADMITTED;
  }
  if (!holds) {
    pass(stream, way, size);
    return ABI_DATA_CONTINUE;
  }
  bodies->held[way] += size;
  bodies->stopped |= way;
  return ABI_DATA_STOP_AND_WATERMARK;
}

HOOK enum abi_data_status ON(http_filter_request_body)(void *filter, const void *given, bool end_of_stream) {
  (void)end_of_stream;
  return data((struct stream *)given, WAY_REQUEST, (double)CALLBACK(http_get_body_size)(filter, ABI_REQUEST_BODY));
}

HOOK enum abi_data_status ON(http_filter_response_body)(void *filter, const void *given, bool end_of_stream) {
  struct stream *stream = (struct stream *)given;
  if (stream == &failed_stream) return ABI_DATA_CONTINUE;
  if (end_of_stream) stream->bodies.response_ended = true;
  if (!stream->bodies.probing) frames_pass(stream);
  return data(stream, WAY_RESPONSE, (double)CALLBACK(http_get_body_size)(filter, ABI_RESPONSE_BODY));
}

static enum abi_trailers_status trailers(struct stream *stream, enum way way) {
  if (stream->phase == STREAM_HOLDS) stream->bodies.stopped |= way;
  return stream->phase == STREAM_HOLDS || stream->phase == STREAM_CUT ? ABI_TRAILERS_STOP : ABI_TRAILERS_CONTINUE;
}

HOOK enum abi_trailers_status ON(http_filter_request_trailers)(void *filter, const void *given) {
  (void)filter;
  return trailers((struct stream *)given, WAY_REQUEST);
}

HOOK enum abi_trailers_status ON(http_filter_response_trailers)(void *filter, const void *given) {
  struct stream *stream = (struct stream *)given;
  (void)filter;
  if (stream == &failed_stream) return ABI_TRAILERS_CONTINUE;
  stream->bodies.response_ended = true;
  return trailers(stream, WAY_RESPONSE);
}

/*
 * Envoy 1.38 ignores `continue` unless the last hook has stopped the stream, in whichever direction. An empty piece of response,
 * which calls the hook for responses, makes it so. Before the response, the last hook was that of the request.
 */
static void probe(struct stream *stream) {
  struct bodies *bodies = &stream->bodies;
  if (!envoy_joins_directions() || !stream->responds || bodies->response_ended) return;
  bodies->probing = true;
  CALLBACK(http_send_response_data)(stream->filter, abi_text("", 0), false);
  bodies->probing = false;
  bodies->stopped |= WAY_RESPONSE;
}

static void release(struct stream *stream, enum way way) {
  /* The stream may have ended meanwhile, or wait again. */
  if (stream->phase != STREAM_ADMITTED || !(stream->bodies.stopped & way)) return;
  probe(stream);
  stream->bodies.stopped &= ~(int)way;
  if (way == WAY_REQUEST) CALLBACK(http_filter_continue_decoding)(stream->filter);
  else CALLBACK(http_filter_continue_encoding)(stream->filter);
}

static void release_all(struct stream *stream) {
  struct plane *plane = stream->state->plane;
  struct bodies *bodies = &stream->bodies;
  stream->phase = STREAM_ADMITTED;
  for (enum way way = WAY_REQUEST; way <= WAY_RESPONSE; way++) {
    pass(stream, way, bodies->held[way]);
    bodies->held[way] = 0;
  }
  /* If the stream ends now, it must stay readable. */
  atomic_fetch_add(&plane->streams, 1);
  /* A response that has ended cannot be probed. When it has passed, so has the stream. */
  if (bodies->response_ended) release(stream, WAY_RESPONSE);
  release(stream, WAY_REQUEST);
  release(stream, WAY_RESPONSE);
  atomic_fetch_sub(&plane->streams, 1);
}

void bodies_decided(struct stream *stream, enum action action) {
  if (action == ACTION_WAIT) return;
  if (action == ACTION_ERROR) give_up(&stream->bodies);
  if (action == ACTION_REPLY || action == ACTION_RESET) cut(stream, action);
  else release_all(stream);
}
