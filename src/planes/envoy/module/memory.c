/* The memory that all threads of the process share: numbers, texts and queues by key. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tollgate.h"

enum { STRIPES = 64, BUCKETS = 65536, MAX_TEXT = 16 * 1024 * 1024 };
/* More is refused: values that clients choose must not fill the machine. */
static const size_t CAPACITY = (size_t)256 * 1024 * 1024;

enum kind { NOTHING, NUMBER, TEXT, QUEUE };

struct entry {
  struct entry *next;
  uint64_t hash;
  double expires; /* 0: never */
  enum kind kind;
  bool pinned; /* Lua has a pointer to it: it is never freed */
  _Atomic double number;
  struct text text;
  struct queue queue;
  size_t key_size;
  char key[];
};

/* Each stripe of buckets has a lock, so that workers seldom wait for each other. */
struct memory {
  pthread_mutex_t locks[STRIPES];
  struct entry *buckets[BUCKETS];
  atomic_size_t used;
};

bool text_add(struct text *text, const char *data, size_t size) {
  if (size == 0) return true;
  if (size > MAX_TEXT || text->size > MAX_TEXT) return false;
  if (text->size + size > text->room) {
    size_t room = (text->size + size) * 2;
    char *bigger = realloc(text->data, room);
    if (bigger == NULL) return false;
    text->data = bigger;
    text->room = room;
  }
  memcpy(text->data + text->size, data, size);
  text->size += size;
  return true;
}

bool text_set(struct text *text, const char *data, size_t size) {
  text->size = 0;
  return text_add(text, data, size);
}

bool queue_add(struct queue *queue, const char *data, size_t size) {
  struct item *item = size > MAX_TEXT ? NULL : malloc(sizeof *item + size);
  if (item == NULL) return false;
  item->next = NULL;
  item->size = size;
  memcpy(item->data, data, size);
  if (queue->last == NULL) queue->first = item;
  else queue->last->next = item;
  queue->last = item;
  queue->length++;
  return true;
}

struct item *queue_take(struct queue *queue) {
  struct item *item = queue->first;
  if (item == NULL) return NULL;
  queue->first = item->next;
  if (queue->first == NULL) queue->last = NULL;
  queue->length--;
  return item;
}

struct memory *memory_new(void) {
  struct memory *memory = calloc(1, sizeof *memory);
  if (memory == NULL) return NULL;
  for (int i = 0; i < STRIPES; i++) pthread_mutex_init(&memory->locks[i], NULL);
  return memory;
}

static struct memory *memory_of(struct state *state) { return state->plane->node->memory; }

static uint64_t hash_of(const char *key, size_t size) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)key[i]) * 1099511628211u;
  return hash ^ (hash >> 32);
}

/* Where the entry of a key is or would be, with the lock of its stripe. */
struct place {
  struct memory *memory;
  pthread_mutex_t *lock;
  uint64_t hash;
  struct entry **at;
};

static size_t size_of(const struct entry *entry) { return sizeof *entry + entry->key_size + entry->text.room; }

static void clear(struct memory *memory, struct entry *entry) {
  atomic_fetch_sub(&memory->used, entry->text.room);
  free(entry->text.data);
  memset(&entry->text, 0, sizeof entry->text);
  for (struct item *item = queue_take(&entry->queue); item != NULL; item = queue_take(&entry->queue)) {
    atomic_fetch_sub(&memory->used, sizeof *item + item->size);
    free(item);
  }
  entry->kind = NOTHING;
  entry->expires = 0;
  atomic_store(&entry->number, 0);
}

static struct place open_place(struct state *state, const char *key, size_t size) {
  struct memory *memory = memory_of(state);
  uint64_t hash = hash_of(key, size);
  struct place place = {memory, &memory->locks[hash % STRIPES], hash, NULL};
  pthread_mutex_lock(place.lock);
  /* All buckets with the same remainder belong to one stripe. */
  struct entry **at = &memory->buckets[hash % BUCKETS];
  while (*at != NULL && ((*at)->hash != hash || (*at)->key_size != size || memcmp((*at)->key, key, size) != 0)) {
    at = &(*at)->next;
  }
  if (*at != NULL && (*at)->expires != 0 && monotonic_ms() >= (*at)->expires) clear(memory, *at);
  place.at = at;
  return place;
}

