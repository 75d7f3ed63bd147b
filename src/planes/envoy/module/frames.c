/* Where WebSocket frames end in what a pod sends: RFC 6455, 5.2. A close frame of this module must not become part of a message. */
#include <stdlib.h>

#include "tollgate.h"

enum { OPCODE = 0x0f, CLOSE = 8, LENGTH = 0x7f, TWO_BYTES = 126, EIGHT_BYTES = 127, MASKED = 0x80, KEY_BYTES = 4 };

/* More need memory. */
enum { FEW_CHUNKS = 16 };

/* The close frames, with the reasons of the Node gateway. */
static const struct {
  int code;
  struct abi_buffer frame;
} CLOSES[] = {
    {1001, {"\x88\x0c\x03\xe9going away", 14}},
    {1013, {"\x88\x11\x03\xf5try again later", 19}},
};

static void begin_payload(struct frames *frames, uint64_t length) {
  frames->left = length + frames->key_bytes;
  frames->stage = frames->left == 0 ? FRAME_START : FRAME_PAYLOAD;
}

static void read_byte(struct frames *frames, unsigned char byte) {
  switch (frames->stage) {
    case FRAME_START:
      if ((byte & OPCODE) == CLOSE) frames->closed = true;
      frames->stage = FRAME_LENGTH;
      return;
    case FRAME_LENGTH:
      frames->key_bytes = (byte & MASKED) != 0 ? KEY_BYTES : 0;
      byte &= LENGTH;
      if (byte < TWO_BYTES) {
        begin_payload(frames, byte);
        return;
      }
      frames->stage = FRAME_EXTENDED;
      frames->left = byte == EIGHT_BYTES ? 8 : 2;
      frames->length = 0;
      return;
    default:
      frames->length = frames->length << 8 | byte;
      if (--frames->left == 0) begin_payload(frames, frames->length);
  }
}

static void pass(struct frames *frames, const char *data, size_t size) {
  for (size_t at = 0; at < size;) {
    if (frames->stage != FRAME_PAYLOAD) {
      read_byte(frames, (unsigned char)data[at++]);
      continue;
    }
    uint64_t step = frames->left < size - at ? frames->left : size - at;
    frames->left -= step;
    at += step;
    if (frames->left == 0) frames->stage = FRAME_START;
  }
}

void frames_pass(struct stream *stream) {
  struct frames *frames = &stream->frames;
  if (!frames->known) return;
  size_t count = CALLBACK(http_get_body_chunks_size)(stream->filter, ABI_RESPONSE_BODY);
  struct abi_buffer few[FEW_CHUNKS];
  struct abi_buffer *chunks = count <= FEW_CHUNKS ? few : malloc(count * sizeof *chunks);
  frames->known = chunks != NULL && CALLBACK(http_get_body_chunks)(stream->filter, ABI_RESPONSE_BODY, chunks);
  for (size_t i = 0; frames->known && i < count; i++) pass(frames, chunks[i].ptr, chunks[i].length);
  if (chunks != few) free(chunks);
}

bool frames_close(struct stream *stream, int code) {
  struct frames *frames = &stream->frames;
  if (!frames->known || frames->stage != FRAME_START || frames->closed) return false;
  /* It would overtake what is held back. */
  if (stream->phase != STREAM_ADMITTED) return false;
  for (size_t i = 0; i < sizeof CLOSES / sizeof *CLOSES; i++) {
    if (CLOSES[i].code != code) continue;
    /* Envoy may pass the frame through the hooks of this stream. */
    frames->known = false;
    CALLBACK(http_send_response_data)(stream->filter, CLOSES[i].frame, true);
    return true;
  }
  return false;
}

/* The response to the current request begins a WebSocket. */
FOR_LUA void tollgate_websocket(struct state *state) {
  static const struct frames beginning = {.known = true};
  if (state->stream != NULL) state->stream->frames = beginning;
}
