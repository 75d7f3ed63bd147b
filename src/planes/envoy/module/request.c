/* What Lua reads and changes of the current request, and the reply that it prepares. Called through FFI. */
#include <string.h>

#include "tollgate.h"

static bool give(struct state *state, bool is_there, struct abi_buffer value) {
  state->context.data = value.ptr;
  state->context.size = is_there ? (int)value.length : 0;
  return is_there;
}

/* The number of values of a header; the value at `index` is in the context. */
FOR_LUA int tollgate_header(struct state *state, int map, const char *name, size_t size, int index) {
  struct abi_buffer value = {NULL, 0};
  size_t count = 0;
  if (state->filter == NULL) return 0;
  CALLBACK(http_get_header)(state->filter, (enum abi_header_map)map, abi_text(name, size), &value, (size_t)index, &count);
  give(state, value.ptr != NULL, value);
  return (int)count;
}

FOR_LUA void tollgate_set_header(struct state *state, int map, const char *name, size_t size, const char *value,
                                 size_t length) {
  if (state->filter == NULL) return;
  CALLBACK(http_set_header)(state->filter, (enum abi_header_map)map, abi_text(name, size), abi_text(value, length));
}

FOR_LUA void tollgate_remove_header(struct state *state, int map, const char *name, size_t size) {
  if (state->filter == NULL) return;
  CALLBACK(http_set_header)(state->filter, (enum abi_header_map)map, abi_text(name, size), abi_text(NULL, 0));
}

FOR_LUA int tollgate_attribute(struct state *state, int attribute) {
  struct abi_buffer value = {NULL, 0};
  if (state->filter == NULL) return 0;
  return give(state, CALLBACK(http_filter_get_attribute_string)(state->filter, attribute, &value), value);
}

/* A text in the metadata that the configuration gives to the route. */
FOR_LUA int tollgate_route_text(struct state *state, const char *key, size_t size) {
  static const char NAMESPACE[] = "tollgate";
  struct abi_buffer value = {NULL, 0};
  if (state->filter == NULL) return 0;
  return give(state,
              CALLBACK(http_get_metadata_string)(state->filter, ABI_ROUTE_METADATA,
                                                 abi_text(NAMESPACE, sizeof NAMESPACE - 1), abi_text(key, size), &value),
              value);
}

/* Only `ip:port` of a host of the cluster; the request fails if it is not there. */
FOR_LUA int tollgate_choose_host(struct state *state, const char *host, size_t size) {
  return state->filter != NULL && CALLBACK(http_set_upstream_override_host)(state->filter, abi_text(host, size), true);
}

/* Further bodies of the current stream are charged while they pass, after `known` other bytes. */
FOR_LUA void tollgate_meter(struct state *state, int ways, double known) {
  if (state->filter == NULL) return;
  struct stream *stream = state->stream;
  struct bodies *bodies = &stream->bodies;
  int added = ways & ~bodies->metered;
  bodies->metered |= ways;
  bodies->bytes += known;
  if (added & WAY_REQUEST) bodies->bytes += stream->request_bytes;
  if (added & WAY_RESPONSE) bodies->bytes += stream->response_bytes;
}

/* The bytes that are charged so far; -1 if the stream has ended. */
FOR_LUA double tollgate_metered(struct state *state) {
  return state->filter == NULL ? -1 : state->stream->bodies.bytes;
}

/* With so many metered bytes, `tollgate_bytes` is called. */
FOR_LUA void tollgate_due_at(struct state *state, double bytes) {
  if (state->filter != NULL) state->stream->bodies.due_at = bytes;
}

/* If the request body is larger, `tollgate_bytes` is called. */
FOR_LUA void tollgate_most_request_bytes(struct state *state, double bytes) {
  if (state->filter != NULL) state->stream->bodies.most_request_bytes = bytes;
}

FOR_LUA void tollgate_log(int level, const char *message, size_t size) {
  CALLBACK(log)((enum abi_log_level)level, abi_text(message, size));
}

/* Starts a reply without headers. */
FOR_LUA void tollgate_reply(struct state *state) {
  struct reply *reply = &state->reply;
  reply->bytes.size = 0;
  reply->headers = 0;
  reply->body = 0;
}

FOR_LUA void tollgate_reply_header(struct state *state, const char *name, size_t size, const char *value,
                                   size_t length) {
  struct reply *reply = &state->reply;
  if (reply->headers >= MAX_REPLY_HEADERS) return;
  if (!text_add(&reply->bytes, name, size)) return;
  size_t end = reply->bytes.size;
  if (!text_add(&reply->bytes, value, length)) return;
  reply->ends[2 * reply->headers] = end;
  reply->ends[2 * reply->headers + 1] = reply->bytes.size;
  reply->headers++;
}

/* The last part of a reply. */
FOR_LUA void tollgate_reply_body(struct state *state, int status, const char *body, size_t size) {
  state->reply.status = (uint32_t)status;
  size_t start = state->reply.bytes.size;
  if (text_add(&state->reply.bytes, body, size)) state->reply.body = state->reply.bytes.size - start;
}

/* What requests get if the script fails. */
FOR_LUA void tollgate_error_reply(struct state *state, int status, const char *body, size_t size) {
  state->error_status = (uint32_t)status;
  text_set(&state->error_body, body, size);
}