static void close_place(struct place *place) { pthread_mutex_unlock(place->lock); }

static struct entry *found(const struct place *place) {
  return *place->at != NULL && (*place->at)->kind != NOTHING ? *place->at : NULL;
}

static void release(struct place *place) {
  struct entry *entry = *place->at;
  clear(place->memory, entry);
  if (entry->pinned) return;
  *place->at = entry->next;
  atomic_fetch_sub(&place->memory->used, size_of(entry));
  free(entry);
}

/* The entry of the place, new if necessary. NULL if memory is full. */
static struct entry *create(struct place *place, const char *key, size_t size) {
  if (*place->at != NULL) return *place->at;
  if (atomic_load(&place->memory->used) + size > CAPACITY) return NULL;
  struct entry *entry = calloc(1, sizeof *entry + size);
  if (entry == NULL) return NULL;
  entry->hash = place->hash;
  entry->key_size = size;
  memcpy(entry->key, key, size);
  atomic_fetch_add(&place->memory->used, size_of(entry));
  *place->at = entry;
  return entry;
}

static double deadline(double seconds) { return seconds > 0 ? monotonic_ms() + seconds * 1000 : 0; }

static double add_to(struct entry *entry, double delta) {
  double before = atomic_load_explicit(&entry->number, memory_order_relaxed);
  while (!atomic_compare_exchange_weak(&entry->number, &before, before + delta)) continue;
  return before + delta;
}

/* Takes `cost` if there is as much; returns what is left, or -1. */
static double take_from(struct entry *entry, double cost) {
  double before = atomic_load_explicit(&entry->number, memory_order_relaxed);
  do {
    if (before < cost) return -1;
  } while (!atomic_compare_exchange_weak(&entry->number, &before, before - cost));
  return before - cost;
}

/* The rest is called by Lua. Results other than the returned value are in the context of the state. */

/* Copies, because another thread may change or free what is in memory. */
static bool give(struct state *state, const char *data, size_t size) {
  bool copied = text_set(&state->copied, data, size);
  state->context.data = state->copied.data;
  state->context.size = (int)state->copied.size;
  return copied;
}

static int give_item(struct state *state, struct item *item) {
  bool copied = give(state, item->data, item->size);
  free(item);
  return copied;
}

/* 0: none, 1: a number, 2: a text. */
FOR_LUA int tollgate_get(struct state *state, const char *key, size_t size) {
  struct place place = open_place(state, key, size);
  struct entry *entry = found(&place);
  int kind = entry == NULL || entry->kind == QUEUE ? 0 : entry->kind == NUMBER ? 1 : 2;
  if (kind == 1) state->context.number = atomic_load(&entry->number);
  if (kind == 2 && !give(state, entry->text.data, entry->text.size)) kind = 0;
  close_place(&place);
  return kind;
}

/* Of `add` only: the key exists. */
enum { STORED = 1, NO_ROOM = 0, EXISTS = 2 };

static int store(struct state *state, const char *key, size_t size, const char *text, size_t length, double number,
                 double seconds, bool only_new) {
  struct place place = open_place(state, key, size);
  int result = NO_ROOM;
  if (only_new && found(&place) != NULL) result = EXISTS;
  else if (atomic_load(&place.memory->used) + length <= CAPACITY) {
    struct entry *entry = create(&place, key, size);
    if (entry != NULL) {
      if (entry->kind == QUEUE) clear(place.memory, entry);
      size_t room = entry->text.room;
      bool kept = text == NULL || text_set(&entry->text, text, length);
      atomic_fetch_add(&place.memory->used, entry->text.room - room);
      entry->kind = text == NULL ? NUMBER : TEXT;
      entry->expires = deadline(seconds);
      if (text == NULL) atomic_store(&entry->number, number);
      if (kept) result = STORED;
      else release(&place);
    }
  }
  close_place(&place);
  return result;
}

