/*
 * Random WebSocket frames and random bytes in random pieces for frames.c, to be built with sanitizers. A close frame may be sent
 * exactly where a frame of the pod has ended and none of them was a close frame. Arguments: seed, histories.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tollgate.h"

enum { MOST_FRAMES = 12, MOST_PAYLOAD = 70000, MOST_BYTES = MOST_FRAMES * (MOST_PAYLOAD + 14), MOST_CHUNKS = 40, CLOSE = 8 };

static unsigned seed;
static struct abi_buffer chunks[MOST_CHUNKS];
static size_t chunk_count;
static unsigned closes_sent;

static unsigned next(unsigned below) {
  seed = seed * 1664525u + 1013904223u;
  return (seed >> 8) % below;
}

size_t CALLBACK(http_get_body_chunks_size)(void *filter, enum abi_body body) {
  (void)filter, (void)body;
  return chunk_count;
}

bool CALLBACK(http_get_body_chunks)(void *filter, enum abi_body body, struct abi_buffer *into) {
  (void)filter, (void)body;
  memcpy(into, chunks, chunk_count * sizeof *chunks);
  return true;
}

void CALLBACK(http_send_response_data)(void *filter, struct abi_buffer data, bool end_of_stream) {
  (void)filter, (void)end_of_stream;
  if (data.length > 0) closes_sent++;
}

/* The size of the frame at `data`; appends it to nothing else. */
static size_t write_frame(unsigned char *data, unsigned opcode, size_t payload, bool masked) {
  size_t size = 0;
  data[size++] = (unsigned char)(0x80 | opcode);
  unsigned char mask = masked ? 0x80 : 0;
  if (payload < 126) data[size++] = (unsigned char)(mask | payload);
  else if (payload < 65536) {
    data[size++] = mask | 126;
    data[size++] = (unsigned char)(payload >> 8);
    data[size++] = (unsigned char)payload;
  } else {
    data[size++] = mask | 127;
    for (int shift = 56; shift >= 0; shift -= 8) data[size++] = (unsigned char)((uint64_t)payload >> shift);
  }
  if (masked) size += 4;
  memset(data + size, 0x88, payload); /* looks like the beginning of a close frame */
  return size + payload;
}

/* Passes the bytes in pieces that are allocated exactly, so that reading beyond them is noticed. */
static void feed(struct stream *stream, const unsigned char *data, size_t size) {
  while (size > 0) {
    chunk_count = 0;
    while (size > 0 && chunk_count < MOST_CHUNKS && next(4) > 0) {
      size_t piece = 1 + next(size < 2000 ? (unsigned)size : 2000);
      char *copy = malloc(piece);
      memcpy(copy, data, piece);
      chunks[chunk_count++] = (struct abi_buffer){copy, piece};
      data += piece;
      size -= piece;
    }
    frames_pass(stream);
    for (size_t i = 0; i < chunk_count; i++) free((void *)chunks[i].ptr);
  }
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  seed = (unsigned)strtoul(arguments[1], NULL, 10);
  unsigned char *data = malloc(MOST_BYTES);
  for (unsigned long history = strtoul(arguments[2], NULL, 10); history > 0; history--) {
    struct stream stream = {.phase = STREAM_ADMITTED, .frames = {.known = true}};
    bool closed = false, rubbish = next(10) == 0;
    size_t size = 0;
    for (unsigned frames = next(MOST_FRAMES); frames > 0; frames--) {
      unsigned opcode = (unsigned[]){0, 1, 2, CLOSE, 9, 10}[next(6)];
      size_t payload = (unsigned[]){next(126), next(1000), next(MOST_PAYLOAD), 125, 126, 65535, 65536, 0}[next(8)];
      closed = closed || opcode == CLOSE;
      size += write_frame(data + size, opcode, payload, next(2) == 0);
    }
    bool complete = rubbish || size == 0 || next(2) == 0;
    if (!complete) size -= 1 + next(1);
    if (rubbish) {
      for (size_t i = 0; i < size; i++) data[i] = (unsigned char)next(256);
    }
    feed(&stream, data, size);
    unsigned before = closes_sent;
    bool sent = frames_close(&stream, next(2) == 0 ? 1001 : 1013);
    if (sent != (closes_sent == before + 1) || (!rubbish && sent != (complete && !closed))) {
      fprintf(stderr, "seed %s, %lu histories left: sent %d, complete %d, closed %d\n", arguments[1], history, sent, complete, closed);
      return 1;
    }
  }
  free(data);
  puts("passed");
  return 0;
}