FOR_LUA int tollgate_set_text(struct state *state, const char *key, size_t size, const char *text, size_t length,
                              double seconds, int only_new) {
  return store(state, key, size, text, length, 0, seconds, only_new != 0);
}

FOR_LUA int tollgate_set_number(struct state *state, const char *key, size_t size, double number, double seconds,
                                int only_new) {
  return store(state, key, size, NULL, 0, number, seconds, only_new != 0);
}

/* Adds to an existing number; creates it with `initial` unless that is NaN. 0 if there is none. */
FOR_LUA int tollgate_add(struct state *state, const char *key, size_t size, double delta, double initial) {
  struct place place = open_place(state, key, size);
  struct entry *entry = found(&place);
  if (entry == NULL && !isnan(initial)) {
    entry = create(&place, key, size);
    if (entry != NULL) {
      entry->kind = NUMBER;
      atomic_store(&entry->number, initial);
    }
  }
  int done = entry != NULL && entry->kind == NUMBER;
  if (done) state->context.number = add_to(entry, delta);
  close_place(&place);
  return done;
}

FOR_LUA void tollgate_delete(struct state *state, const char *key, size_t size) {
  struct place place = open_place(state, key, size);
  if (*place.at != NULL) release(&place);
  close_place(&place);
}

FOR_LUA void tollgate_expire(struct state *state, const char *key, size_t size, double seconds) {
  struct place place = open_place(state, key, size);
  struct entry *entry = found(&place);
  if (entry != NULL) entry->expires = deadline(seconds);
  close_place(&place);
}

/* The new length of the queue; 0 if there is no room. */
FOR_LUA double tollgate_push(struct state *state, const char *key, size_t size, const char *text, size_t length) {
  struct place place = open_place(state, key, size);
  double count = 0;
  size_t needed = sizeof(struct item) + length;
  struct entry *entry = atomic_load(&place.memory->used) + needed > CAPACITY ? NULL : create(&place, key, size);
  if (entry != NULL && (entry->kind == QUEUE || entry->kind == NOTHING) && queue_add(&entry->queue, text, length)) {
    entry->kind = QUEUE;
    atomic_fetch_add(&place.memory->used, needed);
    count = (double)entry->queue.length;
  }
  close_place(&place);
  return count;
}

FOR_LUA int tollgate_pop(struct state *state, const char *key, size_t size) {
  struct place place = open_place(state, key, size);
  struct entry *entry = found(&place);
  struct item *item = entry == NULL ? NULL : queue_take(&entry->queue);
  if (item != NULL) atomic_fetch_sub(&place.memory->used, sizeof *item + item->size);
  close_place(&place);
  if (item == NULL) return 0;
  return give_item(state, item);
}

FOR_LUA double tollgate_length(struct state *state, const char *key, size_t size) {
  struct place place = open_place(state, key, size);
  struct entry *entry = found(&place);
  double count = entry == NULL ? 0 : (double)entry->queue.length;
  close_place(&place);
  return count;
}

FOR_LUA double tollgate_free(struct state *state) {
  size_t used = atomic_load(&memory_of(state)->used);
  return used < CAPACITY ? (double)(CAPACITY - used) : 0;
}

FOR_LUA double tollgate_capacity(void) { return (double)CAPACITY; }

/* A number to which Lua keeps a pointer: it is created with 0 and never freed. NULL if there is no room. */
FOR_LUA void *tollgate_cell(struct state *state, const char *key, size_t size) {
  struct place place = open_place(state, key, size);
  struct entry *entry = create(&place, key, size);
  if (entry != NULL) {
    if (entry->kind != NUMBER) clear(place.memory, entry);
    entry->kind = NUMBER;
    entry->pinned = true;
  }
  close_place(&place);
  return entry;
}

FOR_LUA double tollgate_cell_get(void *cell) { return atomic_load(&((struct entry *)cell)->number); }

FOR_LUA double tollgate_cell_add(void *cell, double delta) { return add_to(cell, delta); }

FOR_LUA double tollgate_cell_take(void *cell, double cost) { return take_from(cell, cost); }
